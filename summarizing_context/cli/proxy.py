"""`summarizing-context proxy`: any client that lets its base URL be set gets views of its history, without code."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import SERVE, argument, command, flag, option, read_address, url_of
from summarizing_context.cli.output import InputError, Result, dollars, plain, table, tell
from summarizing_context.settings.values import NAMED
from summarizing_context.stores.private_files import checked_token, kept_token, token_file

if TYPE_CHECKING:
    from summarizing_context.contrib.proxy.server import ProxySettings

commands = typer.Typer()
family = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")
commands.add_typer(family, name="proxy", rich_help_panel=SERVE)

_LISTEN = "127.0.0.1:8377"
_TOKEN_FILE, _TOKEN_VARIABLE = "proxy-token", "SUMMARIZING_CONTEXT_PROXY_TOKEN"
_TOKEN = "Token that clients must send. Default: one of yours, kept in a private file."
_NO_TOKEN = "Ask for no token: every user of this machine may use the proxy."
_ABOUT_STORE = "Store of the sessions: a SQLite file or a database address."
_Store = option("FILE", _ABOUT_STORE, parser=options.read_place, envvar="SUMMARIZING_CONTEXT_STORE")

Address = Annotated[str, option("HOST:PORT", "Address to listen on. A port alone is on the loopback.")]
Token = Annotated[str | None, option("T", _TOKEN, envvar=_TOKEN_VARIABLE)]
_SUMMARIZER = f"Summarizer: extractive, {NAMED}, or client (the client's own model)."
_SHADOW = "Send requests unchanged, and report what views would save."


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """Options of a proxy, however it is started."""

    anthropic: Annotated[str | None, option("URL", "Base URL of Anthropic, or of a compatible server.")] = None
    openai: Annotated[str | None, option("URL", "Base URL of OpenAI, or of a compatible server.")] = None
    budget: Annotated[str | None, option("N", "Tokens of a request. Default: from the model's window.")] = None
    summarizer: Annotated[str | None, option("NAME", _SUMMARIZER)] = None
    model: options.SummarizerModel = None
    shadow: Annotated[bool, flag("--shadow", _SHADOW)] = False
    config: options.ConfigPath = None

    def settings(self, store: str, token: str | None = None) -> ProxySettings:
        """Return the settings of the proxy. Raise `InputError`."""
        from summarizing_context.contrib.proxy.server import ProxySettings

        lends = self.summarizer == "client"
        named: dict[str, Any] = {} if lends else {"summarizer": self.summarizer, "model": self.model}
        settings = options.OwnSettings(config=self.config, **named).load(store=store)
        if lends and self.model is not None:
            settings = replace(settings, model=self.model)
        budget = None if self.budget is None else options.read_tokens(self.budget)
        given: dict[str, Any] = {"anthropic": self.anthropic, "openai": self.openai, "budget": budget}
        given["token"] = None if token is None else checked_token(token)
        given = {name: value for name, value in given.items() if value is not None}
        return ProxySettings(settings, lends=lends, shadow=self.shadow, **given)


def serve(
    context: typer.Context,
    given: ProxyOptions,
    store: Annotated[str | None, _Store] = None,
    listen: Address = _LISTEN,
    token: Token = None,
    no_token: Annotated[bool, flag("--no-token", _NO_TOKEN)] = False,
) -> None:
    """Serve a local proxy that keeps the sessions of unmodified clients inside the model's window.

    Point a client's base URL at it. Whatever fails in the proxy, the request goes on unchanged.

    Examples:
        proxy --store proxy.db    # tells the base URLs for clients
        proxy --store proxy.db --budget 60k --summarizer client
        proxy --store proxy.db --shadow    # changes nothing, tells what it would save
        proxy run --store proxy.db -- claude    # a free port for one command
        proxy status
    """
    if context.invoked_subcommand is not None:
        return
    if store is None:
        raise InputError("--store: name the file of the sessions, such as --store proxy.db")
    host, port = read_address(listen)
    if no_token:
        token = None
    elif token is None and ip_address(host).is_loopback:
        token = kept_token(token_file(_TOKEN_FILE))
    proxy = given.settings(store, token)
    from summarizing_context.contrib.proxy import server

    app = server.make_app(proxy, host)  # before the first output: an error is the only line
    with server.bound_socket(host, port) as listening:
        place = server.address_of(listening)
        urls = server.base_urls(place, token)
        words = f"{urls['ANTHROPIC_BASE_URL']}: {' '.join(f'{name}={url}' for name, url in urls.items())}"
        if store != ":memory:":
            words += f"; look at {proxy.access.link(f'{place}/inspect/{proxy.access.folder}')}"
        if token is None:
            words += "\nWARNING: without a token, every user of this machine may use the proxy and read its figures"
        tell(words)
        anyio.run(server.serve, app, listening)


family.callback(**options.help_of(serve.__doc__ or ""))(options.flat(serve))


@command(family)
def status(listen: Address = _LISTEN, token: Token = None) -> Result:
    """Tell what a running proxy does: its sessions, what was sent, kept and paid."""
    told = _asked(listen, token, link="1")
    unchanged, failures = told["passed_unchanged"], told["failures"]
    title = f"{told['requests']:,} requests, {unchanged:,} without a view, {failures:,} failures of the proxy"
    rows = []
    for each in told["sessions"]:
        cached = f"{each['cache_read'] / each['input_tokens']:.0%}" if each["input_tokens"] else "–"
        figures = [each[name] for name in ("requests", "tokens", "view_tokens", "activations")]
        rows.append((plain(each["session"], 80), plain(each["model"], 24), *figures, cached, dollars(each["cost"])))
    names = ("model", "#requests", "#history", "#sent", "#activ.", "#cached", "#cost")
    made = table(title, "session", *names, rows=rows, wide="session")
    inspector = [f"Inspector: {told['inspector']}"] if "inspector" in told else []
    return Result(told, [made, *map(plain, told.get("notices", ())), *inspector])


def _asked(listen: str, token: str | None, **query: str) -> dict[str, Any]:
    """Return the status of a running proxy. Raise `InputError`."""
    address, kept = url_of(*read_address(listen)), token_file(_TOKEN_FILE)
    if token is None and kept.exists():
        token = kept_token(kept)
    headers = {} if token is None else {"x-summarizing-context-token": token}
    try:
        request = Request(f"{address}/_status?{urlencode(query)}", headers=headers)
        with build_opener(ProxyHandler({})).open(request, timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
            return told
    except HTTPError as error:
        raise InputError(f"the proxy at {address} takes another token ({error.code}); give --token") from error
    except (URLError, ValueError, OSError) as error:
        why = type(error).__name__
        raise InputError(f"no proxy answers at {address} ({why}); check --listen and --token") from error


@command(family, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})  # the client's
def run(
    store: options.StorePath,
    command: Annotated[list[str], argument("-- COMMAND", "The client, and its arguments.")],
    given: ProxyOptions,
) -> int:
    """Run one command behind a proxy of its own, at a free port; its exit status is the command's."""
    token = os.environ.get(_TOKEN_VARIABLE) or kept_token(token_file(_TOKEN_FILE))
    proxy = given.settings(store, token)
    from summarizing_context.contrib.proxy.server import run_behind

    return anyio.run(run_behind, proxy, command)
