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

    from summarizing_context.cli import clients, eval, options, output, prompts, replay, serve, sessions, tune

    class Top(options.Group):
        """Lists the commands that stand for themselves; those of one session are named below."""

        def format_help(self, ctx: Any, formatter: Any) -> None:
            for name in sessions.OF_ONE:
                self.commands[name].hidden = True
            super().format_help(ctx, formatter)

    def show_version(asked: bool) -> None:
        if asked:
            from importlib.metadata import version

            typer.echo(f"{output.PROGRAM} {version(output.PROGRAM)}")
            raise typer.Exit

    app = typer.Typer(
        name=output.PROGRAM,
        cls=Top,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        help=_ABOUT,
        epilog="Of one session, as /context in a host (`COMMAND --help` explains one): "
        f"{', '.join([*sessions.OF_ONE, 'continue'])}.",
    )
    shown = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version.")

    @app.callback()
    def about(version: bool = shown) -> None:
        pass

    families = replay.commands, eval.commands, tune.commands, prompts.commands, sessions.commands, serve.commands
    for family in (*families, clients.commands):
        app.add_typer(family)
    return typer.main.get_command(app)


_ABOUT = """Keep long agent sessions inside any token budget.

Exit status: 0 ok, 1 law or check failed, 2 input, 3 no view fits, 4 store.
"""
