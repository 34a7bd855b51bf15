"""How much the laws try: little in the gate, all of it where LAWS_OPERATIONS is set, as `make laws` does."""

import os

ALL = "LAWS_OPERATIONS" in os.environ
REQUESTS = 1_000 if ALL else 50  # after a message that cannot be made smaller
STRATEGIES = ["hierarchical", "summarize", "truncate", "importance"]
