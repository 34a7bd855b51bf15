"""Tuning: variants of parameters or prompts are tried on one half of the sessions and judged on the other.

Nothing is imported here: `variants` finds candidates, `trials` tries one, `tuner` runs all, `report` writes files.
"""
