"""`summarizing-context inspect`: a page on the sessions of a store, live, in a browser."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from summarizing_context.cli.mcp import read_address
from summarizing_context.cli.output import ConfigPath, Status, StorePath, help_text, notices
from summarizing_context.cli.stored import with_store

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context inspect --store run.db

summarizing-context inspect --store run.db --listen 127.0.0.1:9000 --no-browser
"""
_MODEL = Annotated[
    str | None, typer.Option(metavar="M", help="Model whose prices apply. Default: the setting `model`.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("inspect", help=help_text(inspect), epilog=_EXAMPLES)(inspect)


def inspect(
    store: StorePath,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Loopback address to listen on; port 0 picks a free port.")
    ] = "127.0.0.1:8378",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    model: _MODEL = None,
    config: ConfigPath = None,
) -> int:
    """Show the sessions of a store in a browser: what was summarized, what left the view, what it cost.

    The store is only read, and the page follows its writers. Only an undo that you confirm writes.
    """
    import webbrowser

    import anyio

    from summarizing_context.settings.values import Settings

    host, port = read_address(listen, "--listen")
    given: dict[str, Any] = {} if model is None else {"model": model}
    settings = Settings.load(config, store=store, **given)
    with_store(store, lambda opened: opened.sessions(), read_only=True)  # what is wrong with it is told at once

    from summarizing_context.inspector import bound_socket, inspector_app, serve

    with bound_socket(host, port) as listening:
        port = listening.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        notices().print(f"{url}  (Ctrl-C ends it)", soft_wrap=True)
        if browser:
            webbrowser.open(url)
        anyio.run(serve, inspector_app(store, settings=settings), listening)
    return Status.OK
