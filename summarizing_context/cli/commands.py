"""`summarizing-context summarize`, `compress`, `pin`, `expand`, `recall`, ..., on a stored session.

What they do and say is in `commands`; here their arguments are put together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    StorePath,
    example,
    help_text,
    read_tokens,
    screen,
    shell_line,
    write_json,
)
from summarizing_context.cli.search import index_first
from summarizing_context.cli.sessions import find_session

if TYPE_CHECKING:
    from summarizing_context.commands import CommandResult
    from summarizing_context.context import SummarizingContext
    from summarizing_context.settings.values import Settings
    from summarizing_context.views.activation import ActivationReport

    Ask = Callable[[SummarizingContext], Awaitable[CommandResult]]

_EXAMPLES = {
    "summarize": (
        "summarize s1 --store run.db --budget 16k",
        'summarize s1 --store run.db --topic "the staging deploy"',
    ),
    "compress": ("compress s1 --store run.db --importance 0.6",),
    "pin": ("pin s1 12 --store run.db", 'pin s1 "The port is 6543" --store run.db'),
    "unpin": ("unpin s1 p1 --store run.db",),
    "pins": ("pins s1 --store run.db",),
    "expand": ("expand s1 12-47 --store run.db --detail paragraph", "expand s1 12..20 --store run.db"),
    "recall": ("recall s1 failed deploy of staging --store run.db",),
    "memory": ("memory s1 billing tables --store run.db",),
    "ledger": ("ledger s1 --store run.db --only src/",),
    "budget": ("budget s1 --store run.db --budget 16k",),
}
_SESSION = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_WORDS = Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for: plain words.")]
_BUDGET = Annotated[
    str | None,
    typer.Option("--budget", metavar="N", help="Tokens that a view may use; the setting max_tokens if not given."),
]
_NODE = Annotated[
    str, typer.Argument(metavar="NODE", help="A node of the header, '12-47', or messages, '12..20' or '12'.")
]
_PINNED = Annotated[str, typer.Argument(metavar="MESSAGE|TEXT", help="A message's number, or a text.")]
_PIN = Annotated[str, typer.Argument(metavar="ID", help="As 'pins' lists it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for command in (summarize, compress, pin, unpin, pins, expand, recall, memory, ledger, budget):
        name = command.__name__
        app.command(name, help=help_text(command), epilog=example(*_EXAMPLES[name]))(command)


def summarize(
    session: _SESSION,
    store: StorePath,
    *,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="Newest messages that stay raw.")] = 10,
    topic: Annotated[str, typer.Option(metavar="TEXT", help="Keep a note of what the past says about it.")] = "",
    tokens: _BUDGET = None,
    json_path: JsonPath = None,
) -> int:
    """Cover more of a session's past now, so that its next view is shorter. The log stays whole."""

    def ask(context: SummarizingContext) -> Awaitable[ActivationReport]:
        return context.summarize(keep, focus=topic or None)

    return _run(partial(cover, ask), store, session, tokens, json_path, writes=True)


def compress(
    session: _SESSION,
    store: StorePath,
    importance: Annotated[float, typer.Option(metavar="X", help="From 0 to 1.", min=0.0, max=1.0)] = 0.6,
    tokens: _BUDGET = None,
    json_path: JsonPath = None,
) -> int:
    """Cover a session's past now, but keep word for word what is at least so important."""
    return _run(
        partial(cover, lambda context: context.compress(importance)), store, session, tokens, json_path, writes=True
    )


def pin(session: _SESSION, what: _PINNED, store: StorePath, json_path: JsonPath = None) -> int:
    """Keep a message, by its number, or a text in every view of a session."""

    def said(data: Mapping[str, Any]) -> str:
        return f"Pinned as {data['id']}. To give it up: {shell_line('unpin', session, data['id'], store=store)}"

    return _run(f"pin {what}", store, session, None, json_path, writes=True, said=said)


def unpin(session: _SESSION, id: _PIN, store: StorePath, json_path: JsonPath = None) -> int:
    """Give up what was pinned."""
    return _run(f"unpin {id}", store, session, None, json_path, writes=True)


def pins(session: _SESSION, store: StorePath, json_path: JsonPath = None) -> int:
    """List what is pinned in a session."""
    return _run("pins", store, session, None, json_path)


def expand(
    session: _SESSION,
    node: _NODE,
    store: StorePath,
    *,
    detail: Annotated[str, typer.Option(metavar="D", help="line, paragraph or full.")] = "full",
    cursor: Annotated[str, typer.Option(metavar="C", help="Where the page before ended.")] = "",
    json_path: JsonPath = None,
) -> int:
    """Show what stands behind a node of the header, or any messages, page by page."""
    place = "".join(node.split())
    if not place:
        raise InputError("give a node, such as 12-47, or a message's number")

    def said(data: Mapping[str, Any]) -> str:
        onward = data["next_cursor"]
        more = shell_line("expand", session, place, "--cursor", onward, store=store) if onward else ""
        return f"{data['text']}\n\nMore: {more}" if more else data["text"]

    return _run(f"expand {place} {detail} {cursor}", store, session, None, json_path, said=said)


def recall(
    session: _SESSION, words: _WORDS, store: StorePath, tokens: _BUDGET = None, json_path: JsonPath = None
) -> int:
    """One page of what a session's log holds about something and its view leaves out."""
    find_session(store, session)
    index_first(store)
    return _run(f"recall {' '.join(words)}", store, session, tokens, json_path)


def memory(session: _SESSION, words: _WORDS, store: StorePath, json_path: JsonPath = None) -> int:
    """Find memories that the sessions of this one's project keep for each other."""
    return _run(f"memory {' '.join(words)}", store, session, None, json_path)


def ledger(
    session: _SESSION,
    store: StorePath,
    words: Annotated[str, typer.Option("--only", metavar="TEXT", help="Only what holds this.")] = "",
    json_path: JsonPath = None,
) -> int:
    """Paths, commands, errors, URLs and rules of a session, and what became of them; read without a model."""
    return _run(f"ledger {words}", store, session, None, json_path)


def budget(session: _SESSION, store: StorePath, tokens: _BUDGET = None, json_path: JsonPath = None) -> int:
    """How much of its budget a session's view takes."""
    return _run("budget", store, session, tokens, json_path)


def _run(
    command: str | Ask,
    store: Path,
    session: str,
    tokens: str | None,
    json_path: str | None,
    *,
    writes: bool = False,
    said: Callable[[Mapping[str, Any]], str] | None = None,  # where a shell's words differ from a host's
) -> int:
    import anyio

    from summarizing_context.settings.values import Settings

    info = find_session(store, session)
    given: dict[str, Any] = {} if tokens is None else {"max_tokens": read_tokens(tokens)}
    settings = Settings.load(store=store, session_id=session, project=info.project, **given)
    result = anyio.run(partial(_ask, settings, command, writes))
    if not result.ok:
        raise InputError(str(result.data["error"]))
    if json_path is not None:
        write_json(json_path, dict(result.data))
    if json_path != "-":
        text = result.text if said is None else said(result.data)
        screen().print(text, soft_wrap=True)
    return Status.OK


async def cover(
    ask: Callable[[SummarizingContext], Awaitable[ActivationReport]], context: SummarizingContext
) -> CommandResult:
    """Activate, wait until the summarizer has made what the view shows, and have it shown; again where that covers
    more."""
    from summarizing_context.commands import activated

    report = first = again = await ask(context)
    while context.statistics().summaries_pending:
        await context.wait_idle()
        again = await ask(context)
        if not again.activated:
            break
        report = again
    before, after = first.tokens_before, again.tokens_after
    report = report._replace(tokens_before=before, tokens_after=after, freed=before - after)
    return activated(report, context.statistics())


async def _ask(settings: Settings, command: str | Ask, writes: bool) -> CommandResult:
    from summarizing_context.assembly import open_context

    async with open_context(settings, read_only=not writes) as context:
        if not writes:
            await context.get_messages_for_request(token_budget=settings.max_tokens)
        return await (context.handle_command(command) if isinstance(command, str) else command(context))
