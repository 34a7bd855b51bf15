"""Generated cases: seeded sessions of several domains and any length, with planted facts.

Nothing is imported here: `sessions` writes the cases, `facts` plants the facts.
"""
