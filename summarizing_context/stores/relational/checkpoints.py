"""Checkpoints of a relational store: heads that are kept, with what each provider was shown, as one compressed JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import CheckpointNotFoundError, SessionExistsError, StoreError
from summarizing_context.stores.base import (
    CHECKPOINT_ID,
    Checkpoint,
    Committed,
    Place,
    ProviderViews,
    StoredCheckpoint,
    StoredEntry,
    StoredProviderView,
)
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import Connection, Work

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore


class _Overtaken(StoreError):
    """The log was replaced since the caller looked at it."""


class RelationalCheckpoints:
    """The `CheckpointStore` of a relational store."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store

    async def save(self, session_id: str, name: str | None, place: Place, views: ProviderViews) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            head = log.head_of(connection, session_id)
            if place.messages > head.stop:
                raise StoreError(f"session {session_id!r} has {head.stop} entries; no checkpoint of more can be kept")
            return _keep(connection, session_id, name, head._replace(stop=place.messages), views, is_new=True)

        return await self._unless_overtaken(session_id, place, work)

    async def load(self, session_id: str, id: str) -> StoredCheckpoint:
        def work(connection: Connection) -> StoredCheckpoint:
            checkpoint, head, views, pins = _find(connection, session_id, id)
            entries = log.read_entries(connection, head, self._store.name)
            return StoredCheckpoint(checkpoint, entries, views, pins)

        return await self._store.read(work)

    async def restore(
        self, session_id: str, id: str, place: Place, views: ProviderViews, committed: Committed
    ) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            there, head, views_then, pins = _find(connection, session_id, id)
            name, present = f"before restoring {there.id}", log.head_of(connection, session_id)
            kept = _keep(connection, session_id, name, present, views, is_new=False)
            log.put_in_place(connection, session_id, head, log.shared_entries(connection, session_id, head))
            _show_again(connection, session_id, views_then, pins)
            return kept

        return await self._unless_overtaken(session_id, place, work, committed)

    async def replace(
        self,
        session_id: str,
        place: Place,
        views: ProviderViews,
        keep: int,
        entries: Sequence[StoredEntry],
        *,
        committed: Committed,
    ) -> Checkpoint | None:
        new = tuple(entries)
        name = f"before the log was {'replaced' if keep or new else 'cleared'}"

        def work(connection: Connection) -> Checkpoint:
            present = log.head_of(connection, session_id)
            kept = _keep(connection, session_id, name, present, views, is_new=False)
            log.replace(connection, session_id, keep, new)
            return kept

        return await self._unless_overtaken(session_id, place, work, committed)

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        self._store.refuse_if_read_only("fork a session")

        def work(connection: Connection) -> None:
            there, head, views, pins = _find(connection, session_id, id)
            if connection.run("hold_checkpoint", id=int(there.id[1:])).fetchone() is None:
                _, head, views, pins = _find(connection, session_id, id)  # it was removed meanwhile
            if connection.run("session", session_id=new_id).fetchone() is not None:
                raise SessionExistsError(new_id)
            project, budget = connection.run("project", session_id=session_id).fetchone()
            log.create_session(connection, new_id, project, head)
            connection.run("save_budget", session_id=new_id, budget=budget)
            connection.run("copy_uses", session_id=session_id, fork=new_id)
            shared = log.shared_entries(connection, session_id, head)
            connection.run("copy_rules", session_id=session_id, fork=new_id, stop=shared)
            _show_again(connection, new_id, views, pins)

        await self._store.submit(work)

    async def listed(self, session_id: str) -> list[Checkpoint]:
        def work(connection: Connection) -> list[Checkpoint]:
            return [_checkpoint(*row) for row in connection.run("checkpoints", session_id=session_id)]

        return await self._store.read(work)

    async def delete(self, session_id: str, id: str) -> None:
        def work(connection: Connection) -> None:
            connection.run("remove_checkpoint", id=int(_find(connection, session_id, id)[0].id[1:]))

        await self._store.write(session_id, work)

    async def _unless_overtaken(
        self, session_id: str, place: Place, work: Work[Checkpoint], committed: Committed | None = None
    ) -> Checkpoint | None:
        """Run `work`, or return None with nothing done where the log was replaced since `place`."""

        def unless_overtaken(connection: Connection) -> Checkpoint:
            row = connection.run("log_version", session_id=session_id).fetchone()
            if row != (place.log_version,):
                raise _Overtaken(f"the log of session {session_id!r} was replaced meanwhile; try again")
            return work(connection)

        try:
            return await self._store.write(session_id, unless_overtaken, committed)
        except _Overtaken:
            return None


def _find(
    connection: Connection, session_id: str, id: str
) -> tuple[Checkpoint, log.Head, list[StoredProviderView], str]:
    """Return a checkpoint with its log, and the views and pins of then."""
    match = CHECKPOINT_ID.fullmatch(id)
    name = id if id.isprintable() else None  # what no checkpoint is called; half a character cannot even be asked for
    values = {"session_id": session_id, "id": int(match[1]) if match else None, "name": name}
    row = connection.run("checkpoint", **values).fetchone()
    if row is None:
        newest = [f"c{number}" for (number,) in connection.run("newest_checkpoints", **values)]
        has = f"its newest: {', '.join(newest)}" if newest else "it has none yet"
        raise CheckpointNotFoundError(f"session {session_id!r} has no checkpoint of this id or name; {has}")
    number, found_name, stop, created_at, branch, packed, pins = row
    views = [
        StoredProviderView(key, state.encode("latin-1"), marks)
        for key, state, marks in json.loads(zlib.decompress(packed))
    ]
    return _checkpoint(number, found_name, stop, created_at), log.Head(branch, stop), views, pins


def _show_again(connection: Connection, session_id: str, views: ProviderViews, pins: str) -> None:
    """Give a session the pins and the activation states of a checkpoint."""
    connection.run("save_pins", session_id=session_id, pins=pins)
    for key, state, _ in views:
        log.save_activation(connection, session_id, key, state)


def _keep(
    connection: Connection, session_id: str, name: str | None, head: log.Head, views: ProviderViews, *, is_new: bool
) -> Checkpoint:
    """Keep a head with what was shown; unless it has to be new, an equal one that is there will do."""
    (pins,) = connection.run("pins", session_id=session_id).fetchone()
    listed = [(key, state.decode("latin-1"), marks) for key, state, marks in views]  # any bytes
    packed = zlib.compress(json.dumps(listed).encode(), 9)
    kept = {"branch": log.owner(connection, head), "stop": head.stop, "views": packed, "pins": pins}
    values = {"session_id": session_id, "name": name, "now": log.now(), **kept}
    same = None if is_new else connection.run("same_checkpoint", **values).fetchone()
    if same is not None:
        return _checkpoint(*same)
    (number,) = connection.run("add_checkpoint", **values).fetchone()
    return _checkpoint(number, name, head.stop, values["now"])


def _checkpoint(number: int, name: str | None, stop: int, created_at: str) -> Checkpoint:
    return Checkpoint(f"c{number}", name, stop, created_at)
