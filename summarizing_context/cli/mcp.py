"""`summarizing-context mcp`: the past of a store's sessions as tools for any client of the Model Context Protocol."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated

import typer

from summarizing_context.cli.output import ConfigPath, InputError, Status, StorePath, help_text, notices, plain
from summarizing_context.cli.stored import with_store

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context mcp --store run.db    [dim]# as a client starts it: over standard input and output[/dim]

summarizing-context mcp --store run.db --session s1 --http 8379    [dim]# at http://127.0.0.1:8379/mcp[/dim]
"""
_LOOPBACK = "127.0.0.1"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("mcp", help=help_text(mcp), epilog=_EXAMPLES)(mcp)


def mcp(
    store: StorePath,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Serve this session only, not the whole store.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve over HTTP. A port alone is on the loopback."),
    ] = None,
    config: ConfigPath = None,
) -> int:
    """Serve the past of a store's sessions to agents: the tools context_recall, context_search and context_expand.

    The store is only read, and other programs may write it meanwhile. With the settings of the writer in --config, its
    summaries are found too.
    """
    import anyio

    from summarizing_context.settings.values import Settings

    address = None if http is None else read_address(http)
    settings = Settings.load(config, store=store)
    with_store(store, lambda opened: opened.sessions(), read_only=True)  # what is wrong with it is told at once

    from summarizing_context.adapters.mcp import bound_socket, make_server, serve_http, serve_stdio

    server = make_server(settings, session)
    if address is None:
        anyio.run(serve_stdio, server)
        return Status.OK
    with bound_socket(*address) as listening:
        _announce(*listening.getsockname()[:2])
        anyio.run(serve_http, server, listening)
    return Status.OK


def read_address(text: str, option: str = "--http") -> tuple[str, int]:
    """An IP address and a port. Raises `InputError`."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or _LOOPBACK
    host = _LOOPBACK if host == "localhost" else host
    try:
        ip_address(host)
    except ValueError as error:
        raise InputError(
            f"{option}: {plain(host, 60)!r} is not an IP address; write it like {_LOOPBACK}:8379"
        ) from error
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise InputError(f"{option}: {plain(port, 20)!r} is not a port; give a number up to 65535, such as 8379")
    return host, int(port)


def _announce(host: str, port: int) -> None:
    """Say where the server is, and to whom it is open."""
    console = notices()
    console.print(f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp", soft_wrap=True)
    if not ip_address(host).is_loopback:
        console.print("The server asks for no password: all who reach it can read the sessions.", soft_wrap=True)
