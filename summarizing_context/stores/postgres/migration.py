"""Take the sessions of an SQLite file over into a PostgreSQL store, and compare both.

Each branch, and each session with all that is its own, is one transaction that notes what it has done: a migration
that was cut short goes on where it was. The file stays as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from summarizing_context.errors import SessionExistsError, StoreError
from summarizing_context.stores.base import SummaryKey
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.store import PostgresStore
from summarizing_context.stores.relational.database import Values
from summarizing_context.stores.sqlite.schema import Database
from summarizing_context.stores.sqlite.store import SqliteStore

_SLICE = 1_000  # rows that are held in memory, of summaries and vectors


class Migrated(NamedTuple):
    """What has become of a session."""

    session_id: str
    messages: int
    checkpoints: int
    is_new: bool  # False: an earlier run had taken it over


class _Source:
    """The file, and what was taken over from it."""

    def __init__(self, source: SqliteStore, target: PostgresStore) -> None:
        self._source, self._target = source, target
        self.id = hashlib.sha256(source.name.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    async def rows(self, query: str, *values: object) -> list[Any]:
        """Rows of the file."""

        def work(connection: Database) -> list[Any]:
            return connection.execute(query, values).fetchall()

        return await self._source.read(work)

    async def known(self, kind: str) -> dict[str, int]:
        """What was taken over, under which numbers."""
        values = {"source": self.id, "kind": kind}
        return dict(await self._target.read(lambda connection: connection.run("migrated", values).fetchall()))

    def note(self, connection: PostgresConnection, kind: str, old: object, new: int) -> None:
        """Something was taken over."""
        connection.run("note_migrated", {"source": self.id, "kind": kind, "old": str(old), "new": new})


async def migrate(source: SqliteStore, target: PostgresStore, tell: Callable[[Migrated], None]) -> list[Migrated]:
    """Take over every session of an open file that nobody else has open; each is told once it is compared.

    Raises `SessionInUseError` for a session that is open elsewhere, `SessionExistsError` for one whose id another
    session of the target has, and `StoreError` where both differ afterwards.
    """
    sessions = [info.session_id for info in await source.sessions()]
    for session_id in sessions:
        await source.claim(session_id)
    file = _Source(source, target)
    await _refuse_taken(file, target, sessions)
    await _migrate_summaries(file, target)
    branches = await _migrate_branches(file, target)
    states = await _migrate_states(file, target)
    await _migrate_memories(file, target, branches)
    known, found = await file.known("session"), []
    for session_id in reversed(sessions):  # the oldest change first
        is_new = session_id not in known
        if is_new:
            await _migrate_session(file, target, session_id, branches, states)
        checkpoints = await _compare(file, source, target, session_id)
        stored = await target.load(session_id)
        found.append(Migrated(session_id, len(stored.entries) if stored else 0, checkpoints, is_new))
        tell(found[-1])
    return found


async def _refuse_taken(file: _Source, target: PostgresStore, sessions: Sequence[str]) -> None:
    ours = await file.known("session")
    there = {info.session_id for info in await target.sessions()}
    for session_id in sessions:
        if session_id in there and session_id not in ours:
            raise SessionExistsError(session_id)


async def _migrate_summaries(file: _Source, target: PostgresStore) -> None:
    last = 0
    columns = "id, range_hash, recipe_hash, text, rank, input_tokens, output_tokens"
    while rows := await file.rows(f"select {columns} from summaries where id > ? order by id limit {_SLICE}", last):
        last, values = rows[-1][0], [row[1:] for row in rows]
        await target.submit(partial(_run_many, "migrate_summary", values))


async def _migrate_branches(file: _Source, target: PostgresStore) -> dict[int, int]:
    """The branches with their entries, parents first; their new numbers."""
    new = {int(old): number for old, number in (await file.known("branch")).items()}
    for id, session_id, parent, stop in await file.rows(
        "select id, session_id, parent, parent_stop from branches order by id"
    ):
        if id in new:
            continue
        entries = await file.rows("select position, message, facts from entries where branch = ? order by position", id)
        values = {"session_id": session_id, "parent": None if parent is None else new[parent], "parent_stop": stop}

        def work(connection: PostgresConnection, values: Any = values, entries: Any = entries, id: int = id) -> int:
            number = connection.insert("begin_branch", values)
            connection.copy_entries((number, *entry) for entry in entries)
            file.note(connection, "branch", id, number)
            return number

        new[id] = await target.submit(work)
    return new


async def _migrate_states(file: _Source, target: PostgresStore) -> dict[int, int]:
    """The activation states of checkpoints; one is packed against an earlier one."""
    new = {int(old): number for old, number in (await file.known("state")).items()}
    for id, digest, state, base, depth in await file.rows(
        "select id, digest, state, base, depth from checkpoint_states order by depth, id"
    ):
        if id in new:
            continue
        values = {"digest": digest, "state": state, "base": None if base is None else new[base], "depth": depth}

        def work(connection: PostgresConnection, values: Any = values, id: int = id) -> int:
            connection.run("guard_states")
            number = connection.insert("migrate_state", values)
            file.note(connection, "state", id, number)
            return number

        new[id] = await target.submit(work)
    return new


async def _migrate_memories(file: _Source, target: PostgresStore, branches: Mapping[int, int]) -> None:
    new = {int(old): number for old, number in (await file.known("memory")).items()}
    names = ("project", "session_id", "content", "metadata", "created_at", "updated_at")
    for id, *row in await file.rows(f"select id, {', '.join(names)} from memories order by id"):
        if id in new:
            continue
        values = dict(zip(names, map(_text, row), strict=True))

        def work(connection: PostgresConnection, values: Any = values, id: int = id) -> int:
            number = connection.insert("migrate_memory", values)
            connection.run("index_memory", {"id": number, "content": values["content"]})
            file.note(connection, "memory", id, number)
            return number

        new[id] = await target.submit(work)
    if not await file.known("marks"):
        marks = await file.rows("select mark, reader, project, session_id from memory_marks")

        def note_marks(connection: PostgresConnection) -> None:
            for mark, reader, project, session_id in marks:
                values = {"mark": mark, "reader": reader, "project": project, "session_id": session_id}
                connection.run("add_mark", values)
            file.note(connection, "marks", "", len(marks))

        await target.submit(note_marks)
    await _migrate_vectors(file, target, branches, new)


async def _migrate_vectors(
    file: _Source, target: PostgresStore, branches: Mapping[int, int], memories: Mapping[int, int]
) -> None:
    after: tuple[Any, ...] = ("", 0, "")
    query = (
        "select owner, number, recipe, vector from vectors where (owner, number, recipe) > (?, ?, ?) "
        f"order by owner, number, recipe limit {_SLICE}"
    )
    while rows := await file.rows(query, *after):
        after, values = rows[-1][:3], []
        for owner, number, recipe, vector in rows:
            place = memories.get(number) if owner == "memory" else branches.get(number >> 32)
            if place is not None:
                moved = place if owner == "memory" else (place << 32) + (number & 0xFFFFFFFF)
                values.append({"owner": owner, "number": moved, "recipe": recipe, "vector": vector})
        await target.submit(partial(_run_many, "save_vector", values))


async def _migrate_session(
    file: _Source, target: PostgresStore, session_id: str, branches: Mapping[int, int], states: Mapping[int, int]
) -> None:
    """A session's head and all that is its own, in one transaction."""
    names = ("project", "branch", "stop", "created_at", "updated_at", "log_version", "pins", "budget")
    (row,) = await file.rows(f"select {', '.join(names)} from sessions where session_id = ?", session_id)
    head = {"session_id": session_id, **dict(zip(names, row, strict=True))}
    tables = {
        "migrate_activation": "session_id, provider_key, state, saved from activations",
        "migrate_history": "session_id, number, provider_key, log_version, figures, before, undone "
        "from activation_history",
        "migrate_use": "session_id, range_hash, recipe_hash, stale, start, stop from summary_uses",
        "add_rules": "session_id, digest, version, position, rules from rules",
    }
    own = {name: await file.rows(f"select {text} where session_id = ?", session_id) for name, text in tables.items()}
    marks = ("id", "session_id", "name", "branch", "stop", "showings", "pins", "created_at")
    checkpoints = [
        dict(zip(marks, row, strict=True))
        for row in await file.rows(
            f"select {', '.join(marks)} from checkpoints where session_id = ? order by id", session_id
        )
    ]

    def work(connection: PostgresConnection) -> None:
        connection.run("guard_states")
        connection.run("migrate_session", {**head, "branch": branches[head["branch"]]})
        for name, rows in own.items():
            connection.run_many(name, rows)
        ids = [one["id"] for one in checkpoints]
        taken = {id for (id,) in connection.run("checkpoint_ids", {"ids": ids})} if ids else set()
        for one in checkpoints:
            showings = [[key, states[state], mark] for key, state, mark in json.loads(one["showings"])]
            values = {**one, "branch": branches[one["branch"]], "showings": json.dumps(showings)}
            if one["id"] in taken:
                number = connection.insert("add_checkpoint", {**values, "now": one["created_at"]})
            else:
                number = connection.insert("migrate_checkpoint", values)
                connection.run("keep_checkpoint_ids")
            file.note(connection, "checkpoint", one["id"], number)
        file.note(connection, "session", session_id, len(checkpoints))

    await target.submit(work)


async def _compare(file: _Source, source: SqliteStore, target: PostgresStore, session_id: str) -> int:
    """Raise `StoreError` unless both hold the same of a session; how many checkpoints it has."""
    ours, theirs = await source.load(session_id), await target.load(session_id)
    if ours != theirs or ours is None or theirs is None or ours.updated_at != theirs.updated_at:
        raise _differs(session_id, "log, activation states, pins or rules")
    numbers = await file.known("checkpoint")
    listed = await source.checkpoints.listed(session_id)
    for one in listed:
        old = await source.checkpoints.load(session_id, one.id)
        new = await target.checkpoints.load(session_id, f"c{numbers[one.id[1:]]}")
        if (old.entries, old.provider_views, old.pins) != (new.entries, new.provider_views, new.pins):
            raise _differs(session_id, f"checkpoint {one.id}")
    used = await file.rows("select range_hash, recipe_hash from summary_uses where session_id = ?", session_id)
    keys = [SummaryKey(*row) for row in used]
    if set(await source.find_summaries(session_id, keys)) - set(await target.find_summaries(session_id, keys)):
        raise _differs(session_id, "summaries")
    return len(listed)


def _run_many(name: str, rows: Sequence[Values], connection: PostgresConnection) -> None:
    connection.run_many(name, rows)


def _differs(session_id: str, what: str) -> StoreError:
    return StoreError(
        f"session {session_id!r}: {what} differ after the migration; the session was changed in between. "
        "Delete it in the new store, and migrate it again"
    )


def _text(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value  # the server takes none
