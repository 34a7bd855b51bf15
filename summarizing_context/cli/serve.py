"""`summarizing-context mcp`, `inspect` and `worker`: programs that serve until they are told to end.

Agents get the past of a store's sessions as tools, browsers a live page, and hosts the summaries that they ask for.
"""

from __future__ import annotations

import signal
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from summarizing_context.cli.options import (
    ConfigPath,
    OwnSettings,
    PriceModel,
    StorePath,
    SummarizerModel,
    SummarizerName,
    read_address,
    read_place,
    url_of,
)
from summarizing_context.cli.output import InputError, Status, examples, help_text, notices, plain
from summarizing_context.cli.stored import with_store
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store
from summarizing_context.stores.private_files import checked_token, kept_token, token_file

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.postgres.store import PostgresStore


_EXAMPLES = examples(
    "mcp --store run.db    # as a client starts it: over standard input and output",
    "mcp --store run.db --session s1 --http 8379    # tells its address",
)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("inspect", help=help_text(inspect), epilog=_INSPECT_EXAMPLES)(inspect)
    app.command("mcp", help=help_text(mcp), epilog=_EXAMPLES)(mcp)
    app.command("worker", help=help_text(worker), epilog=_WORKER_EXAMPLES)(worker)


def mcp(
    store: StorePath,
    *,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Serve this session only, not the whole store.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve over HTTP. A port alone is on the loopback."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="T",
            envvar="SUMMARIZING_CONTEXT_MCP_TOKEN",
            help="Token that clients over HTTP must send. Default: one of yours, kept in a private file.",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Ask for no token: all who reach the server can read the sessions.")
    ] = False,
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
    token = None if no_token else checked_token(token or kept_token(token_file("mcp-token")))
    with bound_socket(*address) as listening:
        host, port = listening.getsockname()[:2]
        _announce(host, port, token)
        anyio.run(partial(serve_http, token=token), server, listening)
    return Status.OK


def _announce(host: str, port: int, token: str | None) -> None:
    """Say where the server is, what to type for clients, and to whom it is open."""
    url = f"{url_of(host, port)}{'' if token is None else f'/token/{token}'}/mcp"
    lines = [url, f"claude mcp add --transport http context {url}", f"codex mcp add context --url {url}"]
    if token is None:
        lines.append("WARNING: the server asks for no token: all who reach it can read the sessions.")
    if not ip_address(host).is_loopback:
        lines.append(f"WARNING: {host} is open to other machines, and what is sent is not encrypted.")
    notices().print("\n".join(lines), soft_wrap=True)


_INSPECT_EXAMPLES = examples(
    "inspect --store run.db",
    "inspect --store run.db --listen 127.0.0.1:9000 --no-browser",
)


def inspect(
    store: StorePath,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Loopback address to listen on; port 0 picks a free port.")
    ] = "127.0.0.1:8378",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    model: PriceModel = None,
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

    from summarizing_context.inspector import Access, bound_socket, inspector_app, serve

    access = Access()
    with bound_socket(host, port) as listening:
        port = listening.getsockname()[1]
        url = access.link(f"{url_of(host, port)}/{access.folder}")
        notices().print(f"{url}  (opens once; Ctrl-C ends it)", soft_wrap=True)
        if browser:
            webbrowser.open(url)
        anyio.run(serve, inspector_app(store, settings=settings, access=access), listening, access)
    return Status.OK


_WORKER_EXAMPLES = examples(
    "worker --store postgresql://agents@db.example.org/agents --model gpt-5.4-mini --concurrency 16",
    "worker --store postgresql://agents@db.example.org/agents --config agent.toml --fleet-calls 40",
)
_KEPT = "The store keeps it for all workers; -1 removes it."


def worker(
    store: Annotated[
        str, typer.Option("--store", metavar="ADDRESS", parser=read_place, help="postgresql://user@host/database")
    ],
    *,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", metavar="N", min=1, help="Number of summaries made at once.")
    ] = None,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Address of /health and /metrics; port 0 picks a free port."
        ),
    ] = "127.0.0.1:9464",
    drain: Annotated[
        float, typer.Option("--drain", metavar="S", min=0, help="Seconds to finish running work after SIGTERM.")
    ] = 20.0,
    fleet_calls: Annotated[
        int | None, typer.Option(metavar="N", min=-1, help=f"Maximum concurrent calls of all workers. {_KEPT}")
    ] = None,
    fleet_calls_per_minute: Annotated[
        int | None, typer.Option(metavar="N", min=-1, help=f"Maximum calls of all workers per minute. {_KEPT}")
    ] = None,
    config: ConfigPath = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
) -> int:
    """Make the summaries that hosts ask for.

    These hosts have the setting `workers = "pool"` or `"both"`. A worker runs until SIGTERM or Ctrl-C.

    Any number of workers may run, anywhere. One that ends finishes what it makes, or gives it to another; one that is
    killed loses only its calls. It needs the model that the hosts name, and the model's key.
    """
    import anyio

    check_scheme(store)
    if not is_address(store):
        raise InputError(f"--store: {plain(store, 60)!r} is no address; write postgresql://user@host/database")
    host, port = read_address(listen, "--listen")
    settings = OwnSettings(config, None, summarizer, model).load(store=store, concurrency=concurrency)
    anyio.run(_serve, settings, (host, port), drain, (fleet_calls, fleet_calls_per_minute))
    return Status.OK


async def _serve(
    settings: Settings, listen: tuple[str, int], drain: float, caps: tuple[int | None, int | None]
) -> None:
    import asyncio

    from summarizing_context.assembly import open_store
    from summarizing_context.fleet import pool_worker
    from summarizing_context.pool.metrics import PoolMetrics, serving

    metrics, store = PoolMetrics(), cast("PostgresStore", await open_store(settings.store))
    try:
        async with pool_worker(settings, store, metrics, drain_within=drain) as one:
            if caps != (None, None):
                await store.fleet.set(*caps)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, one.drain)
            with serving(*listen, metrics, lambda: one.health) as place:
                notices().print(f"{plain(shown_store(settings.store))}: {place}/health and /metrics", soft_wrap=True)
                await one.run()
    finally:
        await store.close()
    notices().print("The worker has ended; nothing is left under way.")
