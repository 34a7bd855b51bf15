"""Scorers of views that need no model, and the seeded defects that test the scorers.

Nothing is imported here. Import each part from its module.
"""
