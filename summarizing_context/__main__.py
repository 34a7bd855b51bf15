"""`python -m summarizing_context`: the same as the command `summarizing-context`."""

from __future__ import annotations

import sys

from summarizing_context.cli import main

if __name__ == "__main__":
    sys.exit(main())
