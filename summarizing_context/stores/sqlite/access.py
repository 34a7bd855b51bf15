"""What the parts of one SQLite store share: its thread, and who may write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.writer import Operations
from summarizing_context.stores.sqlite.files import Claims, read
from summarizing_context.stores.sqlite.schema import transaction

Result = TypeVar("Result")


class Access:
    """What the parts of one store share."""

    def __init__(self, path: Path | None, writer: Operations, claims: Claims, *, read_only: bool, wait: float) -> None:
        self.path = path
        self.name = str(path or ":memory:")
        self.writer = writer
        self.claims = claims
        self.read_only = read_only
        self._wait = wait  # seconds for a locked file

    def submit(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue `work` that belongs to no session; it is durable when the future is done."""
        return self.writer.submit(work)

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one state of the file."""
        return await self.writer.submit(lambda connection: self._in_one_state(connection, work), alone=True, reads=True)

    async def write(
        self, session_id: str, work: Work[Result], *, committed: Callable[[], None] | None = None
    ) -> Result:
        """Run `work` for a session that this store has claimed; it is durable when this returns."""
        self.refuse_unless_claimed(session_id)
        return await self.writer.submit(work, committed=committed)

    def refuse_if_read_only(self, what: str) -> None:
        """Raise where nothing may be written."""
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")

    def refuse_unless_claimed(self, session_id: str) -> None:
        """Raise unless this store may write to the session, as long as it is open."""
        self.refuse_if_read_only("write to a session")
        if session_id not in self.claims.sessions:
            self.writer.check_open()
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

    def _in_one_state(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        if self.read_only and self.path is not None:
            return read(self.path, self._wait, work)
        with transaction(connection, "deferred"):
            return work(connection)
