"""Where logs, summaries, checkpoints, memories and vectors are kept.

`base` holds the protocols that a store satisfies; `sqlite` is a store, `relational` what stores on databases share.
Another one is written against `base` and goes through `tests/contract`.
"""

from summarizing_context.stores.base import Checkpoint, SearchHit, SessionStore

__all__ = ["Checkpoint", "SearchHit", "SessionStore"]
