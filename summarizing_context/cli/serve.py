"""`summarizing-context mcp`, `inspect` and `worker`: programs that serve until they are told to end.

Agents get the past of a store's sessions as tools, browsers a live page, and hosts the summaries that they ask for.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from ipaddress import ip_address
from typing import Annotated, Any

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import LOOK, SERVE, command, flag, option, read_address
from summarizing_context.cli.output import InputError, tell
from summarizing_context.cli.sessions import find_sessions
from summarizing_context.cli.tables import plain
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import checked_token, kept_token, token_file

commands = typer.Typer()

_TOKEN = "Token that clients over HTTP must send. Default: one of yours, kept in a private file."
_NO_TOKEN = "Ask for no token: all who reach the server can read the sessions."
_FREE = "port 0 picks a free port."


@command(commands, SERVE)
def mcp(
    store: options.StorePath,
    session: Annotated[str | None, option("ID", "Serve this session only, not the whole store.")] = None,
    http: Annotated[str | None, option("HOST:PORT", "Serve over HTTP. A port alone is on the loopback.")] = None,
    token: Annotated[str | None, option("T", _TOKEN, envvar="SUMMARIZING_CONTEXT_MCP_TOKEN")] = None,
    no_token: Annotated[bool, flag("--no-token", _NO_TOKEN)] = False,
    config: options.ConfigPath = None,
) -> None:
    """Serve the past of a store's sessions to agents: the tools context_recall, context_search and context_expand.

    The store is only read, and other programs may write it meanwhile. With the settings of the writer in --config, its
    summaries are found too.

    Examples:
        mcp --store run.db    # as a client starts it: over standard input and output
        mcp --store run.db --session s1 --http 8379    # tells its address
    """
    address = None if http is None else read_address(http)
    settings = Settings.load(config, store=store)
    find_sessions(store)  # what is wrong with it is told at once

    from summarizing_context.adapters.mcp import bound_socket, make_server, serve_http, serve_stdio

    server = make_server(settings, session)
    if address is None:
        anyio.run(serve_stdio, server)
        return
    token = None if no_token else checked_token(token or kept_token(token_file("mcp-token")))
    with bound_socket(*address) as listening:
        host, port = listening.getsockname()[:2]
        url = f"{options.url_of(host, port)}{'' if token is None else f'/token/{token}'}/mcp"
        lines = [url, f"claude mcp add --transport http context {url}", f"codex mcp add context --url {url}"]
        if token is None:
            lines.append("WARNING: the server asks for no token: all who reach it can read the sessions.")
        if not ip_address(host).is_loopback:
            lines.append(f"WARNING: {host} is open to other machines, and what is sent is not encrypted.")
        tell("\n".join(lines))
        anyio.run(partial(serve_http, token=token), server, listening)


@command(commands, LOOK)
def inspect(
    store: options.StorePath,
    listen: Annotated[str, option("HOST:PORT", f"Loopback address to listen on; {_FREE}")] = "127.0.0.1:8378",
    browser: Annotated[bool, flag("--browser/--no-browser", "Open the page in a browser.")] = True,
    model: Annotated[str | None, option("M", "Model whose prices apply. Default: the setting `model`.")] = None,
    config: options.ConfigPath = None,
) -> None:
    """Show the sessions of a store in a browser: what was summarized, what left the view, what it cost.

    The store is only read, and the page follows its writers. Only an undo that you confirm writes.

    Examples:
        inspect --store run.db
        inspect --store run.db --listen 127.0.0.1:9000 --no-browser
    """
    import webbrowser

    address = read_address(listen, "--listen")
    given: dict[str, Any] = {} if model is None else {"model": model}
    settings = Settings.load(config, store=store, **given)
    find_sessions(store)  # what is wrong with it is told at once

    from summarizing_context.contrib.inspector import Access, bound_socket, inspector_app, serve

    access = Access()
    with bound_socket(*address) as listening:
        url = access.link(f"{options.url_of(*listening.getsockname()[:2])}/{access.folder}")
        tell(f"{url}  (opens once; Ctrl-C ends it)")
        if browser:
            webbrowser.open(url)
        anyio.run(serve, inspector_app(store, settings=settings, access=access), listening, access)


@command(commands, SERVE)
def worker(
    store: Annotated[str, option("ADDRESS", "postgresql://user@host/database", parser=options.read_place)],
    *,
    concurrency: Annotated[int | None, option("N", "Number of summaries made at once.", min=1)] = None,
    listen: Annotated[str, option("HOST:PORT", f"Address of /health and /metrics; {_FREE}")] = "127.0.0.1:9464",
    drain: Annotated[float, option("S", "Seconds to finish running work after SIGTERM.", min=0)] = 20.0,
    own: options.OwnSettings,
) -> None:
    """Make the summaries that hosts ask for.

    These hosts have the setting `workers = "pool"`. A worker runs until SIGTERM or Ctrl-C.

    Any number of workers may run, anywhere. One that ends finishes what it makes, or gives it to another; one that is
    killed loses only its calls. It needs the model that the hosts name, and the model's key.

    Examples:
        worker --store postgresql://agents@db.example.org/agents --model gpt-5.4-mini --concurrency 16
        worker --store postgresql://agents@db.example.org/agents --config agent.toml --drain 60
    """
    check_scheme(store)
    if not is_address(store):  # before what needs the extra is imported
        raise InputError(f"--store: {plain(store, 60)!r} is no address; write postgresql://user@host/database")
    address = read_address(listen, "--listen")
    settings = own.load(store=store, concurrency=concurrency)

    from summarizing_context.assembly import open_store
    from summarizing_context.contrib.postgres.pool import PoolMetrics, pool_worker, serving

    async def serve() -> None:
        metrics, opened = PoolMetrics(), await open_store(settings.store)
        try:
            async with pool_worker(settings, opened, metrics, drain_within=drain) as one:
                loop = asyncio.get_running_loop()
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, one.drain)
                with serving(*address, metrics, lambda: one.health) as place:
                    tell(f"{plain(shown_store(settings.store))}: {place}/health and /metrics")
                    await one.run()
        finally:
            await opened.close()

    anyio.run(serve)
    tell("The worker has ended; nothing is left under way.")
