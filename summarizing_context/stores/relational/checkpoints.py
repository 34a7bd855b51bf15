"""Checkpoints of a relational store: heads that are kept, with what each provider was shown, as one compressed JSON."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from summarizing_context.errors import CheckpointNotFoundError, StoreError
from summarizing_context.stores.base import (
    CHECKPOINT_ID,
    Checkpoint,
    Place,
    StoredCheckpoint,
    StoredEntry,
    StoredProviderView,
)
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.database import Access, Connection, Work


class RelationalCheckpoints:
    """The `CheckpointStore` of a relational store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def save(
        self, session_id: str, name: str | None, place: Place, provider_views: Sequence[StoredProviderView]
    ) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            head = log.head_of(connection, session_id)
            if place.messages > head.stop:
                raise StoreError(f"session {session_id!r} has {head.stop} entries; no checkpoint of more can be kept")
            head = head._replace(stop=place.messages)
            return _add(connection, session_id, name, _kept(connection, session_id, head, provider_views))

        return await self._unless_overtaken(session_id, work)

    async def load(self, session_id: str, id: str) -> StoredCheckpoint:
        def work(connection: Connection) -> StoredCheckpoint:
            found = _find(connection, session_id, id)
            head = log.Head(found.kept.branch, found.kept.stop, False)
            entries = log.read_entries(connection, head, self._access.name)
            return StoredCheckpoint(found.checkpoint, entries, _unpacked(found.kept.views), found.kept.pins)

        return await self._access.read(work)

    async def restore(
        self,
        session_id: str,
        id: str,
        place: Place,
        provider_views: Sequence[StoredProviderView],
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        def work(connection: Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            found = _find(connection, session_id, id)
            present = _present(connection, session_id, f"before restoring {found.checkpoint.id}", provider_views)
            log.move(connection, session_id, found.kept.branch, found.kept.stop)
            _show_again(connection, session_id, found.kept)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def replace(
        self,
        session_id: str,
        place: Place,
        provider_views: Sequence[StoredProviderView],
        keep: int,
        entries: Sequence[StoredEntry],
        *,
        committed: Callable[[], None],
    ) -> Checkpoint | None:
        """Make a checkpoint of the present, whole log, then let the log go on from its first `keep` entries."""
        new = tuple(entries)
        name = f"before the log was {'replaced' if keep or new else 'cleared'}"

        def work(connection: Connection) -> Checkpoint:
            _check_current(connection, session_id, place)
            present = _present(connection, session_id, name, provider_views)
            log.replace(connection, session_id, keep, new)
            return present

        return await self._unless_overtaken(session_id, work, committed)

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        self._access.refuse_if_read_only("fork a session")

        def work(connection: Connection) -> None:
            found = _find(connection, session_id, id)
            if connection.run("hold_checkpoint", {"id": found.number}).fetchone() is None:
                found = _find(connection, session_id, id)  # it was removed meanwhile
            kept = found.kept
            log.fork(connection, session_id, new_id, log.Head(kept.branch, kept.stop, False))
            _show_again(connection, new_id, kept)

        await self._access.submit(work)

    async def listed(self, session_id: str) -> list[Checkpoint]:
        known = {"session_id": session_id}
        return await self._access.read(
            lambda connection: [_checkpoint(row) for row in connection.run("checkpoints", known)]
        )

    async def delete(self, session_id: str, id: str) -> None:
        def work(connection: Connection) -> None:
            connection.run("remove_checkpoint", {"id": _find(connection, session_id, id).number})

        await self._access.write(session_id, work)

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
    views: bytes  # of the providers; packed JSON: [provider key, state, marks] each
    pins: str


class _Found(NamedTuple):
    number: int
    checkpoint: Checkpoint
    kept: _Kept


def _check_current(connection: Connection, session_id: str, place: Place) -> None:
    row = connection.run("log_version", {"session_id": session_id}).fetchone()
    if row != (place.log_version,):
        raise _Overtaken(f"the log of session {session_id!r} was replaced meanwhile; try again")


def _find(connection: Connection, session_id: str, id: str) -> _Found:
    match = CHECKPOINT_ID.fullmatch(id)
    name = id if id.isprintable() else None  # what no checkpoint is called; half a character cannot even be asked for
    values = {"session_id": session_id, "id": int(match[1]) if match else None, "name": name}
    row = connection.run("checkpoint", values).fetchone()
    if row is None:
        newest = [f"c{number}" for (number,) in connection.run("newest_checkpoints", values)]
        has = f"its newest: {', '.join(newest)}" if newest else "it has none yet"
        raise CheckpointNotFoundError(f"session {session_id!r} has no checkpoint of this id or name; {has}")
    return _Found(row[0], _checkpoint(row[:4]), _Kept(row[4], row[2], row[5], row[6]))


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    id, name, stop, created_at = row
    return Checkpoint(f"c{id}", name, stop, created_at)


def _add(connection: Connection, session_id: str, name: str | None, kept: _Kept) -> Checkpoint:
    values = {"session_id": session_id, "name": name, "now": log.now(), **kept._asdict()}
    id = connection.insert("add_checkpoint", values)
    return _checkpoint((id, name, kept.stop, values["now"]))


def _present(
    connection: Connection, session_id: str, name: str, provider_views: Sequence[StoredProviderView]
) -> Checkpoint:
    """The checkpoint of the present, whole log: the one that there is, or a new one of this name."""
    kept = _kept(connection, session_id, log.head_of(connection, session_id), provider_views)
    row = connection.run("same_checkpoint", {"session_id": session_id, **kept._asdict()}).fetchone()
    return _add(connection, session_id, name, kept) if row is None else _checkpoint(row)


def _kept(
    connection: Connection, session_id: str, head: log.Head, provider_views: Sequence[StoredProviderView]
) -> _Kept:
    (pins,) = connection.run("pins", {"session_id": session_id}).fetchone()
    listed = [(key, state.decode("latin-1"), marks) for key, state, marks in provider_views]  # any bytes
    return _Kept(log.owner(connection, head), head.stop, zlib.compress(json.dumps(listed).encode(), 9), pins)


def _unpacked(views: bytes) -> list[StoredProviderView]:
    return [
        StoredProviderView(key, state.encode("latin-1"), marks)
        for key, state, marks in json.loads(zlib.decompress(views))
    ]


def _show_again(connection: Connection, session_id: str, kept: _Kept) -> None:
    connection.run("save_pins", {"session_id": session_id, "pins": kept.pins})
    for provider_view in _unpacked(kept.views):
        log.save_activation(connection, session_id, provider_view.provider_key, provider_view.state)
