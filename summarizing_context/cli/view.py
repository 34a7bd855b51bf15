"""`summarizing-context view` and `status`: the messages of the next request, and the progress of the summaries."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import (
    ConfigPath,
    JsonPath,
    LastBudget,
    PriceModel,
    SessionName,
    StorePath,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    dollars,
    examples,
    facts,
    harmless_json,
    help_text,
    number,
    plain,
    screen,
    show_result,
    table,
)
from summarizing_context.cli.sessions import moment
from summarizing_context.cli.stored import find_session, settings_for

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.base import SessionInfo

_PAUSE = 0.5  # seconds between two looks of --watch
_WORDS = 400  # characters of a message's text that JSON shows
_EXAMPLES = examples(
    "view s1 --store run.db",
    "view s1 --store run.db --budget 16k --explain    # what each summary stands for",
    "view s1 --store run.db --full | jq -r '.[-1].content'    # the newest message, whole",
)


class Row(NamedTuple):
    """One message of the view."""

    position: int
    part: str
    role: str
    tokens: int
    words: str


class Shown(NamedTuple):
    """A view, and its header's nodes."""

    tokens: int
    budget: int
    rows: Sequence[Row]
    nodes: Sequence[dict[str, Any]]
    messages: Sequence[Mapping[str, Any]]  # as they are sent


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("view", help=help_text(view), epilog=_EXAMPLES)(view)
    app.command("status", help=help_text(status), epilog=_STATUS_EXAMPLE)(status)


def view(
    session: SessionName,
    store: StorePath,
    *,
    budget: LastBudget = None,
    full: Annotated[bool, typer.Option("--full", help="Print the messages exactly as they are sent, as JSON.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show which messages each node of the header stands for.")
    ] = False,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Show the view of a session as the next request would get it.

    The session is opened for reading only: nothing is written, no summary is made, and its writer may go on.
    """
    import anyio

    if full and explain:
        raise InputError("--full prints the messages alone; ask for --explain in another call")
    info = find_session(store, session)
    tokens: dict[str, Any] = {} if budget is None else {"max_tokens": read_tokens(budget)}
    settings = settings_for(info, config, store=store, **tokens)
    shown = anyio.run(partial(_look, settings))
    document = _document(session, shown, explain=explain)
    if full:
        show_result(json_path, {**document, "messages": shown.messages}, harmless_json(shown.messages))
    else:
        tables = [_view_table(session, shown), *([_node_table(shown)] if explain else [])]
        show_result(json_path, document, *tables)
    return Status.OK


async def _look(settings: Settings) -> Shown:
    from summarizing_context.assembly import open_context
    from summarizing_context.evaluation.laws import canonical
    from summarizing_context.evaluation.replay import make_costs
    from summarizing_context.evaluation.view_parts import view_parts
    from summarizing_context.messages.reading import message_text_parts

    async with open_context(settings, read_only=True) as context:
        messages = await context.get_messages_for_request(token_budget=settings.max_tokens)
        parts = view_parts(messages, await context.get_messages())
        costs = await make_costs(settings)
        rows = [
            Row(at, part, message["role"], costs.of(message, canonical(message)), " ".join(message_text_parts(message)))
            for at, (part, message) in enumerate(zip(parts, messages, strict=True))
        ]
        nodes = [
            {
                "rank": node.rank,
                "start": node.start,
                "stop": node.stop,
                "form": node.form,
                "made_by": node.made_by,
                "tokens": costs.count(node.text),
                "text": node.text,
                "drops": list(node.drops),
            }
            for node in context.explain()
        ]
    return Shown(sum(row.tokens for row in rows), settings.max_tokens, rows, nodes, messages)


def _document(session: str, shown: Shown, *, explain: bool) -> dict[str, Any]:
    rows = [row._replace(words=plain(row.words, _WORDS))._asdict() for row in shown.rows]
    document = {"session": session, "tokens": shown.tokens, "budget": shown.budget, "messages": rows}
    return {**document, "header": list(shown.nodes)} if explain else document


def _view_table(session: str, shown: Shown) -> Table:
    title = f"View of {session}: {len(shown.rows)} messages, {number(shown.tokens)} of {number(shown.budget)} tokens"
    made = table(title, "#no.", "part", "role", "#tokens", "first words", wide="first words")
    for row in shown.rows:
        style = {"header": "cyan", "pin": "yellow", "system": "magenta"}.get(row.part, "")
        words = Text(plain(row.words, 160), style="dim" if row.part == "tail" else "")
        made.add_row(str(row.position), Text(row.part, style=style), row.role, number(row.tokens), words)
    return made


def _node_table(shown: Shown) -> Table:
    title = "What each node of the header stands for"
    made = table(title, "#rank", "messages", "#tokens", "form", "made by", "first line", wide="first line")
    for node in shown.nodes:
        rank = "–" if node["rank"] < 0 else str(node["rank"])
        made.add_row(
            rank, f"{node['start']}–{node['stop'] - 1}", number(node["tokens"]), node["form"], node["made_by"],
            Text(_first_line(node["text"]), style="dim"),
        )  # fmt: skip
    if not shown.nodes:
        made.caption = "nothing is covered: the whole log is in the view"
    return made


def _first_line(text: str) -> str:
    """The first line that says something: headings are passed over."""
    lines = [line.strip() for line in text.split("\n")]
    statements = (line.removeprefix("- ") for line in lines if line and not line.startswith(("##", "<")))
    return plain(next(statements, ""), 160)


_STATUS_EXAMPLE = examples(
    "status s1 --store run.db --budget 16k",
    "status s1 --store run.db --watch    # beside the agent that writes it",
)


def status(
    session: SessionName,
    store: StorePath,
    *,
    budget: LastBudget = None,
    model: PriceModel = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update at each change, until Ctrl-C.")] = False,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Show how full a session's view is, and how far its summaries have come.

    The session is opened for reading only; counts of calls are those of this look, not of its writer.
    """
    import anyio

    given: dict[str, Any] = {} if budget is None else {"max_tokens": read_tokens(budget)}
    given |= {} if model is None else {"model": model}
    shown: SessionInfo | None = None
    stop: AbstractContextManager[list[int]] = stop_asked() if watch else nullcontext([])
    with stop as asked:
        while not asked:
            info = find_session(store, session)
            if info != shown:
                settings, shown = settings_for(info, config, store=store, **given), info
                looked = anyio.run(partial(_look_at_status, settings))
                document = {"session": asdict(info), **looked, "cost": _cost(info, settings)}
                if watch and screen().is_terminal:
                    screen().clear()
                show_result(json_path, document, _status_table(document))
            if not watch:
                break
            time.sleep(_PAUSE)
    return Status.OK


@contextmanager
def stop_asked() -> Iterator[list[int]]:
    """Gets an element when the user presses Ctrl-C. A second Ctrl-C interrupts at once.

    An interrupt in the middle of a look could be lost: a session that is being closed finishes that first.
    """
    asked: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, _: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


async def _look_at_status(settings: Settings) -> dict[str, Any]:
    from summarizing_context.assembly import open_context
    from summarizing_context.views.activation import told_reason

    async with open_context(settings, read_only=True) as context:
        await context.get_messages_for_request(token_budget=settings.max_tokens)
        last = context.last_view
        statistics = asdict(context.statistics())
        nodes = [(str(node.made_by), node.rank) for node in context.explain(drops=False)]
        records = context.activations()
    return {
        "budget": settings.max_tokens,
        "view_tokens": 0 if last is None else last.tokens,
        "view_messages": 0 if last is None else len(last.messages),
        "header_nodes": {
            made_by: sum(1 for by, _ in nodes if by == made_by) for made_by in dict.fromkeys(by for by, _ in nodes)
        },
        "activations": len(records),
        "last_activation": {**records[-1]._asdict(), "why": told_reason(records[-1])} if records else None,
        "statistics": _json_values(statistics),
    }


def _cost(info: SessionInfo, settings: Settings) -> dict[str, Any]:
    """What the session's summaries cost when they were made, as far as the price of their model is known."""
    from summarizing_context.summarizers.prices import load_prices

    price = load_prices(settings.prices).price_of(settings.model)
    return {
        "model": settings.model,
        "input_tokens": info.input_tokens,
        "output_tokens": info.output_tokens,
        "estimated_cost": None if price is None else price.cost(info.input_tokens, info.output_tokens),
        "as_of": None if price is None else str(price.as_of),
    }


def _cost_words(cost: Mapping[str, Any]) -> tuple[str, str]:
    """Dollars, and what they are for."""
    tokens = f"{number(cost['input_tokens'])} tokens read and {number(cost['output_tokens'])} written by a model"
    if cost["estimated_cost"] is not None:
        return dollars(cost["estimated_cost"]), f"{tokens}; prices of {plain(cost['model'])} as of {cost['as_of']}"
    if cost["input_tokens"] == 0:
        return dollars(0.0), "no model made its summaries"
    return "–", f"{tokens}; " + ("--model names whose prices count" if cost["model"] is None else "no price is known")


def _status_table(document: Mapping[str, Any]) -> Table:
    session, known = document["session"], document["statistics"]
    used = f"tokens in {document['view_messages']} messages, {document['view_tokens'] / document['budget']:.0%}"
    nodes = ", ".join(f"{count} {made_by}" for made_by, count in document["header_nodes"].items())
    holder = f"open in process {session['writer_pid']}" if session["writer_pid"] else "no writer has it open"
    changed = moment(session["updated_at"])
    counted = f"{number(known['history_tokens'])} tokens, counted by {known['token_counter']}"
    rows: list[tuple[str, str | Text, str]] = [
        ("messages", number(known["messages"]), counted),
        ("view", number(document["view_tokens"]), f"{used} of {number(document['budget'])}"),
        ("segments", number(known["segments"]), "runs of messages that are summarized as one"),
        ("summaries ready", number(known["summaries_ready"]), ""),
        ("summaries pending", number(known["summaries_pending"]), f"{known['summaries_failed']} failed"),
        (
            "summaries in the view",
            number(sum(document["header_nodes"].values())),
            nodes or "nothing is covered",
        ),
        ("activations", number(document["activations"]), _last_activation(document["last_activation"])),
        ("repairs", number(sum(known["repairs"].values())), _listed(known["repairs"]) or "none needed"),
        ("estimated cost", *_cost_words(document["cost"])),
        ("lag", number(known["lag_tokens"]), "tokens that wait for a summary"),
        *([("failed last", "", _failure(known))] if known["last_error_at"] else []),
        ("store", "", f"{plain(str(known['store']))}, {holder}, changed {changed}"),
    ]
    return facts(f"Session {session['session_id']}", rows)


def _failure(known: Mapping[str, Any]) -> str:
    return f"{moment(known['last_error_at'])}: {plain(str(known['last_error']))}"


def _last_activation(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "none yet: the whole log is in the view"
    return f"the last {moment(record['time'])}: {record['why']}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)


def _json_values(value: Any) -> Any:
    """Mappings and enums as plain JSON values."""
    if isinstance(value, Mapping):
        return {str(key): _json_values(item) for key, item in value.items()}
    return value
