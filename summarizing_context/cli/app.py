"""The app: all commands under one name, and its help."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import typer

from summarizing_context.cli import eval, prompts, proxy, replay, serve, sessions
from summarizing_context.cli.options import help_of
from summarizing_context.cli.output import PROGRAM


@cache
def build_app() -> typer.Typer:
    """Return the app with all commands."""
    app = typer.Typer(
        name=PROGRAM,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        **help_of(_about.__doc__ or ""),
    )
    app.callback()(_about)
    for module in (replay, sessions, serve, proxy, eval, prompts):
        app.add_typer(module.commands)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


def _about(version: _Version = False) -> None:
    """Long agent sessions inside any token budget.

    Every message is kept in a durable log; a background worker summarizes the past; each request gets a view that fits
    its budget and never waits for a model. Nothing here needs a key or a network unless you ask for a model.

    Exit status: 0 all well, 1 a law was broken, a gate or a check failed, 2 bad input, 3 a view was refused, 4 store or
    environment, 130 Ctrl-C.

    Examples:
        demo    # watch a long session being kept inside 16,000 tokens
        replay ~/.claude/projects --budget 32k    # the same for sessions of your own client
        demo --keep demo.db    # keep the demo, and look into it
        view demo --store demo.db --explain
    """
