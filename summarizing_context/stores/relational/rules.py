"""Standing rules of a relational store: what was read of a session's messages, beside its log.

Functions on a connection, within the transaction of their caller. A fork takes those of its messages along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import starmap

from summarizing_context.stores.base import StoredRules
from summarizing_context.stores.relational.database import Access, Connection


class RelationalRules:
    """The rules of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def save(self, session_id: str, rows: Sequence[tuple[int, StoredRules]]) -> None:
        """Keep rules, each with the place of its message, unless they are kept already."""
        kept = tuple(rows)
        await self._access.write(session_id, lambda connection: add_rules(connection, session_id, kept))


def add_rules(connection: Connection, session_id: str, rows: Iterable[tuple[int, StoredRules]]) -> None:
    """Keep the rules of messages, each with its place in the log."""
    values = [(session_id, row.digest, row.version, position, row.rules) for position, row in rows]
    if values:
        connection.run_many("add_rules", values)


def rules_of(connection: Connection, session_id: str) -> tuple[StoredRules, ...]:
    """All that is kept of a session, in the order of its log."""
    return tuple(starmap(StoredRules, connection.run("rules", {"session_id": session_id})))


def forget_rules(connection: Connection, session_id: str, keep: int = 0) -> None:
    """Remove what was read of the messages from `keep` on."""
    connection.run("forget_rules", {"session_id": session_id, "keep": keep})
