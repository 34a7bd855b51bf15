"""`python -m summarizing_context`: the same as the command `summarizing-context`."""

from __future__ import annotations

import sys

from summarizing_context.cli import main

if __name__ == "__main__":
    status = main()
    exec("")  # else CPython forgets the status and dies of SIGINT if the interrupt came while it built a dataclass
    sys.exit(status)
