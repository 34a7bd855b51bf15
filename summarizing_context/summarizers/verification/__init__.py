"""Verification: whether a model's reply can serve, and what of it its source bears out.

Pure.
"""

from summarizing_context.summarizers.verification.grounding import Verified, verify

__all__ = ["Verified", "verify"]
