"""Commands for who operates it: `check`, and `mcp`, `inspect`, `worker` and `proxy`, which serve until they are ended.
With `--json`, one line says at the start what serves where. `install` and `uninstall` are for plug-ins of coding
clients, which ask the proxy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import webbrowser
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import typer

from summarizing_context.cli import options, output
from summarizing_context.cli.options import SERVE, STORED, JsonPath, OwnSettings, Place, command, option
from summarizing_context.cli.output import PROGRAM, InputError, Result, Status, confirm, plain, tell, write_json
from summarizing_context.cli.sessions import find_sessions, with_store
from summarizing_context.contrib.clients import Plugin
from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.models import dollars
from summarizing_context.settings import PROVIDERS, is_address, shown_store
from summarizing_context.stores.base import SessionStore
from summarizing_context.stores.private_files import checked_token, kept_token, token_file
from summarizing_context.summarizers.providers import make_model
from summarizing_context.summarizers.resilience import call_within, status_code

if TYPE_CHECKING:
    from summarizing_context.contrib.proxy.server import ProxySettings


_JSON = option("PATH", "JSON; - for standard error.", "--json", parser=options.read_place)


@command(STORED)
def check(own: OwnSettings, base_url: options.BaseUrl = None) -> Result:
    """Check that the summarizer answers.

    One call of a few tokens; none with the summarizer extractive. Nothing is written. Exit status 1 if it fails.

    Examples:
        check --model my-model --base-url http://127.0.0.1:8000/v1
    """
    settings = own.load(base_url=base_url)
    names = ("host", "model", "problem", "status", "seconds", "input_tokens", "output_tokens")
    asked: dict[str, Any] = {"name": settings.summarizer, **dict.fromkeys(names)}

    async def ask() -> None:
        model, began = make_model(settings, read_only=False), time.monotonic()
        asked["host"] = model.host
        try:
            call = model.complete("This checks a connection.", "Answer with the word ok.", 8)
            reply = await call_within(settings.call_timeout, call)
        finally:
            asked["seconds"] = round(time.monotonic() - began, 3)
            await model.close()
        problem = None if reply.text.strip() else "the reply is empty; check that the model answers with text"
        asked.update(problem=problem, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)

    if settings.summarizer in PROVIDERS:
        asked["model"] = settings.model
        try:
            with output.progress("waiting for the model", None):
                anyio.run(ask)
        except (SettingsError, SummarizerError) as error:  # such as no key
            status = status_code(error.__cause__)
            asked.update(problem=str(error) if status is None else f"{error} (HTTP {status})", status=status)

    is_well = asked["problem"] is None
    called = "no model is called" if asked["host"] is None else f"{asked['model']} at {asked['host']}"
    answered = asked["problem"] or ("ready" if asked["host"] is None else f"answered in {asked['seconds']:.1f} s")
    rows = [("summarizer", settings.summarizer, called), ("", output.mark(is_well, "ok", "failed"), answered)]
    return Result({"ok": is_well, "summarizer": asked}, [output.facts("Check", rows)], Status(not is_well))


@command(SERVE)
def mcp(
    place: Place,
    session: Annotated[str | None, option("ID", "Serve this session only, not the whole store.")] = None,
    json_path: Annotated[str | None, _JSON] = None,
) -> None:
    """Serve the past of sessions to agents, as tools of MCP.

    These are context_recall, context_search, context_expand and context_compact, over standard input and output.
    The store is only read, and other programs may write it meanwhile. With the settings of the writer in --config, its
    summaries are found too.

    Examples:
        mcp --store run.db
    """
    settings = place.load()
    find_sessions(settings)  # fail here if the store cannot be used

    from summarizing_context.adapters.mcp import make_server, serve_stdio

    server = make_server(settings, session)
    started = {"serves": "mcp", "at": "stdio", "store": shown_store(settings.store), "token_file": None}
    write_json(started, json_path, output=sys.stderr)  # the standard one carries the protocol
    anyio.run(serve_stdio, server)


@command(STORED)
def inspect(
    place: Place,
    listen: Annotated[str, option("HOST:PORT", "Loopback address; port 0 picks a free one.")] = "127.0.0.1:8378",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    json_path: JsonPath = None,
) -> None:
    """Show the sessions of a store in a browser.

    What was summarized, what left the view, what it cost. The store is only read, and the page follows its writers.
    Only pins, and an undo that you confirm, write.

    Examples:
        inspect --store run.db --listen 127.0.0.1:9000 --no-browser
    """
    (host, port, _), settings = options.read_address(listen), place.load()
    find_sessions(settings)  # fail here if the store cannot be used

    from summarizing_context.contrib.inspector import Access, bound_socket, inspector_app, serve
    from summarizing_context.contrib.serving import address_of

    access = Access()
    with bound_socket(host, port) as listening:
        url = access.link(f"{address_of(listening)}/{access.folder}")
        tell(f"{url}  (opens once; Ctrl-C ends it)")
        store = shown_store(settings.store)
        write_json({"serves": "inspect", "at": url, "store": store, "token_file": None}, json_path)
        if browser:
            webbrowser.open(url)
        anyio.run(serve, inspector_app(str(settings.store), settings=settings, access=access), listening, access)


@command(SERVE)
def worker(
    *,
    store: options.StorePath = None,
    concurrency: Annotated[int | None, option("N", "Summaries made at once.", min=1)] = None,
    drain: Annotated[float, option("S", "Seconds to finish after SIGTERM.", min=0)] = 20,
    own: OwnSettings,
    json_path: JsonPath = None,
) -> None:
    """Make the summaries that hosts ask for, on a PostgreSQL store.

    These hosts have the setting `workers = "pool"`. Any number of workers may run, anywhere, until SIGTERM or Ctrl-C.
    One that ends finishes what it makes, or gives it to another; one that is killed loses only its calls. It needs the
    model that the hosts name, and the model's key.

    Examples:
        worker --store postgresql://agents@db/agents --config agent.toml
    """
    settings = own.load(store=store, concurrency=concurrency)
    if not is_address(settings.store):  # before what needs the extra is imported
        raise InputError(f"--store: {plain(settings.store, 60)!r} is no address; write postgresql://user@host/database")

    from summarizing_context.assembly import postgres_door

    pool_worker, name = postgres_door("pool").pool_worker, shown_store(settings.store)

    async def serve(opened: SessionStore) -> None:
        async with pool_worker(settings, opened, drain_within=drain) as one:

            def end() -> None:
                tell("The worker is draining: it takes no more requests, and finishes those under way.")
                one.drain()

            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, end)
            tell(f"{plain(name)}: requests for summaries are answered")
            write_json({"serves": "worker", "at": None, "store": name, "token_file": None}, json_path)
            await one.run()

    with_store(settings, serve, read_only=False)
    tell("The worker has ended; nothing is left under way.")


# The proxy

proxy = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")
options.app.add_typer(proxy, name="proxy", rich_help_panel=SERVE)

LISTEN = "127.0.0.1:8377"
TOKEN_FILE, _TOKEN_VARIABLE = "proxy-token", "SUMMARIZING_CONTEXT_PROXY_TOKEN"

Address = Annotated[str, option("HOST:PORT", "Address; a port alone is on the loopback.")]
_TOKEN = option("T", "Token of clients. Default: kept in a file.", envvar=_TOKEN_VARIABLE, show_envvar=False)
Token = Annotated[str | None, _TOKEN]


@dataclass(frozen=True, kw_only=True)
class ProxyOptions(Place):
    """Options of a proxy, however it is started."""

    anthropic: Annotated[str | None, option("URL", "Base URL of Anthropic, or compatible.")] = None
    openai: Annotated[str | None, option("URL", "Base URL of OpenAI, or compatible.")] = None
    budget: Annotated[int | None, option("N", "Tokens of a request; by model.", parser=options.read_tokens)] = None
    summarizer: Annotated[str | None, option("NAME", f"{', '.join(('extractive', *PROVIDERS, 'client'))}.")] = None
    model: options.SummarizerModel = None
    shadow: Annotated[bool, typer.Option("--shadow", help="Change nothing; count what it would save.")] = False

    def settings(self, token: str | None) -> ProxySettings:
        from summarizing_context.contrib.proxy.server import ProxySettings

        lends = self.summarizer == "client"  # the client's own model summarizes
        named: dict[str, Any] = {} if lends else {"summarizer": self.summarizer, "model": self.model}
        settings = OwnSettings(config=self.config, **named).load(store=self.store, model=self.model)
        if settings.summarizer in PROVIDERS and not self.shadow:  # a missing key is said now, and not by each request
            from summarizing_context.summarizers.providers import make_model

            anyio.run(make_model(settings, read_only=False).close)
        if self.store is None:
            self.load()  # refuse what names no store
        if is_address(settings.store) or os.path.exists(settings.store):
            find_sessions(settings)  # and one that cannot be used: each request would go on without a view
        token, asked = None if token is None else checked_token(token), ("anthropic", "openai")
        urls: dict[str, Any] = {name: url for name in asked if (url := getattr(self, name)) is not None}
        return ProxySettings(settings, budget=self.budget, lends=lends, shadow=self.shadow, token=token, **urls)


def serve(
    context: typer.Context,
    given: ProxyOptions,
    listen: Address = LISTEN,
    token: Token = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let every user of this machine use it.")] = False,
    json_path: JsonPath = None,
) -> None:
    """Serve a proxy that keeps sessions of any client in the window.

    Point a client's base URL at it. Whatever fails in the proxy, the request goes on unchanged.

    Examples:
        proxy --store proxy.db --budget 60k --summarizer client
        proxy run --store proxy.db -- claude
    """
    if context.invoked_subcommand is not None:
        return
    host, port, _ = options.read_address(listen)
    kept = token is None and not no_token and ip_address(host).is_loopback
    token = kept_token(token_file(TOKEN_FILE)) if kept else None if no_token else token
    settings = given.settings(token)
    from summarizing_context.contrib import serving
    from summarizing_context.contrib.proxy import server

    app = server.make_app(settings, host)  # before the first output: an error is the only line
    with serving.bound_socket(host, port) as listening:
        at = serving.address_of(listening)
        urls, store = server.base_urls(at, token), shown_store(settings.settings.store)
        text = f"{urls['ANTHROPIC_BASE_URL']}: {' '.join(f'{name}={url}' for name, url in urls.items())}"
        if store != ":memory:":
            text += f"; look at {settings.access.link(f'{at}/inspect/{settings.access.folder}')}"
        if token is None:
            text += "\nWARNING: without a token, every user of this machine may use the proxy and read its figures"
        tell(text)
        file = str(token_file(TOKEN_FILE)) if kept else None
        write_json({"serves": "proxy", "at": at, "urls": urls, "store": store, "token_file": file}, json_path)
        anyio.run(serving.serve, app, listening)


proxy.callback(**options.help_of(serve.__doc__))(options.flat(serve))


@command(proxy)
def status(listen: Address = LISTEN, token: Token = None) -> Result:
    """Show what a running proxy does: its sessions, what was sent, kept and paid."""
    from urllib.request import ProxyHandler, Request, build_opener  # other commands need no HTTP

    (*_, address), kept = options.read_address(listen), token_file(TOKEN_FILE)
    token = kept_token(kept) if token is None and kept.exists() else token
    headers = {} if token is None else {"x-summarizing-context-token": token}
    try:
        request = Request(f"{address}/_status?link=1", headers=headers)
        with build_opener(ProxyHandler({})).open(request, timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise InputError(f"no proxy answers at {address} ({why}); check --listen and --token") from error
    unchanged, failures = told["passed_unchanged"], told["failures"]
    views = f", {told['plugin_views']:,} views for plug-ins" if told["plugin_views"] else ""
    title = f"{told['requests']:,} requests{views}, {unchanged:,} without a view, {failures:,} failures of the proxy"
    rows, counts = [], ("requests", "tokens", "view_tokens", "activations")
    for each in told["sessions"]:
        cached = f"{each['cache_read'] / each['input_tokens']:.0%}" if each["input_tokens"] else "–"
        paid, whole = ((each.get("cache") or {}).get(name) for name in ("compared_cost", "plain_cost"))
        less = f"{1 - paid / whole:.0%}" if paid is not None and whole else "–"
        figures = [*(each[name] for name in counts), cached, dollars(each["cost"]), less]
        rows.append([each["session"], plain(each["model"], 24), *figures])
    columns = ("session", "model", "#requests", "#history", "#sent", "#activ.", "#cached", "#cost", "#saved")
    made = output.table(title, columns, rows, wide="session")
    inspector = [f"Inspector: {told['inspector']}"] if "inspector" in told else []
    return Result(told, [made, *map(plain, told.get("notices", ())), *inspector])


@command(proxy, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # the client's
def run(
    command: Annotated[list[str], options.argument("-- COMMAND", "The client, and its arguments.")],
    given: ProxyOptions,
    json_path: JsonPath = None,
) -> int:
    """Run one command behind a proxy of its own, at a free port; its exit status is the command's.

    Requests go on to ANTHROPIC_BASE_URL and OPENAI_BASE_URL, where these are set.
    """
    if command[0].startswith("-"):
        raise InputError(f"{plain(command[0])}: there is no such option; see --help, and give the command behind --")
    named, file = os.environ.get(_TOKEN_VARIABLE), token_file(TOKEN_FILE)
    if os.path.basename(command[0]) != "codex":  # which reads no address from the environment
        asked = (given.anthropic, "ANTHROPIC_BASE_URL"), (given.openai, "OPENAI_BASE_URL")
        anthropic, openai = (url or os.environ.get(variable) or None for url, variable in asked)
        given = replace(given, anthropic=anthropic, openai=openai)
    settings = given.settings(named or kept_token(file))
    from summarizing_context.contrib.proxy.server import run_behind

    store, kept = shown_store(settings.settings.store), None if named else str(file)
    told = {"serves": "proxy", "at": None, "command": command, "store": store, "token_file": kept}
    return anyio.run(run_behind, settings, command, lambda at: write_json(told | {"at": at}, json_path))


# Plug-ins of coding clients

_CLIENT = options.argument("CLIENT", "claude-code, opencode or pi.", show_choices=False)
ClientName = Annotated[Literal["claude-code", "opencode", "pi"], _CLIENT]


@command(SERVE)
def install(
    client: ClientName,
    listen: Annotated[str, option("HOST:PORT", "Address of the proxy that it asks.")] = LISTEN,
    yes: options.Yes = False,
) -> Result:
    """Put a plug-in into a client; `uninstall` removes it.

    The plug-in asks the proxy for views. The client's settings stay as they are: it only adds files. Where the proxy
    does not run, the client goes on as without the plug-in, and says so once.

    Examples:
        install opencode
    """
    plugin = Plugin(client, options.read_address(listen)[2], token_file(TOKEN_FILE))
    found, refusal = plugin.found(), plain(plugin.refusal())
    for path, content in plugin.files.items():
        lines = output.counted(len(content.splitlines()), "line")
        tell(f"  {plain(path)}: {'replaced' if path in found else 'new'}, {lines}")
    confirm(f"Write {'this file' if len(plugin.files) == 1 else 'these files'}?", yes, "installed")
    plugin.write()
    files = [str(path) for path in plugin.files]
    shown = [f"Installed for {client}: {plugin.effect}.", *(f"  {plain(path)}" for path in files)]
    shown.append(f"It asks the proxy at {listen}: {PROGRAM} proxy --store STORE --listen {listen}")
    remarks = [refusal] if refusal else []
    return Result({"client": client, "files": files, "remarks": remarks}, shown, remarks=remarks)


@command(SERVE, hidden=True)  # that of `install` names it
def uninstall(client: ClientName, yes: options.Yes = False) -> Result:
    """Remove a client's plug-in, and nothing else.

    Examples:
        uninstall opencode
    """
    plugin = Plugin(client, "", token_file(TOKEN_FILE))
    if not (found := plugin.found()):
        return Result({"client": client, "files": []}, [f"Nothing is installed for {client}."])
    for path in found:
        tell(f"  {plain(path)}")
    confirm(f"Remove {'this file' if len(found) == 1 else 'these files'}?", yes, "removed")
    plugin.remove()
    return Result({"client": client, "files": list(map(str, found))}, [f"Removed {plain(path)}." for path in found])
