"""Take the sessions of an SQLite file over into a PostgreSQL store, and compare both.

Sessions that share parts of their logs are one transaction, which ends with a comparison. Nothing is remembered of the
file but what its sessions and memories are: a migration that was cut short, or is repeated, looks at what is there.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from summarizing_context.errors import SessionInUseError, StoreCorruptError, StoreError
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.copies import (
    SLICE,
    Copy,
    Fingerprint,
    Run,
    continues,
    copy_summaries,
    copy_vectors,
    differs,
    digest_of,
    fingerprint,
    without_nul,
)
from summarizing_context.stores.postgres.engine import release, take
from summarizing_context.stores.postgres.store import PostgresStore, remove_session
from summarizing_context.stores.relational.database import Rows, Values
from summarizing_context.stores.sqlite.faults import translate
from summarizing_context.stores.sqlite.files import connect
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.store import SqliteStore

_WAIT = 10.0  # seconds for a locked file

Outcome = Literal["copied", "unchanged", "renewed", "newer", "apart", "open", "other", "damaged"]

_REFUSED: Mapping[Outcome, str] = {
    "apart": "{} went on in two ways, in the file and there, where a first view may be enough. "
    "To have the file's, delete them there, and migrate again; "
    "to have those, do nothing",
    "open": "{} went on in the file, but a host has them open there, in the new store. End it, and migrate again",
    "other": "under the id of {} there is another session, begun at another time, so the file's was not migrated. "
    "Delete the one there, and migrate again, or name another schema in the address",
    "damaged": "{} cannot be read whole, for the file is damaged. Restore it from a backup, or delete them in it, and "
    "migrate again",
}


class Migrated(NamedTuple):
    """What has become of a session.

    `copied`: it is new there. `unchanged`: it was there. `renewed`: it was there, and its file had gone on. `newer`: it
    has gone on there, or the file is an older copy, and was left alone. `apart`: both have gone on since, and it was
    left alone. `open`: its file had gone on, but a host has it open there, and it was left alone.
    `other`: a session that began at another time has its id there, and it was left alone. `damaged`: the file does not
    hold it whole, and it was left alone.
    """

    session_id: str
    messages: int
    checkpoints: int
    outcome: Outcome


class Migration(NamedTuple):
    """What was taken over and compared."""

    sessions: Sequence[Migrated]
    compared: Mapping[str, int]  # how many of each kind are the same in both


async def migrate(source: SqliteStore, target: PostgresStore, tell: Callable[[Migrated], None]) -> Migration:
    """Take over every session of an open file that nobody else has open; each is told once it is compared.

    Raises `StoreError` for a session of the file that is open, and, with all others done, for those that had to be left
    alone.
    """
    known = await source.read(lambda file: file.run("file_sessions").fetchall())
    await _claim(source, [session_id for session_id, *_ in known])
    since = {session_id: created_at for session_id, _, created_at in known}
    moving = _Moving(source, target, since)
    found: list[Migrated] = []
    try:
        for group in await source.read(_groups):
            for one in await target.submit_alone(partial(moving.move, group)):
                found.append(one)
                tell(one)
        await _take_shared(source, target, moving, {one.session_id for one in found if one.outcome in _REFUSED})
    finally:
        moving.stop()
    _refuse(target, found)
    return Migration(found, moving.compared)


async def _claim(source: SqliteStore, sessions: Sequence[str]) -> None:
    for session_id in sessions:
        try:
            await source.claim(session_id)
        except SessionInUseError as error:
            holder = "another process" if error.pid is None else f"process {error.pid}"
            raise StoreError(
                f"{source.name}: {holder} has session {session_id!r} open in this file, and nothing was migrated; "
                "close it there, and migrate again"
            ) from error


class _Moving:
    """Sessions on their way. Its work runs in the thread of the new store, with a connection of its own to the file."""

    def __init__(self, source: SqliteStore, target: PostgresStore, since: Mapping[str, str]) -> None:
        self._path, self._name = Path(source.name), source.name
        self._since = since  # when each session began
        self._is_stopped = threading.Event()
        self.compared: Counter[str] = Counter()

    def stop(self) -> None:
        """Let what is under way fail soon; nobody waits for it."""
        self._is_stopped.set()

    def move(self, group: Sequence[str], connection: PostgresConnection) -> list[Migrated]:
        """Take over sessions that may share parts of their logs, all or nothing."""
        with self._read() as file:
            sessions, damaged = self._whole(file, group)
            outcomes = self._outcomes(file, connection, sessions)
            for session_id in [one for one, outcome in outcomes.items() if outcome == "renewed"]:
                outcomes[session_id] = self._make_way(connection, session_id)
            missing = {one: found for one, found in sessions.items() if outcomes[one] in ("copied", "renewed")}
            if missing:
                connection.outside("begin")
                copy = Copy(file, connection, missing)
                copy.make(self._name)
                connection.outside("commit")
                self.compared["vectors"] += copy.vectors
        for session_id, found in sessions.items():
            if outcomes[session_id] in ("copied", "unchanged", "renewed"):
                self.compared.update({"sessions": 1, **found.counts})
        return [
            Migrated(one, found.counts["messages"], found.counts["checkpoints"], outcomes[one])
            for one, found in sessions.items()
        ] + [Migrated(one, 0, 0, "damaged") for one in damaged]

    def _whole(self, file: Run, group: Sequence[str]) -> tuple[dict[str, Fingerprint], list[str]]:
        """What the sessions of a group hold, and those that the file does not hold whole."""
        sessions: dict[str, Fingerprint] = {}
        damaged = []
        for session_id in group:
            try:
                found = fingerprint(file, session_id, self._name)
            except Exception as error:
                if not isinstance(translate(error, self._name), StoreCorruptError):
                    raise
                damaged.append(session_id)
            else:
                if found is not None:
                    sessions[session_id] = found
        return sessions, damaged

    def _make_way(self, connection: PostgresConnection, session_id: str) -> Outcome:
        """Remove a session whose file had gone on, unless a host has written to it just now."""
        try:
            take(connection, session_id, None)
        except SessionInUseError:
            connection.undo_work()
            return "open"
        connection.begin_read()
        row = connection.run("origins", {"session_ids": [session_id]}).fetchone()
        there = fingerprint(connection.run, session_id, self._name)
        connection.commit_work()
        if row is None or there is None or row[1:] != (self._since[session_id], there.digest):
            release(connection, [session_id])
            return "apart"
        remove_session(connection, session_id, is_ours=True)
        return "renewed"

    def _outcomes(
        self, file: Run, connection: PostgresConnection, sessions: Mapping[str, Fingerprint]
    ) -> dict[str, Outcome]:
        """How those that are there stand to those of the file."""
        connection.begin_read()
        origins = {row[0]: row[1:] for row in connection.run("origins", {"session_ids": list(sessions)})}
        outcomes: dict[str, Outcome] = {}
        for session_id, ours in sessions.items():
            created_at, origin = origins.get(session_id, (None, None))
            theirs = fingerprint(connection.run, session_id, self._name)
            if theirs is None:
                outcomes[session_id] = "copied"
            elif created_at != self._since[session_id]:
                outcomes[session_id] = "other"
            elif theirs.digest == ours.digest:
                outcomes[session_id] = "unchanged"
            elif origin == ours.digest:
                outcomes[session_id] = "newer"
            elif origin != theirs.digest:
                outcomes[session_id] = "apart"
            elif continues(file, session_id, ours, theirs, self._name):
                outcomes[session_id] = "renewed"
            else:  # the file may be an older copy
                is_older = continues(connection.run, session_id, theirs, ours, self._name)
                outcomes[session_id] = "newer" if is_older else "apart"
        connection.commit_work()
        for session_id in [one for one, outcome in outcomes.items() if outcome == "unchanged"]:
            connection.run("note_origin", {"session_id": session_id, "origin": sessions[session_id].digest})
        return outcomes

    @contextmanager
    def _read(self) -> Iterator[Run]:
        """Queries on one state of the file, until this is stopped."""
        with closing(connect(self._path, "ro", _WAIT)) as file, transaction(file, "deferred"):

            def run(name: str, values: Values) -> Rows:
                if self._is_stopped.is_set():
                    raise StoreError(f"{self._name}: the migration was cut short; call it again to go on")
                return file.run(name, values)

            yield run


def _groups(file: Database) -> list[list[str]]:
    """Sessions, the oldest change first; those whose logs and checkpoints have grown on one another are together."""
    roots: dict[int, int] = {}
    for branch, parent in file.run("file_branches"):
        roots[branch] = branch if parent is None else roots.get(parent, parent)
    together: dict[int, int] = {}  # a root, and another of the same group

    def first(root: int) -> int:
        while root in together:
            root = together[root]
        return root

    seen: dict[str, int] = {}
    for session_id, branch in file.run("file_heads"):
        root = roots.get(branch, branch)  # a damaged file may lack one
        one, other = first(root), first(seen.setdefault(session_id, root))
        if one != other:
            together[one] = other
    groups: dict[int, list[str]] = {}
    for session_id, *_ in file.run("file_sessions"):
        groups.setdefault(first(seen[session_id]), []).append(session_id)
    return list(groups.values())


async def _take_shared(source: SqliteStore, target: PostgresStore, moving: _Moving, refused: set[str]) -> None:
    """What belongs to no session alone: summaries, memories, and marks of what was read for them."""
    async for rows in _slices(source, "summaries_after"):
        work = partial(_add_summaries, [row[1:] for row in rows])
        moving.compared["summaries"] += await target.submit(work)
    async for rows in _slices(source, "memories_after"):
        between = {"owner": "memory", "start": rows[0][0], "stop": rows[-1][0] + 1}
        vectors = await source.read(lambda file, between=between: file.run("vectors_between", between).fetchall())  # type: ignore[misc]
        mine = [row for row in rows if row[1] is not None or row[2] not in refused]
        moving.compared.update(await target.submit(partial(_add_memories, mine, vectors)))
    marks = await source.read(lambda file: file.run("all_marks").fetchall())
    await target.submit(partial(_add_marks, [row for row in marks if row[2] is not None or row[3] not in refused]))


async def _slices(source: SqliteStore, name: str) -> AsyncIterator[list[Any]]:
    after = 0
    while True:
        values = {"after": after, "most": SLICE}
        rows = await source.read(partial(_fetch, name, values))
        if not rows:
            return
        yield rows
        after = rows[-1][0]


def _fetch(name: str, values: Values, file: Database) -> list[Any]:
    return file.run(name, values).fetchall()


def _add_summaries(rows: Sequence[Any], connection: PostgresConnection) -> int:
    return copy_summaries(connection, rows)


def _add_memories(
    rows: Sequence[Any], vectors: Sequence[tuple[int, str, bytes]], connection: PostgresConnection
) -> Counter[str]:
    """Keep memories that were not taken over yet, and what was changed of the others; how much is the same now."""
    same: Counter[str] = Counter()
    for id, *row in rows:
        names = ("project", "session_id", "content", "metadata", "created_at", "updated_at")
        memory = dict(zip(names, map(without_nul, row), strict=True))
        number, is_fresh = _add_memory(connection, id, memory)
        there = connection.run("memory_numbered", {"id": number}).fetchone()
        if is_fresh and there != (memory["content"], memory["metadata"], memory["updated_at"]):
            raise differs("memories")
        same["memories"] += there is not None and there[0] == memory["content"]
        if is_fresh:
            own = [vector for vector in vectors if vector[0] == id]
            same["vectors"] += copy_vectors(connection, "memory", own, lambda _, number=number: number)  # type: ignore[misc]
    return same


def _add_memory(connection: PostgresConnection, id: int, memory: Mapping[str, Any]) -> tuple[int, bool]:
    """The number of a memory, and whether it was written now. One that was forgotten there stays so."""
    connection.run("guard_memories", memory)
    origin = digest_of([memory["project"], memory["created_at"], id])
    known = connection.run("migrated_memory", {"origin": origin}).fetchone()
    if known is None:
        same = connection.run("same_memory", memory).fetchone()
        number = same[0] if same is not None else connection.insert("migrate_memory", memory)
        connection.run("note_memory", {"origin": origin, "number": number})
    else:
        number = known[0]
        there = connection.run("memory_numbered", {"id": number}).fetchone()
        if there is None or there[2] >= memory["updated_at"]:
            return number, False
        connection.run("renew_memory", {**memory, "id": number})
        connection.run("remove_vector", {"owner": "memory", "number": number})
    if known is None and same is not None:
        return number, False
    connection.run("index_memory", {"id": number, "content": memory["content"]})
    return number, True


def _add_marks(rows: Sequence[Any], connection: PostgresConnection) -> None:
    names = ("mark", "reader", "project", "session_id")
    marks: dict[tuple[Any, ...], set[str]] = {}  # of each reader and scope
    for row in rows:
        values = dict(zip(names, map(without_nul, row), strict=True))
        connection.run("migrate_mark", values)
        scope = (values["reader"], values["project"], None if values["project"] else values["session_id"])
        marks.setdefault(scope, set()).add(values["mark"])
    for scope, sent in marks.items():
        asked = {**dict(zip(names[1:], scope, strict=True)), "marks": json.dumps(sorted(sent))}
        if {mark for (mark,) in connection.run("marked", asked)} != sent:
            raise differs("marks of what was read for memories")


def _refuse(target: PostgresStore, found: Sequence[Migrated]) -> None:
    """Raise `StoreError` where a session was left alone that may not stay so."""
    told = []
    for outcome, text in _REFUSED.items():
        if sessions := [one.session_id for one in found if one.outcome == outcome]:
            rest = f" and {len(sessions) - 5} others" if len(sessions) > 5 else ""
            told.append(text.format(", ".join(map(repr, sessions[:5])) + rest))
    if told:
        raise StoreError(f"{target.name}: {'. '.join(told)}. They stayed as they are; all else was taken over")
