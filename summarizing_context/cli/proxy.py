"""`summarizing-context proxy`: any client that lets its base URL be set gets views of its history, without code."""

from __future__ import annotations

from dataclasses import replace
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
from summarizing_context.settings.providers import NAMED

if TYPE_CHECKING:
    from rich.table import Table

    from summarizing_context.proxy.serving import ProxySettings

_LISTEN = "127.0.0.1:8377"

_CLIENT = "client"

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context proxy --store proxy.db    [dim]# then: export ANTHROPIC_BASE_URL=http://127.0.0.1:8377[/dim]

summarizing-context proxy --store proxy.db --budget 60k --summarizer client

summarizing-context proxy --store proxy.db --shadow    [dim]# changes nothing, tells what it would save[/dim]

summarizing-context proxy run --store proxy.db -- claude    [dim]# a free port for one command[/dim]

summarizing-context proxy status
"""

Address = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where it listens. A port alone is one of the loopback.")
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="T",
        envvar="SUMMARIZING_CONTEXT_PROXY_TOKEN",
        help="What clients of other machines must know.",
    ),
]
Anthropic = Annotated[str | None, typer.Option("--anthropic", metavar="URL", help="Anthropic's address, or one alike.")]
OpenAI = Annotated[str | None, typer.Option("--openai", metavar="URL", help="OpenAI's address, or one alike.")]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="N", help="Tokens of a request; by the model's window if not told.")
]
Summarizer = Annotated[
    str | None,
    typer.Option("--summarizer", metavar="NAME", help=f"extractive, {NAMED}, or client: the client's own model."),
]
Shadow = Annotated[bool, typer.Option("--shadow", help="Change nothing; tell what a view would save.")]


def register(app: typer.Typer) -> None:
    """Add the family to the app."""
    family = typer.Typer(help=help_text(serve), epilog=_EXAMPLES, invoke_without_command=True, rich_markup_mode="rich")
    family.callback()(serve)
    family.command("status", help=help_text(status))(status)
    family.command(
        "run",
        help=help_text(run),
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(run)
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
            help="Where the sessions are kept: a SQLite file, or the address of a database.",
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
    )
    from summarizing_context.proxy.serving import address_of, bound_socket
    from summarizing_context.proxy.serving import serve as serve_proxy

    with bound_socket(*read_address(listen)) as listening:
        address = address_of(listening)
        words = f"{address}: ANTHROPIC_BASE_URL={address} OPENAI_BASE_URL={address}/v1; look at {address}/inspect/"
        notices().print(words, soft_wrap=True)
        anyio.run(serve_proxy, proxy, listening)
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
    config: ConfigPath = None,
) -> int:
    """Run one command behind a proxy of its own, at a free port; its exit status is the command's."""
    import anyio

    proxy = _settings(
        store, OwnSettings(config, None, summarizer, model), _given(anthropic, openai, budget), shadow=shadow
    )
    from summarizing_context.proxy.running import run_behind

    return anyio.run(run_behind, proxy, command)


def status(listen: Address = _LISTEN, token: Token = None, json_path: JsonPath = None) -> int:
    """Tell what a running proxy does: its sessions, what was sent, kept and paid."""
    told = _asked(listen, token)
    show_result(json_path, told, _sessions(told))
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
    from summarizing_context.proxy.serving import ProxySettings

    return ProxySettings(settings, lends=lends, **given, **flags)


def _asked(listen: str, token: str | None) -> dict[str, Any]:
    import json
    from urllib.error import URLError
    from urllib.request import ProxyHandler, Request, build_opener

    host, port = read_address(listen)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    headers = {} if token is None else {"x-summarizing-context-token": token}
    try:
        with build_opener(ProxyHandler({})).open(Request(f"{address}/_status", headers=headers), timeout=5) as answer:
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
