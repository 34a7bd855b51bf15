"""Commands for who operates it: `check`, and `mcp`, `inspect` and `worker`, which serve until they are told to end.

Agents get the past of a store's sessions as tools, browsers a live page, and hosts the summaries that they ask for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from summarizing_context.cli import options
from summarizing_context.cli.options import LOOK, SERVE, TRY, command, flag, option, read_address
from summarizing_context.cli.output import InputError, Result, Status, facts, plain, tell
from summarizing_context.cli.sessions import find_sessions
from summarizing_context.errors import SettingsError, SummarizerError, SummarizingContextError
from summarizing_context.settings.values import PROVIDERS, Settings, check_scheme, is_address, shown_store

commands = typer.Typer()

_FREE = "port 0 picks a free port."


@command(commands, TRY)
def check(own: options.OwnSettings, base_url: options.BaseUrl = None) -> Result:
    """Check that the summarizer answers and the store opens, with one call of a few tokens.

    The exit status is 0 if both are well and 1 if not; the table says what is wrong, and where. With the summarizer
    extractive no model is called. Nothing is written to the store.

    Examples:
        check --config agent.toml
        check --model my-model --base-url http://127.0.0.1:8000/v1 --json -
    """
    settings = own.load(base_url=base_url)
    names = ("host", "model", "problem", "status", "seconds", "input_tokens", "output_tokens")
    asked: dict[str, Any] = {"name": settings.summarizer, **dict.fromkeys(names)}

    async def ask() -> None:
        from summarizing_context.summarizers.providers import make_model
        from summarizing_context.summarizers.resilience import call_within, status_code

        asked["model"] = settings.model
        try:
            model = make_model(settings, read_only=False)
        except SettingsError as error:  # such as no key
            asked["problem"] = str(error)
            return
        asked["host"], began = model.host, time.monotonic()
        try:
            call = model.complete("This checks a connection.", "Answer with the word ok.", 8)
            reply = await call_within(settings.call_timeout, call)
            asked.update(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
            if not reply.text.strip():
                asked["problem"] = "the reply is empty; check that the model answers with text"
        except SummarizerError as error:
            status = status_code(error.__cause__)
            asked.update(problem=str(error) if status is None else f"{error} (HTTP {status})", status=status)
        finally:
            await model.close()
        asked["seconds"] = round(time.monotonic() - began, 3)

    if settings.summarizer in PROVIDERS:
        anyio.run(ask)

    # The store is opened for reading; of a file that is not there yet, look whether it could be made.
    path, about, problem = Path(settings.store), "is made at first use", None
    if is_address(settings.store) or path.exists():
        try:
            about = f"opened, {len(find_sessions(settings.store))} sessions"
        except SummarizingContextError as error:
            about, problem = "opened", str(error)
    elif not (path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)):
        problem = f"its folder {path.parent} is missing, or may not be written"
    opened = {"name": shown_store(settings.store), "about": about, "problem": problem}

    is_well = asked["problem"] is None and problem is None
    called = "no model is called" if asked["host"] is None else f"{asked['model']} at {asked['host']}"
    answered = "ready" if asked["seconds"] is None else f"answered in {asked['seconds']:.1f} s"
    marks = [Text("failed", "bold red") if one["problem"] else Text("ok", "green") for one in (asked, opened)]
    rows = [
        ("summarizer", settings.summarizer, called),
        ("", marks[0], asked["problem"] or answered),
        ("store", marks[1], f"{opened['name']}: {problem or about}"),
    ]
    document = {"ok": is_well, "summarizer": asked, "store": opened}
    return Result(document, [facts("Check", rows)], Status.OK if is_well else Status.LAW_BROKEN)


@command(commands, SERVE)
def mcp(
    store: options.StorePath,
    session: Annotated[str | None, option("ID", "Serve this session only, not the whole store.")] = None,
    config: options.ConfigPath = None,
) -> None:
    """Serve the past of a store's sessions to agents: the tools context_recall, context_search and context_expand.

    The store is only read, and other programs may write it meanwhile. With the settings of the writer in --config, its
    summaries are found too.

    Examples:
        mcp --store run.db    # as a client starts it: over standard input and output
    """
    settings = Settings.load(config, store=store)
    find_sessions(store)  # what is wrong with it is told at once

    from summarizing_context.adapters.mcp import make_server, serve_stdio

    anyio.run(serve_stdio, make_server(settings, session))


@command(commands, LOOK)
def inspect(
    store: options.StorePath,
    listen: Annotated[str, option("HOST:PORT", f"Loopback address to listen on; {_FREE}")] = "127.0.0.1:8378",
    browser: Annotated[bool, flag("--browser/--no-browser", "Open the page in a browser.")] = True,
    config: options.ConfigPath = None,
) -> None:
    """Show the sessions of a store in a browser: what was summarized, what left the view, what it cost.

    The store is only read, and the page follows its writers. Only an undo that you confirm writes.

    Examples:
        inspect --store run.db --listen 127.0.0.1:9000 --no-browser
    """
    import webbrowser

    address = read_address(listen)
    settings = Settings.load(config, store=store)
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
    address = read_address(listen)
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
