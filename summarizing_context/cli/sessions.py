"""`summarizing-context sessions`: what a store holds, its export, its removal."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.options import JsonPath, SessionName, StorePath
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
from summarizing_context.errors import StoreCorruptError
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import SessionInfo

_YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_EXAMPLES = examples(
    "sessions list --store run.db",
    "sessions export s1 --store run.db --to s1.json",
    "sessions delete old-run --store run.db",
    "sessions purge --store run.db --yes",
)


def register(app: typer.Typer) -> None:
    """Add the family to the app."""
    family = typer.Typer(
        help="List the sessions of a store, export or delete one, or purge unused data.",
        epilog=_EXAMPLES,
        invoke_without_command=True,
        rich_markup_mode="rich",
    )

    @family.callback()
    def about(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    family.command("list")(list_sessions)
    family.command("export")(export_session)
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


def export_session(
    session: SessionName,
    store: StorePath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The new file, which only you can read.")],
    json_path: JsonPath = None,
) -> int:
    """Write the messages of a session into a file that `import` reads. Damaged ones are left out and named."""
    from summarizing_context.log.entries import unsealed
    from summarizing_context.messages.validation import decode_message
    from summarizing_context.stores.private_files import write_private

    find_session(store, session)
    stored = with_store(store, lambda opened: opened.load(session), read_only=True)
    messages: list[Any] = []
    damaged: list[int] = []
    for seq, entry in enumerate(stored.entries if stored else ()):
        try:
            unsealed(entry.message, entry.facts)
            messages.append(decode_message(entry.message))
        except StoreCorruptError:
            damaged.append(seq)
    if to.exists():
        raise InputError(f"{to} is there already; name a new file")
    write_private(to, json.dumps({"session_id": session, "messages": messages}))
    said = f"Wrote {len(messages):,} messages." + (f" Damaged and left out: {damaged}." if damaged else "")
    show_result(json_path, {"session": session, "messages": len(messages), "damaged": damaged}, said)
    return Status.ENVIRONMENT if damaged else Status.OK


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
