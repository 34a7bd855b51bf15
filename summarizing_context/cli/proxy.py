"""`summarizing-context proxy`: any client that lets its base URL be set gets views of its history, without code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import SERVE, argument, command, flag, option, read_address, url_of
from summarizing_context.cli.output import InputError, Result, Status, confirm, screen, stop_asked, tell
from summarizing_context.cli.tables import dollars, number, plain, table
from summarizing_context.contrib.proxy import installation
from summarizing_context.contrib.proxy.installation import Command, Edit, config_file, read_codex
from summarizing_context.settings.providers import NAMED, PROVIDERS
from summarizing_context.stores.private_files import checked_token, kept_token, token_file

if TYPE_CHECKING:
    from summarizing_context.contrib.proxy.server import ProxySettings

commands = typer.Typer()
family = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")
commands.add_typer(family, name="proxy", rich_help_panel=SERVE)

_LISTEN = "127.0.0.1:8377"
_STARTS_WITHIN = 20.0  # seconds, for the service
_TOKEN_FILE, _TOKEN_VARIABLE = "proxy-token", "SUMMARIZING_CONTEXT_PROXY_TOKEN"
_TOKEN = "Token that clients must send. Default: one of yours, kept in a private file."
_NO_TOKEN = "Ask for no token: every user of this machine may use the proxy."
_STORE = "Store of the sessions: a SQLite file or a database address."

Address = Annotated[str, option("HOST:PORT", "Address to listen on. A port alone is on the loopback.")]
Token = Annotated[str | None, option("T", _TOKEN, envvar=_TOKEN_VARIABLE)]
_DryRun = Annotated[bool, flag("--dry-run", "Show what would be written; write nothing.")]
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
        named = {} if lends else {"summarizer": self.summarizer, "model": self.model}
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
    store: Annotated[
        str | None, option("FILE", _STORE, parser=options.read_place, envvar="SUMMARIZING_CONTEXT_STORE")
    ] = None,
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
        proxy enable --store ~/.local/share/proxy.db    # for all clients; disable takes it back
        proxy watch
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
        urls = installation.base_urls(place, token)
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
    inspector = [f"Inspector: {told['inspector']}"] if "inspector" in told else []
    notices = map(plain, told.get("notices", ()))
    return Result(told, [table(title, "session", *names, rows=rows, wide="session"), *notices, *inspector])


@command(family)
def watch(
    listen: Address = _LISTEN,
    token: Token = None,
    once: Annotated[bool, flag("--once", "Show the requests so far, and exit.")] = False,
    lines: Annotated[bool, flag("--json", "Print each request as one line of JSON.")] = False,
) -> None:
    """Watch a running proxy: a line for each request, with its activation, prefix kept and cost. Ctrl-C ends it."""
    seen = 0
    with stop_asked() as asked:
        while not asked:
            told = _asked(listen, token, after=str(seen))
            for each in told["records"]:
                kept = "" if each["prefix_kept"] is None else f", {each['prefix_kept']:.0%} of the prefix kept"
                reason = (each["activation"] or "").replace("_", " ") + (", again" if each["replayed"] else "")
                at, tokens = f"{datetime.fromtimestamp(each['at']):%H:%M:%S}", number(each["tokens"])
                words = (
                    f"{at}  {each['session']}  {each['status'] or 'no answer'}  {number(each['view_tokens'])} of "
                    f"{tokens} tokens sent{kept}, {each['own_ms']:.1f} ms, {dollars(each['cost'])}"
                    f"{f'; {reason}' if reason else ''}"
                )
                print(json.dumps(each) if lines else plain(words), flush=True)
                seen = each["number"]
            if told["requests"] < seen:  # another proxy stands in the place of the first
                seen = 0
            if once:
                break
            time.sleep(0.5)


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


@command(family)
def enable(
    store: options.StorePath,
    given: ProxyOptions,
    listen: Address = _LISTEN,
    shell: Annotated[str | None, option("NAME", "bash, zsh or fish. Default: from $SHELL.")] = None,
    no_service: Annotated[bool, flag("--no-service", "Write the shell lines only; start the proxy yourself.")] = False,
    yes: options.Yes = False,
    dry_run: _DryRun = False,
) -> int:
    """Send every client of yours through a proxy that starts with your login.

    The lines for the shell and the service are shown in full before they are written. `proxy disable` takes both back.
    """
    proxy = given.settings(store)
    host, port = read_address(listen, "--listen")
    if not ip_address(host).is_loopback or port == 0:
        raise InputError("--listen: clients of this machine ask an address of the loopback; write it like 8377")
    if not no_service and not proxy.lends and proxy.settings.summarizer in PROVIDERS:
        name = proxy.settings.summarizer
        raise InputError(f"a service has no key for --summarizer {name}; take client, or --no-service")
    shell = Path(os.environ.get("SHELL", "")).name if shell is None else shell
    if shell not in installation.SHELLS:
        known = ", ".join(installation.SHELLS)
        raise InputError(f"--shell: {plain(shell, 40)!r} is not known; give one of {known}")
    home, address, kept = Path.home(), url_of(host, port), token_file(_TOKEN_FILE)
    token, new_token = installation.add_token(kept)
    urls = installation.base_urls(address, token)
    for (name, url), provider in zip(urls.items(), ("anthropic", "openai"), strict=True):
        present = os.environ.get(name)  # would be lost: it has to be named as the provider's
        if present and present != url and getattr(given, provider) is None and f"/token/{token}" not in present:
            shown = plain(present, 200)
            raise InputError(f"{name} is {shown} already; add --{provider} {shown} to keep it")

    # How the proxy is started: with the same options, and paths that hold from any folder.
    named: dict[str, Any] = {"store": store if store == ":memory:" or "://" in store else str(Path(store).absolute())}
    named |= {name: getattr(given, name) for name in ("anthropic", "openai", "budget", "summarizer", "model")}
    named["config"] = None if given.config is None else str(given.config.absolute())
    words = [word for name, value in named.items() if value is not None for word in (f"--{name}", value)]
    words += ["--shadow"] if given.shadow else []
    start = [sys.executable, "-m", "summarizing_context", "proxy", *words, "--listen", f"{host}:{port}"]

    # What is to be written: the token, the lines of the shell and of Codex, the service.
    path = installation.shell_files(shell, home, os.environ, sys.platform)[0]
    edits = [new_token, installation.add_lines(path, installation.shell_lines(shell, address, kept))]
    codex, trouble = read_codex(os.environ, home), None
    if codex is not None and (trouble := codex.trouble(token, openai=given.openai)) is None:
        line = f'openai_base_url = "{urls["OPENAI_BASE_URL"]}"'
        edits.append(installation.add_lines(codex.config, [line], is_top=True))
    service = None
    calls: Sequence[Command] = ()
    if not no_service:
        service = installation.service_of(sys.platform, home, os.environ, start)
        unit = installation.add_service(service)
        edits.append(unit)
        calls = service.start if unit is None else service.restart
    changes = [edit for edit in edits if edit is not None]
    if not changes:
        tell("everything is written already")
    if not _agreed("Write", changes, calls, yes=yes, dry_run=dry_run):
        return Status.OK

    # Write it all, start the service and wait until it answers; else all is as it was before.
    for edit in changes:
        edit.apply()
    failed = _called(calls) or (None if service is None else _silent(f"{host}:{port}", token))
    if failed is not None and service is not None:
        _called(service.stop)
        for edit in reversed(changes):
            edit.undo()
        _called(service.forget)
        told = (
            f"{failed}: no service can start the proxy, and nothing is left of what was to be written. Send one client "
            "through with `summarizing-context proxy run`, or start the proxy yourself and give --no-service"
        )
        tell(plain(told, 600))
        return Status.ENVIRONMENT
    tell(f"new shells send their clients to {address}; `summarizing-context proxy disable` takes it back")
    if trouble is not None:
        tell(f"Codex goes on without the proxy: {plain(trouble, 600)}")
    if no_service:
        tell(f"WARNING: no client works until you start the proxy: {shlex.join(start)}")
    return Status.OK


def _silent(listen: str, token: str) -> str | None:
    """Wait until the proxy answers; return why it does not, or None."""
    ends = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            _asked(listen, token)
            return None
        except InputError as error:
            if isinstance(error.__cause__, HTTPError) or time.monotonic() > ends:  # another program will not change
                return f"the service manager started it, but {error}"
        time.sleep(0.2)


@command(family)
def disable(*, yes: options.Yes = False, dry_run: _DryRun = False) -> int:
    """Take back what `proxy enable` has written: the marked lines of each shell, and the service.

    Both are shown first. Everything else in these files stays byte for byte.
    """
    home = Path.home()
    shells = (installation.shell_files(shell, home, os.environ, sys.platform) for shell in installation.SHELLS)
    paths = [*(path for files in shells for path in files), config_file(os.environ, home)]
    service = installation.service_of(sys.platform, home, os.environ, [])
    unit = installation.remove_service(service)
    edits = [edit for edit in (*map(installation.remove_lines, paths), unit) if edit is not None]
    if not edits:
        tell("nothing to remove")
        return Status.OK
    if (held := installation.read_file(kept := token_file(_TOKEN_FILE))) is not None:
        edits.append(installation.Edit(kept, held, None, "(the token of the proxy)"))
    calls = [*service.stop, *service.forget] if unit is not None else []
    if not _agreed("Remove", edits, calls, yes=yes, dry_run=dry_run):
        return Status.OK
    failed = _called(service.stop) if unit is not None else None
    for edit in edits:
        edit.apply()
    if unit is not None:
        failed = _called(service.forget) or failed
    if failed is not None:
        tell(plain(f"{failed}; the files are removed, call it by hand", 600))
    tell("shells that are open keep the addresses until they end")
    return Status.OK if failed is None else Status.ENVIRONMENT


def _agreed(word: str, edits: Sequence[Edit], calls: Sequence[Command], *, yes: bool, dry_run: bool) -> bool:
    """Show everything, and ask. Raises `InputError` where the answer is no."""
    lines = []
    for edit in edits:
        note = " (which others can no longer read)" if edit.is_private and edit.before is not None else ""
        lines += [f"{word} in {edit.path}{note}:", edit.shown.rstrip("\n"), ""]
    for line in (*lines, *(f"Run: {' '.join(call.words)}" for call in calls)):
        screen().print(line, soft_wrap=True)
    if not dry_run:
        confirm("Go on?", yes or not edits, "changed")
    return not dry_run


def _called(calls: Sequence[Command]) -> str | None:
    """Call the service manager; return what it could not do, or None."""
    for call in calls:
        try:
            done = subprocess.run(call.words, capture_output=True, text=True, timeout=30, check=False)
            said, failed = done.stderr.strip(), done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = type(error).__name__, True
        if failed and not call.may_fail:
            return f"{' '.join(call.words)} failed ({said[:200]})"
    return None


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
