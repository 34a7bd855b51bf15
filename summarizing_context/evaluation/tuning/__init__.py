"""Tuning: variants of figures or prompts are tried on one half of the sessions, and judged on the other.

Nothing is imported here. `task` says what to do, `tuner` does it, `report` shows it, `winner` writes what has won.
"""
