"""Memories of a relational store: texts that sessions of a project keep for later ones.

Those of a project are shared: any host may write them, one at a time. Those of a session without a project are its
own, as its log is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import MemoryNotFoundError
from summarizing_context.stores.base import KeptMemory, MemoryScope, NewMemory, StoredMemory
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import Connection, Result, Work

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore


class RelationalMemories:
    """The `MemoryStore` of a relational store."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store

    async def add(self, scope: MemoryScope, memory: NewMemory, *, renew: bool = False) -> KeptMemory:
        return await self._write("store", scope, lambda connection: _keep(connection, scope, memory, renew))

    async def learn(
        self,
        scope: MemoryScope,
        reader: str,
        marks: Sequence[str],
        memories: Sequence[NewMemory],
        gone: Sequence[str],
        *,
        again: bool = False,
    ) -> list[KeptMemory]:
        def work(connection: Connection) -> list[KeptMemory]:
            new = set(marks) - _marked(connection, scope, reader, marks)
            if not new and not again:
                return []
            for mark in new:
                connection.run("add_mark", **scope._asdict(), mark=mark, reader=reader)
            for content in gone:
                row = connection.run("same_memory", **scope._asdict(), content=content).fetchone()
                if row is not None and _find(connection, scope, f"m{row[0]}").metadata.get("source") == "session":
                    _remove(connection, row[0])
            return [_keep(connection, scope, memory, renew=False) for memory in memories]

        return await self._write("store", scope, work)

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        return await self._store.read(lambda connection: _marked(connection, scope, reader, marks))

    async def update(self, scope: MemoryScope, id: str, content: str, metadata: Mapping[str, Any] | None) -> None:
        def work(connection: Connection) -> None:
            old = _find(connection, scope, id)
            _change(connection, old, content, old.metadata if metadata is None else metadata)

        await self._write("update", scope, work)

    async def forget(self, scope: MemoryScope, id: str) -> None:
        def work(connection: Connection) -> None:
            _remove(connection, int(_find(connection, scope, id).id[1:]))

        await self._write("forget", scope, work)

    async def all(self, scope: MemoryScope | None) -> list[StoredMemory]:
        values = {**(scope or MemoryScope(None, ""))._asdict(), "everything": scope is None}
        return await self._store.read(lambda connection: list(starmap(_memory, connection.run("memories", **values))))

    async def _write(self, what: str, scope: MemoryScope, work: Work[Result]) -> Result:
        """Run `work` while nobody else writes memories of the scope."""
        self._store.refuse_if_read_only(f"{what} a memory")

        def guarded(connection: Connection) -> Result:
            connection.run("guard_memories", **scope._asdict())
            return work(connection)

        if scope.project is None:
            return await self._store.write(scope.session_id, guarded)
        return await self._store.submit(guarded)


def remove_of_session(connection: Connection, session_id: str) -> None:
    """Remove the memories of a session that is about to go; those of its project stay."""
    for (number,) in connection.run("own_memories", session_id=session_id).fetchall():
        _remove(connection, number)
    for name in ("disown_memories", "remove_own_marks", "disown_marks"):
        connection.run(name, session_id=session_id)


def _remove(connection: Connection, number: int) -> None:
    """Remove a memory with its vectors."""
    connection.run("remove_memory", id=number)
    connection.run("remove_vector", owner="memory", number=number)


def _change(connection: Connection, old: StoredMemory, content: str, metadata: Mapping[str, Any]) -> None:
    number = int(old.id[1:])
    connection.run("update_memory", id=number, content=content, metadata=json.dumps(metadata), now=log.now())
    connection.run("remove_vector", owner="memory", number=number)


def _keep(connection: Connection, scope: MemoryScope, memory: NewMemory, renew: bool) -> KeptMemory:
    content, metadata = memory.content, memory.metadata
    values = {**scope._asdict(), "content": content, "metadata": json.dumps(metadata), "now": log.now()}
    # The same text.
    row = connection.run("same_memory", **values).fetchone()
    if row is not None:
        if renew:
            connection.run("update_memory", **values, id=row[0])
        return KeptMemory(f"m{row[0]}", "known")
    # The same words of the same message, learnt by rules or by a model.
    quote = metadata.get("quote")
    if quote and metadata.get("session_id") == scope.session_id:
        learnt = connection.run("memories_of_message", **scope._asdict(), message=metadata.get("message"))
        for old in list(starmap(_memory, learnt)):
            old_quote = str(old.metadata.get("quote", ""))
            if old_quote and (old_quote in quote or quote in old_quote):
                _change(connection, old, content, {**old.metadata, **metadata})
                return KeptMemory(old.id, "known")
    # Others about the same: the newest takes their place, unless it was said later than this.
    about = {name: metadata.get(name) for name in ("subject", "choice", "relation")}
    about = {name: value if isinstance(value, str) and value else None for name, value in about.items()}
    same: list[StoredMemory] = []
    if about["subject"] or about["choice"]:
        same = list(starmap(_memory, connection.run("memories_of_subject", **scope._asdict(), **about)))
    if same:
        newest, *others = same
        if newest.metadata.get("session_id") == metadata.get("session_id") is not None:
            at, new_at = newest.metadata.get("message"), metadata.get("message")
            is_newer = isinstance(at, int) and isinstance(new_at, int) and at > new_at
        else:  # parts of a log are read in any order, and long after they were said
            is_newer = newest.updated_at > memory.said_at != ""
        if is_newer:
            return KeptMemory(newest.id, "known")
        for other in others:
            _remove(connection, int(other.id[1:]))
        _change(connection, newest, content, {**metadata, "replaces": " ".join(one.content for one in same)})
        return KeptMemory(newest.id, "replaced")
    (number,) = connection.run("add_memory", **values).fetchone()
    return KeptMemory(f"m{number}", "stored")


def _marked(connection: Connection, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
    found = connection.run("marked", **scope._asdict(), reader=reader, marks=json.dumps(list(marks)))
    return {mark for (mark,) in found}


def _find(connection: Connection, scope: MemoryScope, id: str) -> StoredMemory:
    number = int(id[1:]) if id[:1] == "m" and id[1:].isascii() and id[1:].isdigit() and len(id) < 19 else None
    row = connection.run("memory", **scope._asdict(), id=number).fetchone()
    if row is None:
        raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() tell the ids there are")
    return _memory(*row)


def _memory(number: int, content: str, metadata: str, created_at: str, updated_at: str) -> StoredMemory:
    return StoredMemory(f"m{number}", content, json.loads(metadata), created_at, updated_at)
