"""Measurement of the package: replayed transcripts, laws, evals of summaries, tuning, and the bundled demo session.

Nothing is imported here. Import each part from its module.
"""
