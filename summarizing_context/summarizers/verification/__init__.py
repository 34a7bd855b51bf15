"""Verification: is a model's reply borne out by the source that it was given?

Pure. `gate` is the door: a value that the source does not hold is refused.
"""
