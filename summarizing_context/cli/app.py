"""The app: all families of commands under one name, and its help."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from summarizing_context.cli import (
    check,
    commands,
    demo,
    eval,
    imports,
    prompts,
    proxy,
    replay,
    serve,
    sessions,
    tune,
    view,
)
from summarizing_context.cli.output import PROGRAM, examples

_ABOUT = (
    "Long agent sessions inside any token budget.\n\n"
    "Every message is kept in a durable log; a background worker summarizes the past; each request gets a view that "
    "fits its budget and never waits for a model. Nothing here needs a key or a network unless you ask for a model."
)
_EXAMPLES = examples(
    "demo    # watch a long session being kept inside 16,000 tokens",
    "replay ~/.claude/projects --budget 32k    # the same for sessions of your own client",
    "demo --keep demo.db    # keep the demo, and look into it",
    "view demo --store demo.db --explain",
    heading="Begin here",
    more={
        "Exit status": (
            "0 all well · 1 a law was broken, a gate or a check failed · 2 bad input\n"
            "3 a view was refused · 4 store or environment · 130 Ctrl-C"
        ),
    },
)
_PANELS = {
    "Try it": "demo replay import check",
    "Look into a store": "sessions inspect view status activations search recall expand ledger memory pins checkpoints "
    "budget",
    "Change a session": "undo summarize compress pin unpin checkpoint restore fork",
    "Serve": "proxy mcp worker",
    "Measure and improve": "eval prompts tune",
}


def build_app() -> typer.Typer:
    """The app with all families of commands."""
    app = typer.Typer(
        name=PROGRAM,
        help=_ABOUT,
        epilog=_EXAMPLES,
        invoke_without_command=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(about)
    for family in (demo, replay, imports, check, sessions, view, commands, serve, proxy, eval, prompts, tune):
        family.register(app)
    _arrange(app)
    return app


def _arrange(app: typer.Typer) -> None:
    """Group the commands of the help."""
    commands: list[Any] = [*app.registered_commands, *app.registered_groups]
    for panel, names in _PANELS.items():
        for one in commands:
            if one.name in names.split():
                one.rich_help_panel = panel


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


_Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


def about(context: typer.Context, version: _Version = False) -> None:
    """Show the help where no command was named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
