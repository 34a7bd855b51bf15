"""Cases: sessions with cuts, and probes that a view at a cut must answer.

Nothing is imported here. Import each part from its module.
"""
