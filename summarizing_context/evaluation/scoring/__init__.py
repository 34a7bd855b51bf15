"""Scoring views without a model: one module for each family of scorers, and the seeded defects that try them.

Nothing is imported here: each part is taken from the module that bears its name.
"""
