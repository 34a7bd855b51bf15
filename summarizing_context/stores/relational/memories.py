"""Memories and pins of a relational store.

Memories are texts that sessions of a project keep for later ones, found by their words. Those of a project are shared:
any host may write them, one at a time. Those of a session without a project are its own, as its log is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from summarizing_context.errors import MemoryNotFoundError
from summarizing_context.stores.base import KeptMemory, MemoryScope, NewMemory, StoredMemory
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.database import Access, Connection, Work

Result = TypeVar("Result")


class RelationalMemories:
    """The `MemoryStore` of a relational store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def add(self, scope: MemoryScope, memory: NewMemory, *, renew: bool = False) -> KeptMemory:
        self._access.refuse_if_read_only("store a memory")

        return await self._write(scope, lambda connection: _keep(connection, scope, memory, renew))

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
        self._access.refuse_if_read_only("store a memory")

        def work(connection: Connection) -> list[KeptMemory]:
            new = set(marks) - _marked(connection, scope, reader, marks)
            if not new and not again:
                return []
            for mark in new:
                connection.run("add_mark", {**scope._asdict(), "mark": mark, "reader": reader})
            for content in gone:
                row = connection.run("same_memory", {**scope._asdict(), "content": content}).fetchone()
                if row is not None and _find(connection, scope, f"m{row[0]}")[1].metadata.get("source") == "session":
                    remove(connection, row[0], content)
            return [_keep(connection, scope, memory, renew=False) for memory in memories]

        return await self._write(scope, work)

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        return await self._access.read(lambda connection: _marked(connection, scope, reader, marks))

    async def update(self, scope: MemoryScope, id: str, content: str, metadata: Mapping[str, Any] | None) -> None:
        self._access.refuse_if_read_only("update a memory")

        def work(connection: Connection) -> None:
            _, old = _find(connection, scope, id)
            _change(connection, old, content, old.metadata if metadata is None else metadata)

        await self._write(scope, work)

    async def forget(self, scope: MemoryScope, id: str) -> None:
        self._access.refuse_if_read_only("forget a memory")

        def work(connection: Connection) -> None:
            number, old = _find(connection, scope, id)
            remove(connection, number, old.content)

        await self._write(scope, work)

    async def all(self, scope: MemoryScope | None) -> list[StoredMemory]:
        return await self._access.read(
            lambda connection: [_memory(row) for row in connection.run("memories", _within(scope))]
        )

    async def find(self, scope: MemoryScope | None, terms: Sequence[str], limit: int) -> list[StoredMemory]:
        if not terms:
            return []
        values = {**_within(scope), "match": " OR ".join(f'"{term}"' for term in terms), "most": limit}
        return await self._access.read(
            lambda connection: [_memory(row) for row in connection.run("match_memories", values)]
        )

    async def _write(self, scope: MemoryScope, work: Work[Result]) -> Result:
        """Run `work` while nobody else writes memories of the scope."""

        def guarded(connection: Connection) -> Result:
            connection.run("guard_memories", scope._asdict())
            return work(connection)

        if scope.project is None:
            return await self._access.write(scope.session_id, guarded)
        return await self._access.submit(guarded)


def remove(connection: Connection, number: int, content: str) -> None:
    """Remove a memory with its words and vectors."""
    connection.run("unindex_memory", {"id": number, "content": content})
    connection.run("remove_memory", {"id": number})
    connection.run("remove_vector", {"owner": "memory", "number": number})


def remove_of_session(connection: Connection, session_id: str) -> None:
    """A session is about to go: its own memories go with it, those of its project stay."""
    for number, content in connection.run("own_memories", {"session_id": session_id}).fetchall():
        remove(connection, number, content)
    for name in ("disown_memories", "remove_own_marks", "disown_marks"):
        connection.run(name, {"session_id": session_id})


def _keep(connection: Connection, scope: MemoryScope, memory: NewMemory, renew: bool) -> KeptMemory:
    content, metadata = memory.content, memory.metadata
    values = {**scope._asdict(), "content": content, "metadata": json.dumps(metadata)}
    row = connection.run("same_memory", values).fetchone()
    if row is not None:
        if renew:
            connection.run("update_memory", {**values, "id": row[0], "now": log.now()})
        return KeptMemory(f"m{row[0]}", "known")
    if (old := _same_message(connection, scope, memory)) is not None:
        _change(connection, old, content, {**old.metadata, **metadata})
        return KeptMemory(old.id, "known")
    if same := _same_subject(connection, scope, metadata):
        old, *others = same
        if _is_newer(old, memory):
            return KeptMemory(old.id, "known")
        for other in others:
            remove(connection, int(other.id[1:]), other.content)
        _change(connection, old, content, {**metadata, "replaces": " ".join(one.content for one in same)})
        return KeptMemory(old.id, "replaced")
    id = connection.insert("add_memory", {**values, "now": log.now()})
    connection.run("index_memory", {"id": id, "content": content})
    return KeptMemory(f"m{id}", "stored")


def _same_message(connection: Connection, scope: MemoryScope, memory: NewMemory) -> StoredMemory | None:
    """What was learnt of the same words of the same message, by rules or by a model."""
    quote, place = memory.metadata.get("quote"), {**scope._asdict(), "message": memory.metadata.get("message")}
    if not quote or memory.metadata.get("session_id") != scope.session_id:
        return None
    for row in connection.run("memories_of_message", place):
        old = str((found := _memory(row)).metadata.get("quote", ""))
        if old and (old in quote or quote in old):
            return found
    return None


def _same_subject(connection: Connection, scope: MemoryScope, metadata: Mapping[str, Any]) -> list[StoredMemory]:
    """Those about the same, the newest first."""
    given = {name: metadata.get(name) for name in ("subject", "choice", "relation")}
    values = {name: value if isinstance(value, str) and value else None for name, value in given.items()}
    if values["subject"] is None and values["choice"] is None:
        return []
    return [_memory(row) for row in connection.run("memories_of_subject", {**scope._asdict(), **values})]


def _is_newer(old: StoredMemory, memory: NewMemory) -> bool:
    """Whether what is there was said later: parts of a log may be read in any order, and long after they were said."""
    known, new = old.metadata.get("message"), memory.metadata.get("message")
    if old.metadata.get("session_id") == memory.metadata.get("session_id") is not None:
        return isinstance(known, int) and isinstance(new, int) and known > new
    return old.updated_at > memory.said_at != ""


def _change(connection: Connection, old: StoredMemory, content: str, metadata: Mapping[str, Any]) -> None:
    number = int(old.id[1:])
    connection.run("unindex_memory", {"id": number, "content": old.content})
    values = {"id": number, "content": content, "metadata": json.dumps(metadata), "now": log.now()}
    connection.run("update_memory", values)
    connection.run("index_memory", {"id": number, "content": content})
    connection.run("remove_vector", {"owner": "memory", "number": number})


def _marked(connection: Connection, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
    values = {**scope._asdict(), "reader": reader, "marks": json.dumps(list(marks))}
    return {mark for (mark,) in connection.run("marked", values)}


def _within(scope: MemoryScope | None) -> dict[str, Any]:
    return {"project": None, "session_id": "", "everything": scope is None, **(scope._asdict() if scope else {})}


def _find(connection: Connection, scope: MemoryScope, id: str) -> tuple[int, StoredMemory]:
    number = int(id[1:]) if id[:1] == "m" and id[1:].isascii() and id[1:].isdigit() and len(id) < 19 else None
    row = connection.run("memory", {**scope._asdict(), "id": number}).fetchone()
    if row is None:
        raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() tell the ids there are")
    return row[0], _memory(row)


def _memory(row: Sequence[Any]) -> StoredMemory:
    id, content, metadata, created_at, updated_at = row
    return StoredMemory(f"m{id}", content, json.loads(metadata), created_at, updated_at)
