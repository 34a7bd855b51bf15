"""Verification: is a model's reply borne out by the source that it was given?

Pure. `gate` is the door: what holds a value that the source does not hold is left out.
"""

from summarizing_context.summarizers.verification.gate import Verified, verify

__all__ = ["Verified", "verify"]
