"""`PostgresStore`: the sessions of many hosts in one schema of a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.base import (
    NOWHERE,
    NewActivation,
    Places,
    SessionInfo,
    StoredEntry,
    StoredSession,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.stores.postgres import driver, removal
from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.postgres.claims import PostgresClaims
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.engine import Engine
from summarizing_context.stores.postgres.requests import PostgresFleet, PostgresRequests
from summarizing_context.stores.postgres.search import PostgresSearchIndex
from summarizing_context.stores.postgres.vectors import PostgresVectors
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.activations import RelationalActivations, add_to_history
from summarizing_context.stores.relational.checkpoints import RelationalCheckpoints
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.memories import RelationalMemories, RelationalPins
from summarizing_context.stores.relational.rules import RelationalRules
from summarizing_context.stores.relational.summaries import find_summaries, note_uses, save_summary
from summarizing_context.stores.relational.writer import Writer
from summarizing_context.stores.requests import SummaryQueue

Result = TypeVar("Result")


class PostgresStore:
    """A `Store` on PostgreSQL. `await open()` first; it shares a thread with other stores of the same address.

    `address` is `postgresql://user@host/database`; its parameter `schema` names a schema, `lease` the seconds after
    which the sessions of a vanished host may be taken. While `gives_way` says so, nothing is indexed in spare time.
    """

    def __init__(self, address: str, *, read_only: bool = False, gives_way: Callable[[], bool] = lambda: False) -> None:
        self._address = read_address(address)
        self.name = self._address.name
        self.schema = self._address.schema
        self.read_only = read_only
        self._gives_way = gives_way
        self._engine: Engine | None = None
        self._is_open = self._is_closed = False
        self._claimed: set[str] = set()
        self.activations = RelationalActivations(self)
        self.checkpoints = RelationalCheckpoints(self)
        self.index = PostgresSearchIndex(self, self._submit_spare)
        self.memories = RelationalMemories(self)
        self.pins = RelationalPins(self)
        self.rules = RelationalRules(self)
        self.vectors = PostgresVectors(self)

    @property
    def claims(self) -> PostgresClaims | None:
        """Who pays for a summary; nobody where nothing may be written."""
        return None if self._engine is None or self.read_only else PostgresClaims(self, self._engine.notices)

    @property
    def requests(self) -> PostgresRequests:
        """What is asked of a pool of workers. The store must be open."""
        if self._engine is None:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return PostgresRequests(self, self._engine.notices)

    @property
    def fleet(self) -> PostgresFleet:
        """The caps on calls of all workers."""
        return PostgresFleet(self)

    def queue(self, maker: str) -> SummaryQueue:
        """The jobs for the workers of a model. Raises `MissingExtraError` where no queue is installed."""
        from summarizing_context.stores.postgres.queue import PostgresQueue  # its package is installed on demand

        requests, engine = self.requests, self._engine
        assert engine is not None
        return PostgresQueue(self._address, maker, requests, engine.notices, engine.installing)

    async def open(self) -> None:
        """Connect, creating the schema if needed and bringing it up to date."""
        running_loop()
        if self._engine is not None or self._is_closed:
            raise StoreError(f"{self.name}: the store was opened before; make a new one")
        self._engine = Engine.joined(self._address, self._gives_way, read_only=self.read_only)
        try:
            await self._engine.started()
        except Exception:
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Finish the queued writes and give up the claims. May be called twice."""
        engine, is_first = self._engine, not self._is_closed
        self._is_closed = True
        if engine is None:
            return
        engine.writer.check_loop()
        if not is_first:
            return
        self._engine = None
        try:
            if self._is_open:
                held = sorted(self._claimed)
                await engine.writer.submit(lambda connection: driver.release(connection, held), alone=True)
        finally:
            await engine.leave(self._gives_way)

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        """Become the session's only writer, creating the session if needed."""
        self.refuse_if_read_only("claim a session")

        def work(connection: PostgresConnection) -> None:
            driver.take(connection, session_id, project)
            self._claimed.add(session_id)

        await self._writer().submit(work, alone=True)

    async def load(self, session_id: str) -> StoredSession | None:
        """The session as committed, or None if there is none."""
        return await self.read(lambda connection: log.load(connection, session_id, self.name))

    def append(self, session_id: str, entries: Sequence[StoredEntry], committed: Callable[[], None]) -> Awaitable[None]:
        """Queue entries at the end of the log, at once and in call order."""
        self._refuse_unless_claimed(session_id)
        kept = tuple(entries)
        appended: asyncio.Future[None] = self._writer().submit(
            lambda connection: connection.append(session_id, kept), committed=committed
        )
        return appended

    async def replace(
        self, session_id: str, keep: int, entries: Sequence[StoredEntry], committed: Callable[[], None]
    ) -> None:
        """Make the log its own first `keep` entries followed by `entries`."""
        kept = tuple(entries)
        await self.write(
            session_id, lambda connection: log.replace(connection, session_id, keep, kept), committed=committed
        )

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: NewActivation | None = None
    ) -> None:
        """Keep the newest state of a provider key, and along with it what the activation was."""

        def work(connection: PostgresConnection) -> None:
            log.save_activation(connection, session_id, provider_key, state)
            if made is not None:
                add_to_history(connection, session_id, provider_key, made)

        await self.write(session_id, work)

    async def save_budget(self, session_id: str, budget: int) -> None:
        """Keep the budget of the session's last request, in tokens."""
        await self.write(session_id, lambda connection: log.save_budget(connection, session_id, budget))

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Those of `keys` that are there, noted as used by the session at these places."""
        wanted = tuple(keys)
        if self.read_only:
            return await self.read(lambda connection: find_summaries(connection, wanted))

        def work(connection: PostgresConnection) -> dict[SummaryKey, StoredSummary]:
            note_uses(connection, session_id, wanted, places)
            return find_summaries(connection, wanted)

        return await self.submit(work)

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        """Keep a summary unless its key has one, and return the one that is kept."""
        self.refuse_if_read_only("save a summary")

        def work(connection: PostgresConnection) -> StoredSummary:
            kept = save_summary(connection, key, summary)
            note_uses(connection, session_id, [key], places)
            return kept

        return await self.submit(work)

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the newest change first."""
        return await self.read(log.list_sessions)

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used; its claim, if this store has it, ends too."""
        self.refuse_if_read_only("delete a session")

        def work(connection: PostgresConnection) -> bool:
            is_ours = session_id in self._claimed
            found = removal.remove_session(connection, session_id, is_ours=is_ours)
            self._claimed.discard(session_id)
            return found

        found = await self._writer().submit(work, alone=True)
        if found:
            try:
                await self._writer().submit(removal.forget_states, alone=True)
            except StoreError as error:
                raise type(error)(f"{error}. The session is deleted; purge removes what is left") from error
        return found

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; the bytes of their texts."""
        self.refuse_if_read_only("purge")
        freed = await self._writer().submit(removal.remove_unneeded, alone=True)
        await removal.make_free(self._address)
        return freed

    # What its parts share.

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one committed state."""

        def within(connection: PostgresConnection) -> Result:
            connection.begin_read()
            result = work(connection)
            connection.commit_work()
            return result

        return await self._writer().submit(within, alone=True)

    async def write(
        self, session_id: str, work: Work[Result], *, committed: Callable[[], None] | None = None
    ) -> Result:
        """Run `work` for a session that this store has claimed; it is durable when this returns."""
        self._refuse_unless_claimed(session_id)

        def fenced(connection: PostgresConnection) -> Result:
            connection.check_fence(session_id)
            try:
                return work(connection)
            finally:
                connection.forget_head(session_id)

        return await self._writer().submit(fenced, committed=committed)

    def submit(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue `work` that belongs to no session; it is durable when the future is done."""
        return self._writer().submit(work)

    def submit_alone(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue `work` that opens its own transactions."""
        return self._writer().submit(work, alone=True)

    def refuse_if_read_only(self, what: str) -> None:
        """Raise where nothing may be written."""
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")

    def _submit_spare(self, work: Work[Result]) -> asyncio.Future[Result]:
        return self._writer().submit_spare(work)

    def _refuse_unless_claimed(self, session_id: str) -> None:
        self.refuse_if_read_only("write to a session")
        if session_id not in self._claimed:
            self._writer().check_open()
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

    def _writer(self) -> Writer:
        if self._engine is None or not self._is_open:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return self._engine.writer
