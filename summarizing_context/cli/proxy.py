"""`summarizing-context proxy`: any client that lets its base URL be set gets views of its history, without code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.mcp import read_address
from summarizing_context.cli.output import (
    ConfigPath,
    InputError,
    JsonPath,
    Status,
    StorePath,
    dollars,
    help_text,
    notices,
    number,
    plain,
    read_tokens,
    show_result,
    table,
)
from summarizing_context.cli.own_settings import OwnSettings, SummarizerModel
from summarizing_context.cli.proxy_setup import DryRun, NoService, Shell, Yes, disable
from summarizing_context.cli.proxy_setup import enable as enable_proxy
from summarizing_context.cli.proxy_watch import watch_lines, watch_screen
from summarizing_context.cli.view import stop_asked
from summarizing_context.settings.providers import NAMED

if TYPE_CHECKING:
    from rich.table import Table

    from summarizing_context.proxy.server import ProxySettings

_LISTEN = "127.0.0.1:8377"

_CLIENT = "client"

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context proxy --store proxy.db    [dim]# then: export ANTHROPIC_BASE_URL=http://127.0.0.1:8377[/dim]

summarizing-context proxy --store proxy.db --budget 60k --summarizer client

summarizing-context proxy --store proxy.db --shadow    [dim]# changes nothing, tells what it would save[/dim]

summarizing-context proxy run --store proxy.db -- claude    [dim]# a free port for one command[/dim]

summarizing-context proxy enable --store ~/.local/share/proxy.db    [dim]# for all clients; disable takes it back[/dim]

summarizing-context proxy watch

summarizing-context proxy status
"""

Address = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on. A port alone is on the loopback.")
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="T",
        envvar="SUMMARIZING_CONTEXT_PROXY_TOKEN",
        help="Token that clients of other machines must send.",
    ),
]
Anthropic = Annotated[
    str | None, typer.Option("--anthropic", metavar="URL", help="Base URL of Anthropic, or of a compatible server.")
]
OpenAI = Annotated[
    str | None, typer.Option("--openai", metavar="URL", help="Base URL of OpenAI, or of a compatible server.")
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="N", help="Tokens of a request. Default: from the model's window.")
]
Summarizer = Annotated[
    str | None,
    typer.Option(
        "--summarizer", metavar="NAME", help=f"Summarizer: extractive, {NAMED}, or client (the client's own model)."
    ),
]
Shadow = Annotated[bool, typer.Option("--shadow", help="Send requests unchanged, and report what views would save.")]
ShadowPays = Annotated[
    bool, typer.Option("--shadow-pays", help="With --shadow: also make (and pay for) summaries by the model.")
]


def register(app: typer.Typer) -> None:
    """Add the family to the app."""
    family = typer.Typer(help=help_text(serve), epilog=_EXAMPLES, invoke_without_command=True, rich_markup_mode="rich")
    family.callback()(serve)
    family.command("status", help=help_text(status))(status)
    family.command("watch", help=help_text(watch))(watch)
    family.command(
        "run",
        help=help_text(run),
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(run)
    family.command("enable", help=help_text(enable))(enable)
    family.command("disable", help=help_text(disable))(disable)
    app.add_typer(family, name="proxy")


def serve(
    context: typer.Context,
    *,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="FILE",
            envvar="SUMMARIZING_CONTEXT_STORE",
            help="Store of the sessions: a SQLite file or a database address.",
        ),
    ] = None,
    listen: Address = _LISTEN,
    anthropic: Anthropic = None,
    openai: OpenAI = None,
    budget: Budget = None,
    summarizer: Summarizer = None,
    model: SummarizerModel = None,
    token: Token = None,
    shadow: Shadow = False,
    shadow_pays: ShadowPays = False,
    config: ConfigPath = None,
) -> int:
    """Serve a local proxy that keeps the sessions of unmodified clients inside the model's window.

    Point a client's base URL at it. Whatever fails in the proxy, the request goes on unchanged.
    """
    if context.invoked_subcommand is not None:
        return Status.OK
    if store is None:
        raise InputError("--store: name the file of the sessions, such as --store proxy.db")
    import anyio

    proxy = _settings(
        store,
        OwnSettings(config, None, summarizer, model),
        _given(anthropic, openai, budget),
        token=token,
        shadow=shadow,
        shadow_pays=shadow_pays,
    )
    from summarizing_context.proxy.server import address_of, bound_socket, make_app
    from summarizing_context.proxy.server import serve as serve_app

    host, port = read_address(listen)
    app = make_app(proxy, host)  # before anything is said: what is wrong is told alone
    with bound_socket(host, port) as listening:
        address = address_of(listening)
        words = f"{address}: ANTHROPIC_BASE_URL={address} OPENAI_BASE_URL={address}/v1; look at {address}/inspect/"
        notices().print(words, soft_wrap=True)
        anyio.run(serve_app, app, listening)
    return Status.OK


def run(
    *,
    store: StorePath,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="The client, and its arguments.")],
    anthropic: Anthropic = None,
    openai: OpenAI = None,
    budget: Budget = None,
    summarizer: Summarizer = None,
    model: SummarizerModel = None,
    shadow: Shadow = False,
    shadow_pays: ShadowPays = False,
    config: ConfigPath = None,
) -> int:
    """Run one command behind a proxy of its own, at a free port; its exit status is the command's."""
    import anyio

    own, given = OwnSettings(config, None, summarizer, model), _given(anthropic, openai, budget)
    proxy = _settings(store, own, given, shadow=shadow, shadow_pays=shadow_pays)
    from summarizing_context.proxy.command import run_behind

    return anyio.run(run_behind, proxy, command)


def enable(
    *,
    store: StorePath,
    listen: Address = _LISTEN,
    anthropic: Anthropic = None,
    openai: OpenAI = None,
    budget: Budget = None,
    summarizer: Summarizer = None,
    model: SummarizerModel = None,
    shadow: Shadow = False,
    shadow_pays: ShadowPays = False,
    config: ConfigPath = None,
    shell: Shell = None,
    no_service: NoService = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Send every client of yours through a proxy that starts with your login.

    The lines for the shell and the service are shown in full before they are written. `proxy disable` takes both back.
    """
    own = OwnSettings(config, None, summarizer, model)
    proxy = _settings(store, own, _given(anthropic, openai, budget), shadow=shadow)
    given = {
        "--store": store if store == ":memory:" or "://" in store else str(Path(store).expanduser().absolute()),
        "--anthropic": anthropic,
        "--openai": openai,
        "--budget": budget,
        "--summarizer": summarizer,
        "--model": model,
        "--config": None if config is None else str(config.expanduser().absolute()),
    }
    words = [word for option, value in given.items() if value is not None for word in (option, value)]
    return enable_proxy(
        [*words, *(["--shadow"] if shadow else []), *(["--shadow-pays"] if shadow_pays else [])],
        listen=listen,
        summarizer=None if proxy.lends else proxy.settings.summarizer,
        upstreams={"--anthropic": anthropic, "--openai": openai},
        shell=shell,
        no_service=no_service,
        yes=yes,
        dry_run=dry_run,
    )


def status(listen: Address = _LISTEN, token: Token = None, json_path: JsonPath = None) -> int:
    """Tell what a running proxy does: its sessions, what was sent, kept and paid."""
    told = _asked(listen, token)
    show_result(json_path, told, _sessions(told))
    return Status.OK


def watch(
    listen: Address = _LISTEN,
    *,
    token: Token = None,
    once: Annotated[bool, typer.Option("--once", help="Show the present state, and exit.")] = False,
    lines: Annotated[bool, typer.Option("--json", help="Print each request as one line of JSON.")] = False,
) -> int:
    """Watch a running proxy: requests as they come, activations, prefix kept, cost. Ctrl-C ends it."""
    show = watch_lines if lines else watch_screen
    with stop_asked() as asked:
        show(lambda after: _asked(listen, token, after), once=once, stop=asked)
    return Status.OK


def _given(anthropic: str | None, openai: str | None, budget: str | None) -> dict[str, Any]:
    tokens = None if budget is None else read_tokens(budget)
    given = {"anthropic": anthropic, "openai": openai, "budget": tokens}
    return {name: value for name, value in given.items() if value is not None}


def _settings(store: str, own: OwnSettings, given: dict[str, Any], **flags: Any) -> ProxySettings:
    lends = own.summarizer == _CLIENT
    settings = (own._replace(summarizer=None, model=None) if lends else own).load(store=store)
    if lends and own.model is not None:
        settings = replace(settings, model=own.model)
    from summarizing_context.proxy.server import ProxySettings

    return ProxySettings(settings, lends=lends, **given, **flags)


def _asked(listen: str, token: str | None, after: int = 0) -> dict[str, Any]:
    import json
    from urllib.error import URLError
    from urllib.request import ProxyHandler, Request, build_opener

    host, port = read_address(listen)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    headers = {} if token is None else {"x-summarizing-context-token": token}
    try:
        request = Request(f"{address}/_status?after={after}", headers=headers)
        with build_opener(ProxyHandler({})).open(request, timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
            return told
    except (URLError, ValueError, OSError) as error:
        raise InputError(
            f"no proxy answers at {address} ({type(error).__name__}); check --listen and --token"
        ) from error


def _sessions(told: dict[str, Any]) -> Table:
    unchanged, failures = told["passed_unchanged"], told["failures"]
    title = f"{told['requests']:,} requests, {unchanged:,} without a view, {failures:,} failures of ours"
    shown = table(
        title, "session", "model", "#requests", "#history", "#sent", "#activations", "#cached", "#cost", wide="session"
    )
    for each in told["sessions"]:
        cached = each["cache_read"] / each["input_tokens"] if each["input_tokens"] else 0
        shown.add_row(
            plain(each["session"], 60), plain(each["model"], 24), number(each["requests"]), number(each["tokens"]),
            number(each["view_tokens"]), number(each["activations"]), f"{cached:.0%}", dollars(each["cost"]),
        )  # fmt: skip
    return shown
