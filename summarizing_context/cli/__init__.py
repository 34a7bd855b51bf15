"""The command line: `main` runs one command and gives its exit status.

One file holds each group of commands of the help. They are read when a command is run, so that importing is cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from io import TextIOWrapper
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (or the process's own) name; return its exit status."""
    from summarizing_context.cli.output import PROGRAM, Status, explain_failure

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")  # what an encoding other than UTF-8 lacks is no reason to fail
    try:
        status = build_command().main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return explain_failure(error)
    if status == Status.INTERRUPTED and not isinstance(status, Status):  # typer took the Ctrl-C without a word
        return explain_failure(KeyboardInterrupt())
    return status if isinstance(status, int) else 0


@cache
def build_command() -> Any:
    """Return the command with all its families; it may be run again and again."""
    import typer.main

    from summarizing_context.cli.options import app

    for family in ("transcripts", "sessions", "serve"):
        import_module(f"summarizing_context.cli.{family}")
    return typer.main.get_command(app)
