"""The app: all families of commands under one name, and what its help says."""

from __future__ import annotations

import typer

from summarizing_context.cli import (
    checkpoints,
    commands,
    completion,
    demo,
    eval,
    prompts,
    replay,
    search,
    sessions,
    status,
    tune,
    view,
)
from summarizing_context.cli.output import PROGRAM

_ABOUT = (
    "Long agent sessions inside any token budget.\n\n"
    "Every message is kept in a durable log; a background worker summarizes the past; each request gets a view that "
    "fits its budget and never waits for a model. Nothing here needs a key or a network unless you ask for a model."
)

_EXAMPLES = f"""[bold]Begin here[/bold]

{PROGRAM} demo    [dim]# watch a long session being kept inside 16,000 tokens[/dim]

{PROGRAM} replay logs/ --budget 8k,16k,64k    [dim]# your own transcripts, judged by the laws[/dim]

{PROGRAM} demo --keep demo.db    [dim]# keep its store, then look into it:[/dim]

{PROGRAM} view demo --store demo.db --budget 16k --explain

{PROGRAM} eval run --cases logs/    [dim]# what views of your transcripts still hold[/dim]

[bold]Exit status[/bold]

0 all well · 1 a law was broken or a gate failed · 2 bad input · 3 a view was refused · 4 store or environment
"""


def build_app() -> typer.Typer:
    """The app with all families of commands."""
    app = typer.Typer(
        name=PROGRAM,
        help=_ABOUT,
        epilog=_EXAMPLES,
        invoke_without_command=True,
        add_completion=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(about)
    for family in (
        demo,
        replay,
        sessions,
        view,
        status,
        search,
        commands,
        checkpoints,
        eval,
        prompts,
        tune,
        completion,
    ):
        family.register(app)
    return app


def about(context: typer.Context) -> None:
    """Show the help where no command was named."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
