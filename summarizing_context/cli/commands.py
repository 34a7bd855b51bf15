"""The package's commands on a stored session (`status`, `pin`, `recall`, ...), and `search` in a whole store.

Names, arguments and texts are those of `/context` commands: `commands.COMMANDS` makes both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from summarizing_context.cli.options import ConfigPath, JsonPath, LastBudget, SessionName, StorePath, read_tokens
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
from summarizing_context.commands import COMMANDS, PREFIX, Command, CommandResult, activated

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.base import Match, SessionStore

_MOST = 1_000  # hits
_NEXT = re.compile(rf"{PREFIX} (\w+) (.*)\Z")  # what to type next ends the text of a command


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    lines = ("search billing tables --store run.db", "search src/parser.py --store run.db --session s1 --limit 3")
    app.command("search", help=help_text(search), epilog=examples(*lines))(search)
    for name, command in COMMANDS.items():
        if name not in ("help", "search"):
            words = shlex.join((name, "s1", *([command.example] if command.example else ()), "--store", "run.db"))
            about = f"{command.about[0].upper()}{command.about[1:]}."
            app.command(name, help=about, epilog=examples(words))(_made(name, command))


def _made(name: str, command: Command) -> Callable[..., int]:
    """Return a command of the command line that runs one of the table on a stored session."""

    def on_session(
        session: SessionName,
        words: list[str] | None = None,
        *,
        store: StorePath,
        budget: LastBudget = None,
        config: ConfigPath = None,
        json_path: JsonPath = None,
    ) -> int:
        return _run(name, session, words or (), store, budget, config, json_path)

    def on_session_alone(
        session: SessionName,
        store: StorePath,
        budget: LastBudget = None,
        config: ConfigPath = None,
        json_path: JsonPath = None,
    ) -> int:
        return _run(name, session, (), store, budget, config, json_path)

    _, _, taken = command.usage.partition(" ")
    if not taken:
        return on_session_alone
    told = typer.Argument(metavar=taken, help=f"What `{PREFIX} {name}` takes.")
    on_session.__annotations__["words"] = Annotated[list[str] | None, told]
    return on_session


def _run(
    name: str,
    session: str,
    words: Sequence[str],
    store: str | Path,
    budget: str | None,
    config: Path | None,
    json_path: str | None,
) -> int:
    import anyio

    info = find_session(store, session)
    given: dict[str, Any] = {} if budget is None else {"max_tokens": read_tokens(budget)}
    settings = settings_for(info, config, store=store, project=info.project, **given)
    result = anyio.run(partial(_perform, settings, name, " ".join(words)))
    if not result.ok:
        raise InputError(str(result.data["error"]))

    def in_shell(typed: re.Match[str]) -> str:
        return shell_line(typed[1], session, *typed[2].split(), store=store)

    show_result(json_path, dict(result.data), _NEXT.sub(in_shell, result.text))
    return Status.OK


async def _perform(settings: Settings, name: str, words: str) -> CommandResult:
    from summarizing_context.assembly import open_context
    from summarizing_context.views.activation import ActivationReport

    writes = COMMANDS[name].writes
    async with open_context(settings, read_only=not writes) as context:
        if not writes:
            await context.get_messages_for_request(token_budget=settings.max_tokens)
        first = result = await context.handle_command(f"{name} {words}")
        if name not in ("summarize", "compress"):
            return result
        while context.statistics().summaries_pending:  # until the summarizer has made what the view shows
            await context.wait_idle()
            again = await context.handle_command(f"{name} {words}")
            if not again.data.get("activated"):
                break
            result = again
        if not result.ok or result is first:
            return result
        report = ActivationReport(**{field: result.data[field] for field in ActivationReport._fields})
        before = first.data["tokens_before"]
        report = report._replace(tokens_before=before, freed=before - report.tokens_after)
        return activated(report, context.statistics())


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words to search for.")],
    store: StorePath,
    *,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Search this session only.")] = None,
    project: Annotated[str | None, typer.Option(metavar="TAG", help="Search the sessions of this project.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="Maximum number of hits.")] = 10,
    json_path: JsonPath = None,
) -> int:
    """Find messages, summaries and memories of all sessions by their words, the most relevant first.

    With [bold]--session[/bold], the memories are those that the session shares with its project. Numbers of messages
    are those that [bold]view[/bold] and the log count by, from 0.
    """
    from summarizing_context.messages.search_terms import query_terms
    from summarizing_context.retrieval.memory import matches_by_words
    from summarizing_context.retrieval.search import best_hits, best_matches, fused
    from summarizing_context.stores.base import MemoryScope, Scope

    if session is not None and project is not None:
        raise InputError("--session and --project exclude each other; give one of them")
    scope, memories = Scope(None, None, project), None if project is None else MemoryScope(project, "")
    if session is not None:
        scope, memories = Scope(session, session), MemoryScope(find_session(store, session).project, session)
    query = " ".join(words)
    terms = query_terms(query)

    async def find(opened: SessionStore) -> list[Match]:
        found = best_matches(terms, await opened.index.find(terms, scope, 3 * limit))
        return fused(found, await matches_by_words(opened.memories, memories, query, limit))

    hits = best_hits(terms, with_store(store, find, read_only=True), limit)
    shown = table(f"Found for {plain(query, 60)}", "session", "#messages", "kind", "words", wide="words")
    for hit in hits:
        last = hit.stop - 1
        where = str(hit.start) if last == hit.start else f"{hit.start}–{last}" if hit.start <= last else "–"
        shown.add_row(hit.session_id or "–", where, hit.kind, Text(plain(hit.snippet), style="dim"))
    if not hits:
        shown.caption = "nothing holds any of these words"
    show_result(json_path, {"query": query, "hits": [asdict(hit) for hit in hits]}, shown)
    return Status.OK
