"""Replaying logs and judging what their views hold: transcripts, laws, figures, and the bundled demo session.

Nothing is imported here: each part is taken from the module that bears its name.
"""
