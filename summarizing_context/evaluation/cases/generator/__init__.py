"""Generated cases: seeded sessions of several domains, of any length, whose truth is known because it was planted.

Nothing is imported here: `sessions` makes cases, `domains` reads what a domain is made of.
"""
