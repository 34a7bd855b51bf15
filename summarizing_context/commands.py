"""`/context ...`: the commands that a person can give in a host that passes slash commands on."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from summarizing_context.errors import SettingsError, SummarizingContextError
from summarizing_context.messages.text import inert

if TYPE_CHECKING:  # a shell that completes a command reads the table, not the engine
    from summarizing_context.context import SummarizingContext
    from summarizing_context.sessions.session import Statistics
    from summarizing_context.views.view import ActivationReport

PREFIX = "/context"
Rows = Sequence[Sequence[object]]  # of a table

_MOST_HITS = 10  # of a search


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command says: for people, for programs (JSON values only), and whether it did what it was asked."""

    text: str
    data: Mapping[str, Any]
    ok: bool = True


class Command(NamedTuple):
    """One command: how it is called, what it does."""

    usage: str
    about: str
    run: Callable[[SummarizingContext, str], Awaitable[CommandResult]]
    example: str = ""  # of its arguments
    writes: bool = False


async def run_command(context: SummarizingContext, text: object) -> CommandResult:
    """Run what was typed, with or without `/context` in front. Its text is inert in a terminal, its data as it is."""
    if not isinstance(text, str):
        return _wrong(f"a command is a text such as '{PREFIX} status', not {type(text).__name__}")
    name, rest = _parted(text)
    name, rest = _parted(rest) if name == PREFIX else (name, rest)
    command = COMMANDS.get(name or "help")
    if command is None:
        near = ["summarize"] if name == "compact" else get_close_matches(name[:40], COMMANDS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"'{PREFIX} help' lists all"
        return _wrong(f"there is no command {name!r:.40}; {hint}", nearest=near[0] if near else None)
    try:
        result = await command.run(context, rest)
    except SummarizingContextError as error:
        return _wrong(str(error), usage=f"{PREFIX} {command.usage}")
    return replace(result, text=inert(result.text))


async def _status(context: SummarizingContext, rest: str) -> CommandResult:
    figures, budget, records, nodes = context.statistics(), context.budget(), context.activations(), context.explain()
    none = "none yet; the next view would be the first, with the blocks below" if nodes else "none yet"
    ready = f"{figures.segments:,}, {figures.summaries_ready:,} of them summarized"
    ready += f", {figures.summaries_pending} pending" if figures.summaries_pending else ""
    failed = f", {figures.summaries_failed} failed" if figures.summaries_failed else ""
    least = f"{figures.least_useful_budget:,} tokens, with system rows and tools"
    cap = "reached: no model is asked" + (" in this session" if figures.cap_ends_in is None else "")

    # What requests took from the provider's prompt cache, and their cost beside that of a plain client.
    cache = figures.cache
    total = max(1, cache.input_tokens + cache.read_tokens + cache.written_tokens)
    paid = f"{cache.read_tokens / total:.0%} of {total:,} tokens sent were read from it, {cache.expiries} expiries"
    if cache.reported < cache.requests:
        paid += f"; {cache.requests - cache.reported} of {cache.requests} requests are estimated"
    if cache.compared_cost is not None and cache.plain_cost is not None:
        paid += f"; ${cache.compared_cost:,.4f}, a plain client ${cache.plain_cost:,.4f}"
        if cache.plain_requests < cache.requests:
            paid += f" in {cache.plain_requests} requests, until its window was full"
    rows = [
        ("budget", f"{budget.used_tokens:,} of {budget.max_tokens:,} tokens ({budget.percent_used:.0%})"),
        ("least useful", least if budget.max_tokens < figures.least_useful_budget else None),
        ("messages", f"{figures.messages:,} ({figures.history_tokens:,} tokens)"),
        ("segments", ready + failed),
        ("activations", f"{len(records)}, the last: {records[-1].why}" if records else none),
        ("stand-ins", figures.stand_ins),
        ("breaker", figures.breaker),
        ("store", figures.store),
        ("cache", paid if cache.requests else None),
        ("cap", cap if figures.cap_reached else None),
        ("last error", figures.last_error or None),
        ("failed last", figures.last_error_at),
    ]
    width = max(len(name) for name, value in rows if value is not None)
    lines = [f"{name.ljust(width)}  {_cell(value, False)}" for name, value in rows if value is not None]
    table = [[node.name, node.form, node.made_by, node.tokens] for node in nodes]
    shown = "\n\n" + _table(("node", "form", "made by", "tokens"), table) if nodes else ""
    described = [{"name": node.name, **node._asdict()} for node in nodes]
    data = {"budget": budget, "statistics": figures, "nodes": described, "activations": len(records)}
    return CommandResult("\n".join(lines) + shown, msgspec.to_builtins(data))


async def _summarize(context: SummarizingContext, rest: str) -> CommandResult:
    keep, topic = (int(rest), None) if _is_count(rest.removeprefix("-")) else (10, rest or None)
    done = activated(await context.summarize(keep, focus=topic), context.statistics())
    return done if topic is None else replace(done, text=f"{done.text}\nTopic: {topic}.")


async def _compress(context: SummarizingContext, rest: str) -> CommandResult:
    try:
        threshold = float(rest or 0.6)
    except ValueError:
        problem = f"{rest!r:.40} is not a number; an importance is one from 0 to 1 ('summarize' takes a topic)"
        raise SettingsError(problem) from None
    return activated(await context.compress(threshold), context.statistics())


def activated(report: ActivationReport, figures: Statistics) -> CommandResult:
    """Return what an activation that was asked for has come to, and when its stand-ins give way."""
    if report.activated:
        said = f"The view now takes {report.tokens_after:,} tokens instead of {report.tokens_before:,}."
        if report.raw:
            older = "older: the first request, and what is pinned, critical or important enough"
            kept = f"; and {report.kept} {older}" if report.kept else ""
            said += f"\nWord for word: the newest {report.raw}, for calls stay with their results{kept}."
    else:
        why = f"the newest {report.raw} messages stay word for word" if report.raw else "covering more would free none"
        said = f"Nothing to summarize: the view takes {report.tokens_after:,} tokens, and {why}."
        if not report.raw and figures.summaries_pending and not figures.cap_reached:
            said += "\nSummaries of it are being made, and may be shorter: ask again."
    if figures.stand_ins and figures.summaries_pending:
        failed, wait = f" (last error: {figures.last_error})" if figures.last_error else "", figures.cap_ends_in
        when = "in a session with a higher one" if wait is None else f"when it ends, in {ceil(wait / 60)} minutes"
        coming = (
            f"The summaries are being made{failed}; they are shown from the next activation on, or when you ask again."
        )
        if figures.cap_reached:
            coming = f"A cap on calls or tokens is reached{failed}: the model's own are made {when}."
        said += f"\n{figures.stand_ins} of its summaries are stand-ins. {coming}"
    return CommandResult(said, {**report._asdict(), "stand_ins": figures.stand_ins})


async def _activations(context: SummarizingContext, rest: str) -> CommandResult:
    rows, records = [], context.activations()
    for one in records:
        at, covered = one.time[:16].replace("T", " "), f"{one.covered_from} to {one.covered_to}"
        rows.append((one.number, at, one.tokens_before, one.tokens_after, one.prefix_kept, covered, one.why))
    heads = ("no.", "time (UTC)", "tokens before", "after", "prefix kept", "covered", "why")
    told = {"activations": [one._asdict() for one in records]}
    return _list(heads, rows, "No activations yet: the whole log is in the view.", told)


async def _undo(context: SummarizingContext, rest: str) -> CommandResult:
    report = await context.undo_activation()
    undid = context.activations()[-1].undoes
    now = f"{report.tokens_after:,} tokens instead of {report.tokens_before:,}"
    said = f"Undid activation {undid}: the view takes {now}, until it needs another one."
    return CommandResult(said, {**report._asdict(), "undid": undid})


async def _pin(context: SummarizingContext, rest: str) -> CommandResult:
    what = _needed(rest, "a message's number, or a text to keep in every view")
    id = await context.pin(int(what) if _is_count(what) else what)
    return CommandResult(f"Pinned as {id}. To remove it: {PREFIX} unpin {id}", {"id": id})


async def _unpin(context: SummarizingContext, rest: str) -> CommandResult:
    await context.unpin(_needed(rest, "the id of a pin, as 'pins' lists it"))
    return CommandResult(f"Unpinned {rest}.", {"unpinned": rest})


async def _pins(context: SummarizingContext, rest: str) -> CommandResult:
    found = context.pins()
    rows = [[pin.id, "" if pin.index is None else pin.index, pin.text or ""] for pin in found]
    told = {"pins": [{"id": pin.id, "message": pin.index, "text": pin.text} for pin in found]}
    return _list(("id", "message", "text"), rows, "Nothing is pinned by a call.", told)


async def _checkpoint(context: SummarizingContext, rest: str) -> CommandResult:
    id = await context.checkpoint(rest or None)
    return CommandResult(f"Checkpoint {id}. To return: {PREFIX} restore {id}", {"id": id, "name": rest or None})


async def _checkpoints(context: SummarizingContext, rest: str) -> CommandResult:
    found = await context.list_checkpoints()
    rows = [[one.id, one.seq, one.created_at[:19].replace("T", " "), one.name] for one in found]
    return _list(("id", "messages", "made", "name"), rows, "No checkpoints yet.", {"checkpoints": found})


async def _restore(context: SummarizingContext, rest: str) -> CommandResult:
    before = await context.restore(_needed(rest, "the id or the name of a checkpoint"))
    return CommandResult(f"Restored {rest}. To return: {PREFIX} restore {before}", {"restored": rest, "before": before})


async def _fork(context: SummarizingContext, rest: str) -> CommandResult:
    of, _, session_id = rest.rpartition(" ")
    id = _needed(of.strip(), "a checkpoint's id or name, and the id of the new session")
    made = await context.fork(id, session_id)
    return CommandResult(f"Session {made} goes on from {id}.", {"from": id, "fork": made})


async def _search(context: SummarizingContext, rest: str) -> CommandResult:
    first, words = _parted(rest)
    is_scope = first in ("--session", "--project", "--all")
    query = _needed(words if is_scope else rest, "words to look for")
    scope: Any = first.removeprefix("--") if is_scope else "session"
    hits = await context.search(query, scope=scope, limit=_MOST_HITS)
    rows = [[hit.session_id, hit.id or _messages(hit.start, hit.stop), hit.kind, hit.snippet] for hit in hits]
    told = {"query": query, "hits": hits}
    found = _list(("session", "where", "kind", "words"), rows, "Nothing holds any of these words.", told)
    only = f"\n\nThese are the best {_MOST_HITS}; more words find others."
    return replace(found, text=found.text + only) if len(hits) == _MOST_HITS else found


async def _expand(context: SummarizingContext, rest: str) -> CommandResult:
    what = _needed(rest, "a node, such as 12-47, or a message's number")
    given = re.fullmatch(r"(\S+)(?:\s+(line|paragraph|full))?(?:\s+(\S*:\S*))?", what)
    if given is None:
        raise SettingsError("behind the node give only its detail (line, paragraph, full) and a cursor")
    node, detail, cursor = given.groups()
    form: Any = detail or (cursor or "full").partition(":")[0]  # a cursor begins with its detail
    page = await context.expand(node, form, cursor=cursor)
    more = f"\n\nMore: {PREFIX} expand {node} {page.next_cursor}" if page.next_cursor else ""
    return CommandResult(page.text + more, asdict(page))


async def _recall(context: SummarizingContext, rest: str) -> CommandResult:
    page = await context.recall(_needed(rest, "words to look for"), 600)  # tokens, which a screen holds
    return CommandResult(page.text, asdict(page))


async def _memory(context: SummarizingContext, rest: str) -> CommandResult:
    found = await context.memory.retrieve(_needed(rest, "words to look for in the project's memories"), limit=10)
    rows = [[entry.id, entry.content] for entry in found]
    told = {"query": rest, "memories": found}
    return _list(("id", "memory"), rows, "No memory holds any of these words.", told)


async def _ledger(context: SummarizingContext, rest: str) -> CommandResult:
    found = [fact for fact in context.ledger() if rest.lower() in f"{fact.kind} {fact.value}".lower()]
    rows = []
    for fact in found:
        last = f"{fact.operation} (superseded)" if fact.superseded else fact.operation
        rows.append((fact.kind, last, _messages(fact.start, fact.stop), fact.value))
    told = {"facts": [fact._asdict() for fact in found]}
    return _list(("kind", "last", "messages", "what"), rows, "The ledger holds nothing like that.", told)


async def _help(context: SummarizingContext, rest: str) -> CommandResult:
    rows = [[f"{PREFIX} {command.usage}", command.about] for command in COMMANDS.values()]
    return _list(("command", "what it does"), rows, "", {"commands": list(COMMANDS)})


_ALL = (
    Command("status", "show how full the view is, and the nodes of its header", _status),
    Command("summarize [KEEP|TOPIC]", "cover all but the newest messages; note a topic", _summarize, "10", writes=True),
    Command("compress [IMPORTANCE]", "cover the past, but keep what is important whole", _compress, "0.6", writes=True),
    Command("activations", "list when and why the view changed, and what it covered", _activations),
    Command("undo", "take back the last activation, until the view needs another one", _undo, writes=True),
    Command("pin MESSAGE|TEXT", "keep a message, by its number, or a text in every view", _pin, "12", writes=True),
    Command("unpin ID", "remove a pin", _unpin, "p1", writes=True),
    Command("pins", "list what is pinned", _pins),
    Command("checkpoint [NAME]", "save the present state", _checkpoint, "start", writes=True),
    Command("checkpoints", "list the checkpoints", _checkpoints),
    Command("restore ID", "go back to a checkpoint; the present is kept as one", _restore, "start", writes=True),
    Command("fork ID SESSION", "begin another session from a checkpoint", _fork, "start s2", writes=True),
    Command("search [--project|--all] QUERY", "find messages, summaries and memories", _search, "failed deploy"),
    Command("expand NODE [line|paragraph|full] [CURSOR]", "show what a node covers", _expand, "12-47"),
    Command("recall QUERY", "show a page of what the view leaves out", _recall, "failed deploy"),
    Command("memory QUERY", "find memories of the project", _memory, "billing"),
    Command("ledger [WORDS]", "list paths, commands, errors and rules, and their state", _ledger, "src/"),
    Command("help", "show this list", _help),
)
COMMANDS = {command.usage.partition(" ")[0]: command for command in _ALL}


def _wrong(text: str, **data: Any) -> CommandResult:
    usage = f"\nUsage: {data['usage']}" if "usage" in data else ""
    return CommandResult(inert(text + usage), {"error": text, **data}, ok=False)


def _parted(text: str) -> tuple[str, str]:
    first, *rest = text.split(maxsplit=1) or [""]
    return first.lower(), rest[0].strip() if rest else ""


def _messages(start: int, stop: int) -> str:
    return str(start) if stop == start + 1 else f"{start}-{stop - 1}"


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _needed(rest: str, what: str) -> str:
    if not rest:
        raise SettingsError(f"give {what}")
    return rest


def _list(columns: Sequence[str], rows: Rows, empty: str, told: Mapping[str, Any]) -> CommandResult:
    return CommandResult(_table(columns, rows) if rows else empty, msgspec.to_builtins(told))


def _table(columns: Sequence[str], rows: Rows) -> str:
    """Return rows under their columns; figures stand to the right, all else to the left. The last column is not cut."""
    made = []
    for at, (name, values) in enumerate(zip(columns, zip(*rows, strict=True), strict=True)):
        cells = [name, *(_cell(value, at < len(columns) - 1) for value in values)]
        wide, figures = max(map(len, cells)), all(isinstance(value, int | float) for value in values)
        cells.insert(1, "-" * wide)
        made.append([cell.rjust(wide) if figures else cell.ljust(wide) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*made, strict=True))


def _cell(value: object, cut: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = " ".join(str("–" if value is None else value).split())
    return text if len(text) <= 60 or not cut else text[:59] + "…"
