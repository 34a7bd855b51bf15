"""What the stores on relational databases do alike. A database says how its sessions are claimed, read and removed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from itertools import starmap
from typing import Any, Generic, TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.base import (
    NOWHERE,
    KeptSummary,
    NewActivation,
    Places,
    SessionInfo,
    StoredActivation,
    StoredEntry,
    StoredFailure,
    StoredRules,
    StoredSession,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.checkpoints import RelationalCheckpoints
from summarizing_context.stores.relational.database import Connection, Work
from summarizing_context.stores.relational.memories import RelationalMemories
from summarizing_context.stores.relational.writer import Engine, Writer

E = TypeVar("E", bound=Engine)
Result = TypeVar("Result")


class RelationalStore(Generic[E]):
    """The methods of a `Store` that are the same for every database, and the `Access` of its parts.

    `claimed` holds the sessions of this store.
    """

    def __init__(self, name: str, claimed: Container[str], *, read_only: bool) -> None:
        self.name = name
        self.read_only = read_only
        self._claimed = claimed
        self._engine: E | None = None
        self._is_open = self._is_closed = False
        self._leaving: asyncio.Task[None] | None = None
        self.checkpoints = RelationalCheckpoints(self)
        self.memories = RelationalMemories(self)

    async def open(self) -> None:
        """Connect, creating the store if needed."""
        running_loop()
        if self._engine is not None or self._is_closed:
            raise StoreError(f"{self.name}: the store was opened before; make a new one")
        self._engine = self._join()
        self._engine.stores.append(self)
        try:
            await self._engine.started()
        except Exception:
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Finish the queued writes and give up the claims; the last store ends the thread. May be called twice."""
        if self._engine is not None:
            self._engine.writer.check_loop()
        self._is_closed = True
        if self._leaving is not None:  # by a first call, which may have been cancelled
            await asyncio.shield(self._leaving)  # raises what that raised
        elif self._engine is not None:
            self._leaving = asyncio.create_task(self._leave_engine(self._engine))
            await asyncio.shield(self._leaving)

    async def _leave_engine(self, engine: E) -> None:
        engine.stores.remove(self)
        await self._leave(engine)

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        self.refuse_if_read_only("claim a session")
        await self._writer().submit(lambda connection: self._claim(connection, session_id, project), alone=True)

    async def load(self, session_id: str) -> StoredSession | None:
        return await self.read(lambda connection: log.load(connection, session_id, self.name))

    def append(self, session_id: str, entries: Sequence[StoredEntry], committed: Callable[[], None]) -> Awaitable[None]:
        self._refuse_unless_claimed(session_id)
        kept = tuple(entries)
        return self._writer().submit(lambda connection: self._append(connection, session_id, kept), committed=committed)

    async def replace(
        self, session_id: str, keep: int, entries: Sequence[StoredEntry], committed: Callable[[], None]
    ) -> None:
        kept = tuple(entries)
        await self.write(
            session_id, lambda connection: log.replace(connection, session_id, keep, kept), committed=committed
        )

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: NewActivation | None = None
    ) -> None:
        """Keep the newest state of a provider key, and along with it what the activation was."""

        def work(connection: Connection) -> None:
            log.save_activation(connection, session_id, provider_key, state)
            if made is not None:
                log.add_to_history(connection, session_id, provider_key, made)

        await self.write(session_id, work)

    async def list_activations(self, session_id: str) -> list[StoredActivation]:
        known = {"session_id": session_id}
        return await self.read(lambda connection: list(starmap(StoredActivation, connection.run("history", known))))

    async def state_before(self, session_id: str, number: int) -> bytes | None:
        known = {"session_id": session_id, "number": number}
        row = await self.read(lambda connection: connection.run("state_before", known).fetchone())
        return None if row is None or row[0] is None else zlib.decompress(row[0])

    async def save_pins(self, session_id: str, pins: str, committed: Callable[[], None]) -> None:
        values = {"session_id": session_id, "pins": pins}

        def work(connection: Connection) -> None:
            connection.run("save_pins", values)

        await self.write(session_id, work, committed=committed)

    async def save_rules(self, session_id: str, rows: Sequence[tuple[int, StoredRules]]) -> None:
        """Keep the standing rules of messages, each with its place in the log, unless they are kept already."""
        kept = tuple(rows)
        await self.write(session_id, lambda connection: log.add_rules(connection, session_id, kept))

    async def save_budget(self, session_id: str, budget: int) -> None:
        await self.write(session_id, lambda connection: log.save_budget(connection, session_id, budget))

    async def save_failure(self, session_id: str, failure: StoredFailure) -> None:
        await self.write(session_id, lambda connection: log.save_failure(connection, session_id, failure))

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        wanted = tuple(keys)
        if self.read_only:
            return await self.read(lambda connection: log.find_summaries(connection, wanted))

        def work(connection: Connection) -> dict[SummaryKey, StoredSummary]:
            log.note_uses(connection, session_id, wanted, places)
            return log.find_summaries(connection, wanted)

        return await self.submit(work)

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        self.refuse_if_read_only("save a summary")

        def work(connection: Connection) -> StoredSummary:
            kept = log.save_summary(connection, key, summary)
            log.note_uses(connection, session_id, [key], places)
            return kept

        return await self.submit(work)

    async def summaries_of(self, session_id: str) -> Mapping[SummaryKey, KeptSummary]:
        return await self.read(lambda connection: log.summaries_of(connection, session_id))

    async def sessions(self) -> list[SessionInfo]:
        return await self.read(self._list_sessions)

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used; its claim, if this store has it, ends too."""
        self.refuse_if_read_only("delete a session")
        return await self._writer().submit(lambda connection: self._delete(connection, session_id), alone=True)

    async def purge(self) -> int:
        self.refuse_if_read_only("purge")
        return await self._writer().submit(self._purge, alone=True)

    # What the parts of a store share; see `database.Access`.

    async def read(self, work: Work[Result]) -> Result:
        return await self._writer().submit(lambda connection: self._read(connection, work), alone=True, reads=True)

    async def write(
        self, session_id: str, work: Work[Result], *, committed: Callable[[], None] | None = None
    ) -> Result:
        self._refuse_unless_claimed(session_id)
        return await self._writer().submit(self._fenced(session_id, work), committed=committed)

    def submit(self, work: Work[Result]) -> asyncio.Future[Result]:
        return self._writer().submit(work)

    def refuse_if_read_only(self, what: str) -> None:
        """Raise where nothing may be written."""
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")

    def _refuse_unless_claimed(self, session_id: str) -> None:
        self.refuse_if_read_only("write to a session")
        if session_id not in self._claimed:
            self._writer().check_open()
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

    def _writer(self) -> Writer:
        if self._engine is None or not self._is_open or self._is_closed:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return self._engine.writer

    # What a database does in its own way; functions on a connection run in the writer's thread.

    def _join(self) -> E:
        """The engine that this store uses."""
        raise NotImplementedError

    async def _leave(self, engine: E) -> None:
        """Give up the claims, and end an engine without stores."""
        raise NotImplementedError

    def _claim(self, connection: Any, session_id: str, project: str | None) -> None:
        raise NotImplementedError

    def _read(self, connection: Any, work: Work[Result]) -> Result:
        raise NotImplementedError

    def _delete(self, connection: Any, session_id: str) -> bool:
        raise NotImplementedError

    def _purge(self, connection: Any) -> int:
        raise NotImplementedError

    def _append(self, connection: Any, session_id: str, entries: Sequence[StoredEntry]) -> None:
        log.append(connection, session_id, entries)

    def _fenced(self, session_id: str, work: Work[Result]) -> Work[Result]:
        """The work, which fails where another writer has taken the session. A file's lock needs no more."""
        return work

    def _list_sessions(self, connection: Any) -> list[SessionInfo]:
        return log.list_sessions(connection)
