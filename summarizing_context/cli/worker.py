"""`summarizing-context worker`: makes the summaries that hosts on one PostgreSQL store ask for."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, cast

import typer

from summarizing_context.cli.mcp import read_address
from summarizing_context.cli.output import ConfigPath, InputError, Status, help_text, notices, plain
from summarizing_context.cli.own_settings import OwnSettings, SummarizerModel, SummarizerName
from summarizing_context.settings.addresses import check_scheme, is_address, shown_store

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.postgres.store import PostgresStore

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context worker --store postgresql://agents@db.example.org/agents --model gpt-5.4-mini --concurrency 16

summarizing-context worker --store postgresql://agents@db.example.org/agents --config agent.toml --fleet-calls 40
"""
_KEPT = "The store keeps it for all workers; -1 removes it."


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("worker", help=help_text(worker), epilog=_EXAMPLES)(worker)


def worker(
    store: Annotated[str, typer.Option("--store", metavar="ADDRESS", help="postgresql://user@host/database")],
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
    """Make the summaries that hosts with `workers = "pool"` or `"both"` ask for, until SIGTERM or Ctrl-C.

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
