"""How much the laws try: little in the gate, all of it where LAWS_OPERATIONS is set, as `make laws` does."""

from __future__ import annotations

import os

ALL = "LAWS_OPERATIONS" in os.environ
OPERATIONS = int(os.environ.get("LAWS_OPERATIONS", "900"))  # random ones, a strategy
REQUESTS = 1_000 if ALL else 200  # after a message that cannot be made smaller
AFTER_FIRST = 1_000 if ALL else 500  # requests, after one that comes first
EDITS = 1_000 if ALL else 200  # of a log that is cut into segments
