"""The command line: `main` runs one command and gives its exit status.

One file holds each family of commands; `app` assembles them when a command is run, so that importing is cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (or the process's own) name; return its exit status."""
    from typer.main import get_command

    from summarizing_context.cli.app import build_app
    from summarizing_context.cli.output import PROGRAM, Status, explain_failure

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")  # what an encoding other than UTF-8 lacks is no reason to fail
    given = None if arguments is None else list(arguments)
    try:
        status = get_command(build_app()).main(args=given, prog_name=PROGRAM, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return explain_failure(error)
    if status == Status.INTERRUPTED and not isinstance(status, Status):  # typer took the Ctrl-C without a word
        return explain_failure(KeyboardInterrupt())
    return status if isinstance(status, int) else 0
