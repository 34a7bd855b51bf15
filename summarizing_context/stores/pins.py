"""Pins in SQLite: what a session has pinned by calls, as one text beside its log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from summarizing_context.stores.access import Access
from summarizing_context.stores.queries import SQL


class PinShelf:
    """The pins of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def save(self, session_id: str, pins: str, committed: Callable[[], None]) -> None:
        """Keep these in the place of those that the session had."""
        await self._access.write(session_id, lambda connection: save(connection, session_id, pins), committed=committed)


def save(connection: sqlite3.Connection, session_id: str, pins: str) -> None:
    """Within the transaction of the caller."""
    connection.execute(SQL["save_pins"], {"session_id": session_id, "pins": pins})


def pins_of(connection: sqlite3.Connection, session_id: str) -> str:
    """What a session has pinned."""
    (pins,) = connection.execute(SQL["pins"], {"session_id": session_id}).fetchone()
    return str(pins)
