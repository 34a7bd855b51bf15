"""Checkpoints in SQLite: heads that are kept, with what each provider was shown then.

No entry is copied. How activation states are kept is in `states`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from summarizing_context.errors import CheckpointNotFoundError, StoreError
from summarizing_context.ports import StoredEntry
from summarizing_context.shelves import CHECKPOINT_ID, Checkpoint, Place, StoredCheckpoint, StoredShowing
from summarizing_context.stores import log
from summarizing_context.stores.access import Access
from summarizing_context.stores.pins import pins_of
from summarizing_context.stores.pins import save as save_pins
from summarizing_context.stores.queries import SQL
from summarizing_context.stores.states import NewestStates, forget_unused_states, read_state
from summarizing_context.stores.writer import Work


class CheckpointShelf:
    """The checkpoints of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._states = NewestStates()

    async def save(
        self, session_id: str, name: str | None, place: Place, showings: Sequence[StoredShowing]
    ) -> Checkpoint | None:
        """Keep the log's first `place.messages` entries and the showings; None if the log was replaced since."""

        def work(connection: sqlite3.Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            head = log.head_of(connection, session_id)
            if place.messages > head.stop:
                raise StoreError(f"session {session_id!r} has {head.stop} entries; no checkpoint of more can be kept")
            head = head._replace(stop=place.messages)
            return _add(connection, session_id, name, self._kept(connection, session_id, head, showings))

        return await self._unless_overtaken(session_id, work)

    async def load(self, session_id: str, id: str) -> StoredCheckpoint:
        """A checkpoint with its log."""

        def work(connection: sqlite3.Connection) -> StoredCheckpoint:
            found = _find(connection, session_id, id)
            head = log.Head(found.kept.branch, found.kept.stop, False)
            entries = log.read_entries(connection, head, self._access.name)
            return StoredCheckpoint(found.checkpoint, entries, _showings(connection, found.kept), found.kept.pins)

        return await self._access.read(work)

    async def restore(
        self,
        session_id: str,
        id: str,
        place: Place,
        showings: Sequence[StoredShowing],
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        """Make a checkpoint of the present, whole log, then make the log and the activation states those of `id`."""

        def work(connection: sqlite3.Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            found = _find(connection, session_id, id)
            present = self._present(connection, session_id, f"before restoring {found.checkpoint.id}", showings)
            log.move(connection, session_id, found.kept.branch, found.kept.stop)
            _show_again(connection, session_id, found.kept)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def replace(
        self,
        session_id: str,
        place: Place,
        showings: Sequence[StoredShowing],
        keep: int,
        entries: Sequence[StoredEntry],
        *,
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        """Make a checkpoint of the present, whole log, then let the log go on from its first `keep` entries."""
        new = tuple(entries)
        name = f"before the log was {'replaced' if keep or new else 'cleared'}"

        def work(connection: sqlite3.Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            present = self._present(connection, session_id, name, showings)
            log.replace(connection, session_id, keep, new)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        """Begin a session that goes on from a checkpoint; no entry is copied."""
        self._access.refuse_if_read_only("fork a session")

        def work(connection: sqlite3.Connection) -> None:
            kept = _find(connection, session_id, id).kept
            log.fork(connection, session_id, new_id, log.Head(kept.branch, kept.stop, False))
            _show_again(connection, new_id, kept)

        await self._access.writer.submit(work)

    async def listed(self, session_id: str) -> list[Checkpoint]:
        """The checkpoints of a session, oldest first."""
        known = {"session_id": session_id}
        return await self._access.read(
            lambda connection: [_checkpoint(row) for row in connection.execute(SQL["checkpoints"], known)]
        )

    async def delete(self, session_id: str, id: str) -> None:
        """Forget a checkpoint; what only it needed goes with the next `purge`."""
        self._access.refuse_if_read_only("delete a checkpoint")

        def work(connection: sqlite3.Connection) -> None:
            found = _find(connection, session_id, id)
            connection.execute(SQL["remove_checkpoint"], {"id": found.number})
            forget_unused_states(connection)

        await self._access.writer.submit(work)

    def _present(
        self, connection: sqlite3.Connection, session_id: str, name: str, showings: Sequence[StoredShowing]
    ) -> Checkpoint:
        """The checkpoint of the present, whole log: the one that there is, or a new one of this name."""
        kept = self._kept(connection, session_id, log.head_of(connection, session_id), showings)
        row = connection.execute(SQL["same_checkpoint"], {"session_id": session_id, **kept._asdict()}).fetchone()
        return _add(connection, session_id, name, kept) if row is None else _checkpoint(row)

    def _kept(
        self, connection: sqlite3.Connection, session_id: str, head: log.Head, showings: Sequence[StoredShowing]
    ) -> _Kept:
        keep = self._states.keep
        listed = [(key, keep(connection, session_id, key, state), marks) for key, state, marks in showings]
        return _Kept(log.owner(connection, head), head.stop, json.dumps(listed), pins_of(connection, session_id))

    async def _unless_overtaken(
        self, session_id: str, work: Work[Checkpoint], committed: Callable[[], None] | None = None
    ) -> Checkpoint | None:
        try:
            return await self._access.write(session_id, work, committed=committed)
        except _Overtaken:
            return None


class _Overtaken(StoreError):
    """The log was replaced since the caller looked at it."""


class _Kept(NamedTuple):
    """A checkpoint's row, as far as going back needs it."""

    branch: int
    stop: int
    showings: str  # JSON: [provider key, state id, marks] each
    pins: str


class _Found(NamedTuple):
    number: int
    checkpoint: Checkpoint
    kept: _Kept


def _check_current(connection: sqlite3.Connection, session_id: str, place: Place) -> None:
    row = connection.execute(SQL["log_version"], {"session_id": session_id}).fetchone()
    if row != (place.log_version,):
        raise _Overtaken(f"the log of session {session_id!r} was replaced meanwhile; try again")


def _find(connection: sqlite3.Connection, session_id: str, id: str) -> _Found:
    match = CHECKPOINT_ID.fullmatch(id)
    name = id if id.isprintable() else None  # what no checkpoint is called; half a character cannot even be asked for
    values = {"session_id": session_id, "id": int(match[1]) if match else None, "name": name}
    row = connection.execute(SQL["checkpoint"], values).fetchone()
    if row is None:
        newest = [f"c{number}" for (number,) in connection.execute(SQL["newest_checkpoints"], values)]
        has = f"its newest: {', '.join(newest)}" if newest else "it has none yet"
        raise CheckpointNotFoundError(f"session {session_id!r} has no checkpoint of this id or name; {has}")
    return _Found(row[0], _checkpoint(row[:4]), _Kept(row[4], row[2], row[5], row[6]))


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    id, name, stop, created_at = row
    return Checkpoint(f"c{id}", name, stop, created_at)


def _add(connection: sqlite3.Connection, session_id: str, name: str | None, kept: _Kept) -> Checkpoint:
    values = {"session_id": session_id, "name": name, "now": log.now(), **kept._asdict()}
    id = connection.execute(SQL["add_checkpoint"], values).lastrowid
    return _checkpoint((id, name, kept.stop, values["now"]))


def _showings(connection: sqlite3.Connection, kept: _Kept) -> list[StoredShowing]:
    found = []
    for key, number, marks in json.loads(kept.showings):
        found.append(StoredShowing(key, read_state(connection, number), marks))
    return found


def _show_again(connection: sqlite3.Connection, session_id: str, kept: _Kept) -> None:
    save_pins(connection, session_id, kept.pins)
    for showing in _showings(connection, kept):
        log.save_activation(connection, session_id, showing.provider_key, showing.state)
