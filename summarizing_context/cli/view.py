"""`summarizing-context view`: the messages that a request would get now, and which past the header stands for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import (
    ConfigPath,
    JsonPath,
    Status,
    StorePath,
    help_text,
    number,
    plain,
    read_tokens,
    screen,
    table,
    write_json,
)
from summarizing_context.cli.sessions import find_session

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings

_WORDS = 400  # characters of a message's text that JSON shows

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context view s1 --store run.db

summarizing-context view s1 --store run.db --budget 16k --explain    [dim]# what each summary stands for[/dim]
"""


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


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("view", help=help_text(view), epilog=_EXAMPLES)(view)


def view(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    store: StorePath,
    *,
    budget: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens that the view may use; the setting max_tokens if not given.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show for each node of the header which past it stands for.")
    ] = False,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Show the view of a session as the next request would get it.

    The session is opened for reading only: nothing is written, no summary is made, and its writer may go on.
    """
    import anyio

    from summarizing_context.settings.values import Settings

    find_session(store, session)
    tokens: dict[str, Any] = {} if budget is None else {"max_tokens": read_tokens(budget)}
    settings = Settings.load(config, store=store, session_id=session, **tokens)
    shown = anyio.run(partial(_look, settings))
    if json_path is not None:
        write_json(json_path, _document(session, shown, explain=explain))
    if json_path != "-":
        console = screen()
        console.print(_view_table(session, shown))
        if explain:
            console.print(_node_table(shown))
    return Status.OK


async def _look(settings: Settings) -> Shown:
    from summarizing_context.assembly import open_context
    from summarizing_context.evaluation.finding import view_parts
    from summarizing_context.evaluation.laws import canonical
    from summarizing_context.evaluation.replay import make_costs
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
    return Shown(sum(row.tokens for row in rows), settings.max_tokens, rows, nodes)


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
    said = (line.removeprefix("- ") for line in lines if line and not line.startswith(("##", "<")))
    return plain(next(said, ""), 160)
