"""`summarizing-context sessions`: what a store holds, its export, its removal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli.exports import export_sessions, import_sessions
from summarizing_context.cli.options import JsonPath, StorePath
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    number,
    plain,
    show_result,
    table,
)
from summarizing_context.cli.stored import check_store, find_session, with_store
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import SessionInfo

_YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_EXAMPLES = examples(
    "sessions list --store run.db",
    "sessions export all --store run.db --out run.jsonl",
    "sessions import run.jsonl --store postgresql://agents@db.example.org/agents",
    "sessions delete old-run --store run.db",
    "sessions purge --store run.db --yes",
)


def register(app: typer.Typer) -> None:
    """Add the family to the app."""
    family = typer.Typer(
        help="List, export, import or delete the sessions of a store, or purge unused data.",
        epilog=_EXAMPLES,
        invoke_without_command=True,
        rich_markup_mode="rich",
    )

    @family.callback()
    def about(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    family.command("list")(list_sessions)
    family.command("export")(export_sessions)
    family.command("import")(import_sessions)
    family.command("delete")(delete_session)
    family.command("purge")(purge)
    app.add_typer(family, name="sessions")


_PROJECT = 20  # characters of a project's name that are shown beside the session's


def list_sessions(store: StorePath, json_path: JsonPath = None) -> int:
    """List all sessions of a store, the newest change first."""
    found = with_store(store, lambda opened: opened.sessions(), read_only=True)
    told = {
        "session": [info.session_id for info in found],
        "project": [plain(info.project or "", _PROJECT) for info in found],
        "#messages": [number(info.messages) for info in found],
        "#summaries": [number(info.summaries) for info in found],
        "changed": [moment(info.updated_at)[:16] for info in found],
        "open in": [_writer(info) for info in found],
    }
    told = {name: cells for name, cells in told.items() if any(cells) or name == "session"}  # an id needs the room
    shown = table(f"Sessions in {plain(shown_store(store))}", *told, wide="session")
    shown.columns[0].no_wrap, shown.columns[0].overflow = False, "fold"  # an id is of use whole only
    for row in zip(*told.values(), strict=True):
        shown.add_row(*row)
    if not found:
        shown.caption = "it holds no session yet"
    show_result(json_path, {"store": shown_store(store), "sessions": [asdict(info) for info in found]}, shown)
    return Status.OK


def _writer(info: SessionInfo) -> str:
    if info.writer_pid is None:
        return ""
    return f"process {info.writer_pid}" + (f" on {plain(info.writer_host)}" if info.writer_host else "")


def delete_session(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session to delete.")],
    store: StorePath,
    yes: _YES = False,
    json_path: JsonPath = None,
) -> int:
    """Delete one session for good. In an SQLite file of more than 16 MB, remains of its text may stay until `purge`."""
    info = find_session(store, session)
    _confirm(f"Delete session {info.session_id} with its {info.messages:,} messages for good?", yes)
    found = with_store(store, lambda opened: opened.delete_session(session))
    show_result(json_path, {"deleted": session, "found": found}, f"Deleted {session}.")
    return Status.OK


def purge(store: StorePath, yes: _YES = False, json_path: JsonPath = None) -> int:
    """Remove for good what no session uses any longer, such as replaced logs."""
    check_store(store)
    _confirm("Remove all that no session uses any longer? Undone edits cannot be brought back after it.", yes)
    freed = with_store(store, lambda opened: opened.purge())
    show_result(json_path, {"freed_bytes": freed}, f"Freed {freed:,} bytes.")
    return Status.OK


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    try:
        agreed = typer.confirm(plain(question), err=True)
    except typer.Abort as error:
        raise InputError("nothing was removed: there was no answer; give --yes to do it without asking") from error
    if not agreed:
        raise InputError("nothing was removed")


def moment(iso: str) -> str:
    """A time as people read it."""
    return iso[:19].replace("T", " ")
