"""The command line: `main` runs one command and gives its exit status.

One file holds each family of commands. They are read when a command is run, so that importing is cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from io import TextIOWrapper
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that `arguments` (or the process's own) name; return its exit status."""
    from summarizing_context.cli.output import PROGRAM, Status, explain_failure

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")  # what an encoding other than UTF-8 lacks is no reason to fail
    given = None if arguments is None else list(arguments)
    try:
        status = build_command().main(args=given, prog_name=PROGRAM, standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return explain_failure(error)
    if status == Status.INTERRUPTED and not isinstance(status, Status):  # typer took the Ctrl-C without a word
        return explain_failure(KeyboardInterrupt())
    return status if isinstance(status, int) else 0


@cache
def build_command() -> Any:
    """Return the command with all its families; it may be run again and again."""
    import typer.main

    from summarizing_context.cli import eval, options, output, prompts, proxy, replay, serve, sessions, tune

    def show_version(asked: bool) -> None:
        if asked:
            from importlib.metadata import version

            typer.echo(f"{output.PROGRAM} {version(output.PROGRAM)}")
            raise typer.Exit

    app = typer.Typer(
        name=output.PROGRAM,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        **options.help_of(_ABOUT),
    )
    shown = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version.")

    @app.callback()
    def about(version: bool = shown) -> None:
        pass

    for module in (replay, sessions, serve, proxy, eval, tune, prompts):
        app.add_typer(module.commands)
    return typer.main.get_command(app)


_ABOUT = """Long agent sessions inside any token budget.

Every message is kept in a durable log; a background worker summarizes the past; each request gets a view that fits its
budget and never waits for a model. Nothing here needs a key or a network unless you ask for a model.

Exit status: 0 all well, 1 a law was broken, a gate or a check failed, 2 bad input, 3 a view was refused, 4 store or
environment, 130 Ctrl-C.

Examples:
    demo    # watch a long session being kept inside 16,000 tokens
    replay ~/.claude/projects --budget 32k    # the same for sessions of your own client
    demo --keep demo.db    # keep the demo, and look into it
    view demo --store demo.db --explain
"""
