"""`summarizing-context checkpoint`, `checkpoints`, `restore` and `fork`: states of a stored session to go back to."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    StorePath,
    example,
    help_text,
    number,
    plain,
    screen,
    shell_line,
    table,
    write_json,
)
from summarizing_context.cli.sessions import find_session, moment, with_store

if TYPE_CHECKING:
    from summarizing_context.stores.base import Place, SessionStore, StoredProviderView

_SESSION = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
_ID = Annotated[str, typer.Argument(metavar="ID", help="The checkpoint's id, or its name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    for name, command, line in (
        ("checkpoint", checkpoint, "checkpoint s1 --store run.db --name before-the-refactoring"),
        ("checkpoints", list_checkpoints, "checkpoints s1 --store run.db"),
        ("restore", restore, "restore s1 before-the-refactoring --store run.db"),
        ("fork", fork, "fork s1 c3 s2 --store run.db"),
    ):
        app.command(name, help=help_text(command), epilog=example(line))(command)


def checkpoint(
    session: _SESSION,
    store: StorePath,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name to find it by.")] = None,
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
    return _done(json_path, asdict(made), f"Checkpoint {made.id} of {made.seq:,} messages. To return: {back}")


def list_checkpoints(session: _SESSION, store: StorePath, json_path: JsonPath = None) -> int:
    """List the checkpoints of a session, oldest first."""
    find_session(store, session)
    found = with_store(store, lambda opened: opened.checkpoints.listed(session), read_only=True)
    if json_path is not None:
        write_json(json_path, {"session": session, "checkpoints": [asdict(one) for one in found]})
    if json_path != "-":
        made = table(f"Checkpoints of {session}", "id", "#messages", "made", "name", wide="name")
        for one in found:
            made.add_row(one.id, number(one.seq), moment(one.created_at), plain(one.name or "–"))
        screen().print(made)
    return Status.OK


def restore(session: _SESSION, id: _ID, store: StorePath, json_path: JsonPath = None) -> int:
    """Go back to a checkpoint. The present is made one before, so nothing is lost."""
    find_session(store, session)

    async def go_back(opened: SessionStore) -> Any:
        place, provider_views = await _claimed(opened, session)
        return await opened.checkpoints.restore(session, id, place, provider_views, lambda: None)

    before = with_store(store, go_back)
    document = {"session": session, "restored": id, "before": asdict(before)}
    back = shell_line("restore", session, before.id, store=store)
    return _done(json_path, document, f"Restored {plain(id)}. To return: {back}")


def fork(
    session: _SESSION,
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
    return _done(json_path, {"session": session, "from": id, "fork": name}, f"Session {name} goes on from {plain(id)}.")


async def _claimed(store: SessionStore, session: str) -> tuple[Place, list[StoredProviderView]]:
    """The state of a session that nobody else has open, as it is committed."""
    from summarizing_context.stores.base import Place, StoredProviderView

    await store.claim(session)
    stored = await store.load(session)
    if stored is None:
        raise InputError(f"there is no session {plain(session, 60)!r} any longer")
    provider_views = [StoredProviderView(key, state, "[]") for key, state in stored.activations]
    return Place(stored.log_version, len(stored.entries)), provider_views


def _done(json_path: str | None, document: dict[str, Any], words: str) -> int:
    if json_path is not None:
        write_json(json_path, document)
    if json_path != "-":
        screen().print(words, soft_wrap=True)
    return Status.OK
