"""Cases: sessions with places to cut them and probes of what a view must still hold, and where they come from.

Nothing is imported here: each part is taken from the module that bears its name.
"""
