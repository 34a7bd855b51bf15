"""`summarizing-context status`: how far a session's summaries have come, and how full its view is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import (
    ConfigPath,
    JsonPath,
    Status,
    StorePath,
    dollars,
    facts,
    help_text,
    number,
    plain,
    read_tokens,
    screen,
    write_json,
)
from summarizing_context.cli.sessions import find_session

if TYPE_CHECKING:
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.base import SessionInfo

_EXAMPLES = """[bold]Example[/bold]

summarizing-context status s1 --store run.db --budget 16k
"""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("status", help=help_text(status), epilog=_EXAMPLES)(status)


def status(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")],
    store: StorePath,
    *,
    budget: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens that a view may use; the setting max_tokens if not given.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="Whose prices count; the setting model if not given.")
    ] = None,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Show how full a session's view is, and how far its summaries have come.

    The session is opened for reading only; counts of activations and calls are those of this look, not of its writer.
    """
    import anyio

    from summarizing_context.settings.values import Settings

    info = find_session(store, session)
    given: dict[str, Any] = {} if budget is None else {"max_tokens": read_tokens(budget)}
    given |= {} if model is None else {"model": model}
    settings = Settings.load(config, store=store, session_id=session, **given)
    document = {"session": asdict(info), **anyio.run(partial(_look, settings)), "cost": _cost(info, settings)}
    if json_path is not None:
        write_json(json_path, document)
    if json_path != "-":
        screen().print(_status_table(document))
    return Status.OK


async def _look(settings: Settings) -> dict[str, Any]:
    from summarizing_context.assembly import open_context

    async with open_context(settings, read_only=True) as context:
        await context.get_messages_for_request(token_budget=settings.max_tokens)
        last = context.last_view
        statistics = asdict(context.statistics())
        nodes = [(str(node.made_by), node.rank) for node in context.explain(drops=False)]
    return {
        "budget": settings.max_tokens,
        "view_tokens": 0 if last is None else last.tokens,
        "view_messages": 0 if last is None else len(last.messages),
        "header_nodes": {
            made_by: sum(1 for by, _ in nodes if by == made_by) for made_by in dict.fromkeys(by for by, _ in nodes)
        },
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


def _told_cost(cost: Mapping[str, Any]) -> tuple[str, str]:
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
    changed = session["updated_at"][:19].replace("T", " ")
    counted = f"{number(known['history_tokens'])} tokens, counted by {known['token_counter']}"
    rows: list[tuple[str, str | Text, str]] = [
        ("messages", number(known["messages"]), counted),
        ("view", number(document["view_tokens"]), f"{used} of {number(document['budget'])}"),
        ("segments", number(known["segments"]), "runs of messages that are summarized as one"),
        ("summaries ready", number(known["summaries_ready"]), ""),
        ("summaries pending", number(known["summaries_pending"]), f"{known['summaries_failed']} failed"),
        (
            "header",
            number(sum(document["header_nodes"].values())),
            f"nodes: {nodes}" if nodes else "nothing is covered",
        ),
        ("activations", number(known["activations"]), _listed(known["activations_by_reason"]) or "none in this look"),
        ("repairs", number(sum(known["repairs"].values())), _listed(known["repairs"]) or "none needed"),
        ("estimated cost", *_told_cost(document["cost"])),
        ("lag", number(known["lag_tokens"]), "tokens that wait for a summary"),
        ("store", "", f"{plain(str(known['store']))}, {holder}, changed {changed}"),
    ]
    return facts(f"Session {session['session_id']}", rows)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _json_values(value: Any) -> Any:
    """Mappings and enums as plain JSON values."""
    if isinstance(value, Mapping):
        return {str(key): _json_values(item) for key, item in value.items()}
    return value
