"""`summarizing-context view`: the messages of the next request."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import (
    ConfigPath,
    JsonPath,
    LastBudget,
    SessionName,
    StorePath,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    harmless_json,
    help_text,
    number,
    plain,
    show_result,
    table,
)
from summarizing_context.cli.stored import find_session, settings_for

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings

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
