"""`summarizing-context search`, `summarize`, `compress`, `pin`, `expand`, `recall`, ..., on a stored session.

The package's `commands` do the work. Here arguments are read and results printed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import JsonPath, LastBudget, SessionName, StorePath, read_tokens
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    help_text,
    plain,
    shell_line,
    show_result,
    table,
)
from summarizing_context.cli.stored import find_session, settings_for, with_store

if TYPE_CHECKING:
    from summarizing_context.commands import CommandResult
    from summarizing_context.context import SummarizingContext
    from summarizing_context.settings.values import Settings
    from summarizing_context.views.activation import ActivationReport

    Action = Callable[[SummarizingContext], Awaitable[CommandResult]]
    from summarizing_context.stores.base import Match, MemoryScope, Scope, SearchHit, SessionStore

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
_WORDS = Annotated[list[str], typer.Argument(metavar="WORDS", help="Words to search for.")]
_NODE = Annotated[
    str, typer.Argument(metavar="NODE", help="A node of the header, '12-47', or messages, '12..20' or '12'.")
]
_PINNED = Annotated[str, typer.Argument(metavar="MESSAGE|TEXT", help="A message number, or a text.")]
_PIN = Annotated[str, typer.Argument(metavar="ID", help="Id of the pin, as `pins` lists it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("search", help=help_text(search), epilog=_SEARCH_EXAMPLES)(search)
    for command in (summarize, compress, pin, unpin, pins, expand, recall, memory, ledger, budget):
        name = command.__name__
        app.command(name, help=help_text(command), epilog=examples(*_EXAMPLES[name]))(command)


def summarize(
    session: SessionName,
    store: StorePath,
    *,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="Number of newest messages to keep unsummarized.")] = 10,
    topic: Annotated[
        str, typer.Option(metavar="TEXT", help="Also keep a note of what the past says about this topic.")
    ] = "",
    tokens: LastBudget = None,
    json_path: JsonPath = None,
) -> int:
    """Cover more of a session's past now, so that its next view is shorter. The log stays whole."""

    def activate(context: SummarizingContext) -> Awaitable[ActivationReport]:
        return context.summarize(keep, focus=topic or None)

    return _run(partial(cover, activate), store, session, tokens, json_path, writes=True)


def compress(
    session: SessionName,
    store: StorePath,
    importance: Annotated[float, typer.Option(metavar="X", help="From 0 to 1.", min=0.0, max=1.0)] = 0.6,
    tokens: LastBudget = None,
    json_path: JsonPath = None,
) -> int:
    """Cover a session's past now, but keep word for word what is at least so important."""
    return _run(
        partial(cover, lambda context: context.compress(importance)), store, session, tokens, json_path, writes=True
    )


def pin(session: SessionName, what: _PINNED, store: StorePath, json_path: JsonPath = None) -> int:
    """Keep a message, by its number, or a text in every view of a session."""

    def text_of(data: Mapping[str, Any]) -> str:
        return f"Pinned as {data['id']}. To give it up: {shell_line('unpin', session, data['id'], store=store)}"

    return _run(f"pin {what}", store, session, None, json_path, writes=True, text_of=text_of)


def unpin(session: SessionName, id: _PIN, store: StorePath, json_path: JsonPath = None) -> int:
    """Give up what was pinned."""
    return _run(f"unpin {id}", store, session, None, json_path, writes=True)


def pins(session: SessionName, store: StorePath, json_path: JsonPath = None) -> int:
    """List what is pinned in a session."""
    return _run("pins", store, session, None, json_path)


def expand(
    session: SessionName,
    node: _NODE,
    store: StorePath,
    *,
    detail: Annotated[str, typer.Option(metavar="D", help="line, paragraph or full.")] = "full",
    cursor: Annotated[str, typer.Option(metavar="C", help="Cursor from the previous page.")] = "",
    json_path: JsonPath = None,
) -> int:
    """Show what stands behind a node of the header, or any messages, page by page."""
    place = "".join(node.split())
    if not place:
        raise InputError("give a node, such as 12-47, or a message's number")

    def text_of(data: Mapping[str, Any]) -> str:
        onward = data["next_cursor"]
        more = shell_line("expand", session, place, "--cursor", onward, store=store) if onward else ""
        return f"{data['text']}\n\nMore: {more}" if more else data["text"]

    return _run(f"expand {place} {detail} {cursor}", store, session, None, json_path, text_of=text_of)


def recall(
    session: SessionName, words: _WORDS, store: StorePath, tokens: LastBudget = None, json_path: JsonPath = None
) -> int:
    """One page of what a session's log holds about something and its view leaves out."""
    find_session(store, session)
    return _run(f"recall {' '.join(words)}", store, session, tokens, json_path)


def memory(session: SessionName, words: _WORDS, store: StorePath, json_path: JsonPath = None) -> int:
    """Find memories that the sessions of this one's project keep for each other."""
    return _run(f"memory {' '.join(words)}", store, session, None, json_path)


def ledger(
    session: SessionName,
    store: StorePath,
    words: Annotated[
        str, typer.Option("--only", metavar="TEXT", help="Show only entries that contain this text.")
    ] = "",
    json_path: JsonPath = None,
) -> int:
    """Paths, commands, errors, URLs and rules of a session, and what became of them; read without a model."""

    def rows(data: Mapping[str, Any]) -> Table:
        made = table(f"Ledger of {plain(session)}", "kind", "last", "#messages", "what", wide="what")
        made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"  # a path is of use whole only
        for fact in data["facts"]:
            last = fact["stop"] - 1
            where = str(last) if last == fact["start"] else f"{fact['start']}–{last}"
            operation = f"{fact['operation']} (superseded)" if fact["superseded"] else fact["operation"]
            style = "dim" if fact["superseded"] else ""
            made.add_row(fact["kind"], operation, where, plain(fact["value"]), style=style)
        if not data["facts"]:
            made.caption = "nothing like that"
        return made

    return _run(f"ledger {words}", store, session, None, json_path, text_of=rows)


def budget(session: SessionName, store: StorePath, tokens: LastBudget = None, json_path: JsonPath = None) -> int:
    """How much of its budget a session's view takes."""
    return _run("budget", store, session, tokens, json_path)


def _run(
    command: str | Action,
    store: str | Path,
    session: str,
    tokens: str | None,
    json_path: str | None,
    *,
    writes: bool = False,
    text_of: Callable[[Mapping[str, Any]], str | Table] | None = None,  # where a shell needs another text than a host
) -> int:
    import anyio

    info = find_session(store, session)
    given: dict[str, Any] = {} if tokens is None else {"max_tokens": read_tokens(tokens)}
    settings = settings_for(info, store=store, project=info.project, **given)
    result = anyio.run(partial(_perform, settings, command, writes))
    if not result.ok:
        raise InputError(str(result.data["error"]))
    show_result(json_path, dict(result.data), result.text if text_of is None else text_of(result.data))
    return Status.OK


async def cover(
    activate: Callable[[SummarizingContext], Awaitable[ActivationReport]], context: SummarizingContext
) -> CommandResult:
    """Activate, wait until the summarizer has made what the view shows, and have it shown; again where that covers
    more."""
    from summarizing_context.commands import activated

    report = first = again = await activate(context)
    while context.statistics().summaries_pending:
        await context.wait_idle()
        again = await activate(context)
        if not again.activated:
            break
        report = again
    before, after = first.tokens_before, again.tokens_after
    report = report._replace(tokens_before=before, tokens_after=after, freed=before - after)
    return activated(report, context.statistics())


async def _perform(settings: Settings, command: str | Action, writes: bool) -> CommandResult:
    from summarizing_context.assembly import open_context

    async with open_context(settings, read_only=not writes) as context:
        if not writes:
            await context.get_messages_for_request(token_budget=settings.max_tokens)
        return await (context.handle_command(command) if isinstance(command, str) else command(context))


_MOST = 1_000  # hits
_SEARCH_EXAMPLES = examples(
    "search billing tables --store run.db",
    "search src/parser.py --store run.db --session s1 --limit 3",
)


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words to search for.")],
    store: StorePath,
    *,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Search this session only.")] = None,
    project: Annotated[str | None, typer.Option(metavar="TAG", help="Search the sessions of this project.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Search all sessions (the default).")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="Maximum number of hits.")] = 10,
    json_path: JsonPath = None,
) -> int:
    """Find messages, summaries and memories by their words, the most relevant first.

    With [bold]--session[/bold], the memories are those that the session shares with its project. Numbers of messages
    are those that [bold]view[/bold] and the log count by, from 0.
    """
    from summarizing_context.messages.search_terms import query_terms
    from summarizing_context.retrieval.memory import matches_by_words
    from summarizing_context.retrieval.search import best_hits, best_matches, fused

    if sum((session is not None, project is not None, everything)) > 1:
        raise InputError("--session, --project and --all exclude each other; give one of them")
    scope, memory_scope = _scopes(store, session, project)
    query = " ".join(words)
    terms = query_terms(query)

    async def find(opened: SessionStore) -> list[Match]:
        found = best_matches(terms, await opened.index.find(terms, scope, 3 * limit))
        return fused(found, await matches_by_words(opened.memories, memory_scope, query, limit))

    hits = best_hits(terms, with_store(store, find, read_only=True), limit)
    show_result(json_path, {"query": query, "hits": [asdict(hit) for hit in hits]}, _hits_table(query, hits))
    return Status.OK


def _scopes(store: str | Path, session: str | None, project: str | None) -> tuple[Scope, MemoryScope | None]:
    """Whose messages are searched, and whose memories."""
    from summarizing_context.stores.base import MemoryScope, Scope

    if session is not None:
        return Scope(session, session), MemoryScope(find_session(store, session).project, session)
    return Scope(None, None, project), None if project is None else MemoryScope(project, "")


def _hits_table(query: str, hits: list[SearchHit]) -> Table:
    made = table(f"Found for {plain(query, 60)}", "session", "#messages", "kind", "words", wide="words")
    for hit in hits:
        last = hit.stop - 1
        where = str(hit.start) if last == hit.start else f"{hit.start}–{last}" if hit.start <= last else "–"
        made.add_row(hit.session_id or "–", where, hit.kind, Text(plain(hit.snippet), style="dim"))
    if not hits:
        made.caption = "nothing holds any of these words"
    return made
