"""`summarizing-context sessions` and the commands of checkpoints: what a store holds, its removal, earlier states."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.options import JsonPath, LastBudget, SessionName, StorePath, read_tokens
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    help_text,
    number,
    plain,
    shell_line,
    show_result,
    table,
)
from summarizing_context.cli.stored import check_store, find_session, session_names, with_store
from summarizing_context.errors import StoreCorruptError
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import Place, SessionInfo, SessionStore, StoredProviderView

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
    for name, command, line in (
        ("activations", list_activations, "activations s1 --store run.db"),
        ("undo", undo, "undo s1 --store run.db"),
        ("checkpoint", checkpoint, "checkpoint s1 --store run.db --name before-the-refactoring"),
        ("checkpoints", list_checkpoints, "checkpoints s1 --store run.db"),
        ("restore", restore, "restore s1 before-the-refactoring --store run.db"),
        ("fork", fork, "fork s1 c3 s2 --store run.db"),
    ):
        app.command(name, help=help_text(command), epilog=examples(line))(command)


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
    session: Annotated[str, typer.Argument(metavar="ID", help="The session to delete.", autocompletion=session_names)],
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


_ID = Annotated[str, typer.Argument(metavar="ID", help="The checkpoint's id, or its name.")]


def checkpoint(
    session: SessionName,
    store: StorePath,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the checkpoint.")] = None,
    json_path: JsonPath = None,
) -> int:
    """Keep the present state of a session, to go back to. No message is copied."""
    from summarizing_context.sessions.checkpoints import check_name

    find_session(store, session)
    check_name(name)

    async def make(opened: SessionStore) -> Any:
        place, provider_views = await _claimed(opened, session)
        return await opened.checkpoints.save(session, name, place, provider_views)

    made = with_store(store, make)
    back = shell_line("restore", session, made.id, store=store)
    show_result(json_path, asdict(made), f"Checkpoint {made.id} of {made.seq:,} messages. To return: {back}")
    return Status.OK


def list_checkpoints(session: SessionName, store: StorePath, json_path: JsonPath = None) -> int:
    """List the checkpoints of a session, oldest first."""
    find_session(store, session)
    found = with_store(store, lambda opened: opened.checkpoints.listed(session), read_only=True)
    shown = table(f"Checkpoints of {session}", "id", "#messages", "made", "name", wide="name")
    for one in found:
        shown.add_row(one.id, number(one.seq), moment(one.created_at), plain(one.name or "–"))
    if not found:
        shown.caption = "none yet"
    show_result(json_path, {"session": session, "checkpoints": [asdict(one) for one in found]}, shown)
    return Status.OK


def restore(session: SessionName, id: _ID, store: StorePath, json_path: JsonPath = None) -> int:
    """Go back to a checkpoint. The present is made one before, so nothing is lost."""
    find_session(store, session)

    async def go_back(opened: SessionStore) -> Any:
        place, provider_views = await _claimed(opened, session)
        return await opened.checkpoints.restore(session, id, place, provider_views, lambda: None)

    before = with_store(store, go_back)
    document = {"session": session, "restored": id, "before": asdict(before)}
    back = shell_line("restore", session, before.id, store=store)
    show_result(json_path, document, f"Restored {plain(id)}. To return: {back}")
    return Status.OK


def fork(
    session: SessionName,
    id: _ID,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The id of the new session.")],
    store: StorePath,
    json_path: JsonPath = None,
) -> int:
    """Begin another session from a checkpoint. No message is copied."""
    from summarizing_context.settings.values import Settings

    find_session(store, session)
    name = Settings(session_id=new).session_id
    with_store(store, lambda opened: opened.checkpoints.fork(session, id, name))
    show_result(json_path, {"session": session, "from": id, "fork": name}, f"Session {name} goes on from {plain(id)}.")
    return Status.OK


def list_activations(session: SessionName, store: StorePath, json_path: JsonPath = None) -> int:
    """List when and why a session's view changed, what that covered, and what was undone."""
    from summarizing_context.commands import activations_told
    from summarizing_context.sessions.activations import read_records

    find_session(store, session)
    rows = with_store(store, lambda opened: opened.list_activations(session), read_only=True)
    result = activations_told(read_records(rows))
    show_result(json_path, {"session": session, **result.data}, result.text)
    return Status.OK


def undo(session: SessionName, store: StorePath, budget: LastBudget = None, json_path: JsonPath = None) -> int:
    """Take back a session's last activation. The earlier view is used until the next activation.

    The session must not be open elsewhere. Again, the activation before is taken back too.
    """
    from summarizing_context.sessions.activations import undo_stored

    find_session(store, session)
    tokens = None if budget is None else read_tokens(budget)
    made = with_store(store, lambda opened: undo_stored(opened, session, tokens))
    said = f"Undid activation {made.undoes}: the view goes back from about {number(made.tokens_before)} to about "
    show_result(json_path, {"session": session, **made._asdict()}, f"{said}{number(made.tokens_after)} tokens.")
    return Status.OK


async def _claimed(store: SessionStore, session: str) -> tuple[Place, list[StoredProviderView]]:
    """The state of a session that nobody else has open, as it is committed."""
    from summarizing_context.stores.base import Place, StoredProviderView

    await store.claim(session)
    stored = await store.load(session)
    if stored is None:
        raise InputError(f"there is no session {plain(session, 60)!r} any longer")
    provider_views = [StoredProviderView(key, state, "[]") for key, state in stored.activations]
    return Place(stored.log_version, len(stored.entries)), provider_views
