"""Memories in SQLite: texts that sessions of a project keep for later ones, found by their words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from summarizing_context.errors import MemoryNotFoundError
from summarizing_context.shelves import MemoryScope, StoredMemory
from summarizing_context.stores import log
from summarizing_context.stores.access import Access
from summarizing_context.stores.queries import SQL


class MemoryShelf:
    """The memories of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def add(self, scope: MemoryScope, content: str, metadata: Mapping[str, Any], *, renew: bool = False) -> str:
        """Keep a memory; the id of the one that says the same, if there is one: its metadata stay, or are renewed."""
        self._access.refuse_if_read_only("store a memory")
        values = {**scope._asdict(), "content": content, "metadata": json.dumps(metadata)}

        def work(connection: sqlite3.Connection) -> str:
            row = connection.execute(SQL["same_memory"], values).fetchone()
            if row is not None:
                if renew:
                    connection.execute(SQL["update_memory"], {**values, "id": row[0], "now": log.now()})
                return f"m{row[0]}"
            id = connection.execute(SQL["add_memory"], {**values, "now": log.now()}).lastrowid
            connection.execute(SQL["index_memory"], {"id": id, "content": content})
            return f"m{id}"

        return await self._access.writer.submit(work)

    async def update(self, scope: MemoryScope, id: str, content: str, metadata: Mapping[str, Any] | None) -> None:
        """Replace a memory's content, and its metadata where some are given."""
        self._access.refuse_if_read_only("update a memory")

        def work(connection: sqlite3.Connection) -> None:
            number, old = _find(connection, scope, id)
            connection.execute(SQL["unindex_memory"], {"id": number, "content": old.content})
            kept = json.dumps(old.metadata if metadata is None else metadata)
            values = {"id": number, "content": content, "metadata": kept, "now": log.now()}
            connection.execute(SQL["update_memory"], values)
            connection.execute(SQL["index_memory"], {"id": number, "content": content})
            connection.execute(SQL["remove_vector"], {"owner": "memory", "number": number})

        await self._access.writer.submit(work)

    async def forget(self, scope: MemoryScope, id: str) -> None:
        """Remove a memory; its bytes leave the file with the next `purge`."""
        self._access.refuse_if_read_only("forget a memory")

        def work(connection: sqlite3.Connection) -> None:
            number, old = _find(connection, scope, id)
            remove(connection, number, old.content)

        await self._access.writer.submit(work)

    async def all(self, scope: MemoryScope) -> list[StoredMemory]:
        """Those in scope, oldest first."""
        return await self._access.read(
            lambda connection: [_memory(row) for row in connection.execute(SQL["memories"], scope._asdict())]
        )

    async def find(self, scope: MemoryScope, terms: Sequence[str], limit: int) -> list[StoredMemory]:
        """Those in scope that hold any of the terms, the most relevant first."""
        if not terms:
            return []
        values = {**scope._asdict(), "match": " OR ".join(f'"{term}"' for term in terms), "most": limit}
        return await self._access.read(
            lambda connection: [_memory(row) for row in connection.execute(SQL["match_memories"], values)]
        )


def remove(connection: sqlite3.Connection, number: int, content: str) -> None:
    """Remove a memory with its words and vectors."""
    connection.execute(SQL["unindex_memory"], {"id": number, "content": content})
    connection.execute(SQL["remove_memory"], {"id": number})
    connection.execute(SQL["remove_vector"], {"owner": "memory", "number": number})


def remove_of_session(connection: sqlite3.Connection, session_id: str) -> None:
    """A session is about to go: its own memories go with it, those of its project stay."""
    for number, content in connection.execute(SQL["own_memories"], {"session_id": session_id}).fetchall():
        remove(connection, number, content)
    connection.execute(SQL["disown_memories"], {"session_id": session_id})


def _find(connection: sqlite3.Connection, scope: MemoryScope, id: str) -> tuple[int, StoredMemory]:
    number = int(id[1:]) if id[:1] == "m" and id[1:].isascii() and id[1:].isdigit() and len(id) < 19 else None
    row = connection.execute(SQL["memory"], {**scope._asdict(), "id": number}).fetchone()
    if row is None:
        raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() tell the ids there are")
    return row[0], _memory(row)


def _memory(row: Sequence[Any]) -> StoredMemory:
    id, content, metadata, created_at, updated_at = row
    return StoredMemory(f"m{id}", content, json.loads(metadata), created_at, updated_at)
