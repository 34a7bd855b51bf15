"""`summarizing-context search`: find messages, summaries and memories of a store by their words."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    StorePath,
    help_text,
    plain,
    progress_bar,
    screen,
    table,
    write_json,
)
from summarizing_context.cli.sessions import find_session, with_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import Match, MemoryScope, Scope, SearchHit, SessionStore

_MOST = 1_000  # hits

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context search billing tables --store run.db

summarizing-context search src/parser.py --store run.db --session s1 --limit 3
"""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("search", help=help_text(search), epilog=_EXAMPLES)(search)


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="What to look for: plain words.")],
    store: StorePath,
    *,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Search this session only.")] = None,
    project: Annotated[str | None, typer.Option(metavar="TAG", help="Search the sessions of this project.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Search all sessions, as is done anyway.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="Hits to show at most.")] = 10,
    json_path: JsonPath = None,
) -> int:
    """Find messages, summaries and memories by their words, the most relevant first.

    With [bold]--session[/bold], the memories are those that the session shares with its project. What is not indexed
    yet, such as all of a file of an older version, is indexed first, with a bar that shows how far it is. Numbers of
    messages are those that [bold]view[/bold] and the log count by, from 0.
    """
    from summarizing_context.messages.search_terms import query_terms
    from summarizing_context.retrieval.memory import matches_by_words
    from summarizing_context.retrieval.search import best_hits, best_matches, fused

    if sum((session is not None, project is not None, everything)) > 1:
        raise InputError("--session, --project and --all exclude each other; give one of them")
    scope, memory_scope = _scopes(store, session, project)
    query = " ".join(words)
    terms = query_terms(query)
    index_first(store)

    async def find(opened: SessionStore) -> list[Match]:
        found = best_matches(terms, await opened.index.find(terms, scope, 3 * limit))
        return fused(found, await matches_by_words(opened.memories, memory_scope, query, limit))

    hits = best_hits(terms, with_store(store, find, read_only=True), limit)
    if json_path is not None:
        write_json(json_path, {"query": query, "hits": [asdict(hit) for hit in hits]})
    if json_path != "-":
        _show(query, hits)
    return Status.OK


def _scopes(store: Path, session: str | None, project: str | None) -> tuple[Scope, MemoryScope | None]:
    """Whose messages are searched, and whose memories."""
    from summarizing_context.stores.base import MemoryScope, Scope

    if session is not None:
        return Scope(session, session), MemoryScope(find_session(store, session).project, session)
    return Scope(None, None, project), None if project is None else MemoryScope(project, "")


def index_first(store: Path) -> None:
    """Catch up with the index; the file is left alone where nothing is missing, or where it may not be written."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    from summarizing_context.errors import StoreReadOnlyError

    if not with_store(store, lambda opened: opened.index.backlog(), read_only=True):
        return

    async def catch_up(opened: SessionStore) -> None:
        with progress_bar(TextColumn("indexing"), BarColumn(bar_width=24), MofNCompleteColumn()) as bar:
            total = await opened.index.backlog()
            task = bar.add_task("indexing", total=total)
            while total > 0 and (indexed := await opened.index.catch_up()):  # others may be appending
                bar.advance(task, indexed)
                total -= indexed

    with suppress(StoreReadOnlyError):  # what is missing is then indexed in memory, by each search anew
        with_store(store, catch_up)


def _show(query: str, hits: list[SearchHit]) -> None:
    made = table(f"Found for {plain(query, 60)}", "session", "#messages", "kind", "words", wide="words")
    for hit in hits:
        last = hit.stop - 1
        where = str(hit.start) if last == hit.start else f"{hit.start}–{last}" if hit.start <= last else "–"
        made.add_row(hit.session_id or "–", where, hit.kind, Text(plain(hit.snippet), style="dim"))
    if not hits:
        made.caption = "nothing holds any of these words"
    screen().print(made)
