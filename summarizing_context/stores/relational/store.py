"""What the stores on relational databases do alike. A database says how its sessions are claimed, read and removed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Container, Hashable, Mapping, Sequence
from itertools import starmap
from typing import Any
from weakref import WeakValueDictionary

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.base import (
    NOWHERE,
    Committed,
    Entries,
    NewActivation,
    Places,
    SessionInfo,
    StoredActivation,
    StoredFailure,
    StoredSession,
    StoredSummary,
    StoredVerdict,
    SummaryKey,
)
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import Connection, Engine, Result, Work
from summarizing_context.stores.relational.retrieval import RelationalMemories, RelationalSearchIndex, RelationalVectors

_engines: WeakValueDictionary[Hashable, Engine] = WeakValueDictionary()  # by place and event loop


class RelationalStore:
    """The methods of a `Store` that are the same for every database. Stores of one event loop at one place share an
    engine; `place` says what makes two stores the same, and None shares nothing. `claimed` are the sessions that this
    store may write to, as they change."""

    def __init__(
        self, name: str, make_engine: Callable[[], Engine], *, place: Hashable, read_only: bool, claimed: Container[str]
    ) -> None:
        self.name = name
        self.read_only = read_only
        self._make_engine = make_engine
        self._place = place
        self._claimed = claimed
        self._engine: Engine | None = None
        self._is_open = self._is_closed = False
        self._leaving: asyncio.Task[None] | None = None
        self.checkpoints = log.RelationalCheckpoints(self)
        self.index = RelationalSearchIndex(self)
        self.memories = RelationalMemories(self)
        self.vectors = RelationalVectors(self)

    async def open(self) -> None:
        """Connect, creating the store if needed."""
        key = (running_loop(), type(self), self._place, self.read_only)
        if self._engine is not None or self._is_closed:
            raise StoreError(f"{self.name}: the store was opened before; make a new one")
        engine = None if self._place is None else _engines.get(key)
        if engine is None or not engine.is_usable:
            engine = _engines[key] = self._make_engine()
        self._engine = engine
        engine.stores.append(self)
        try:
            await engine.start()
        except BaseException:  # also a cancellation: else the thread would stay
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Finish the queued writes and give up the claims; the last store ends the thread. May be called twice."""
        self._is_closed = True
        if self._engine is None:
            return
        self._engine.check_loop()
        if self._leaving is None:  # else a first call was cancelled
            self._leaving = asyncio.create_task(self._leave(self._engine))
        await asyncio.shield(self._leaving)

    async def _leave(self, engine: Engine) -> None:
        """Give up the claims, and end an engine without stores: several that close at once each give up their own."""
        try:
            if self._is_open:
                await self._give_up(engine)
        finally:
            engine.stores.remove(self)
            if not engine.stores:
                await engine.stop()

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        await self.submit_alone("claim a session", lambda connection: self._claim(connection, session_id, project))

    async def load(self, session_id: str) -> StoredSession | None:
        def work(connection: Connection) -> StoredSession | None:
            row = connection.run("session", session_id=session_id).fetchone()
            if row is None:
                return None
            project, log_version, pins, updated_at, *failure = row
            return StoredSession(
                session_id,
                project,
                log.read_entries(connection, log.head_of(connection, session_id), self.name),
                connection.run("activations", session_id=session_id).fetchall(),
                log_version,
                pins,
                tuple(starmap(StoredVerdict, connection.run("verdicts", session_id=session_id))),
                updated_at,
                StoredFailure(*failure),
            )

        return await self.read(work)

    def append(self, session_id: str, entries: Entries, committed: Committed) -> Awaitable[None]:
        kept = tuple(entries)
        return self.write(session_id, lambda connection: self._append(connection, session_id, kept), committed)

    async def replace(self, session_id: str, keep: int, entries: Entries, committed: Committed) -> None:
        kept = tuple(entries)
        await self.write(session_id, lambda connection: log.replace(connection, session_id, keep, kept), committed)

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: NewActivation | None = None
    ) -> None:
        def work(connection: Connection) -> None:
            log.save_activation(connection, session_id, provider_key, state)
            if made is None:
                return
            known = {"session_id": session_id, "number": made.number}
            before = None if made.before is None else zlib.compress(made.before, 1)  # quickly: a view waits for it
            what = {"provider_key": provider_key, "figures": made.figures, "before": before}
            connection.run("add_to_history", **known, **what)
            connection.run("thin_history", **known, keep=64)
            if made.undoes is not None:
                connection.run("note_undone", session_id=session_id, number=made.undoes)

        await self.write(session_id, work)

    async def list_activations(self, session_id: str) -> list[StoredActivation]:
        return list(starmap(StoredActivation, await self.rows("history", session_id=session_id)))

    async def state_before(self, session_id: str, number: int) -> bytes | None:
        rows = await self.rows("state_before", session_id=session_id, number=number)
        return zlib.decompress(rows[0][0]) if rows and rows[0][0] is not None else None

    async def save_pins(self, session_id: str, pins: str, committed: Committed) -> None:
        await self._run_for("save_pins", session_id, committed, pins=pins)

    async def save_verdicts(self, session_id: str, rows: Sequence[tuple[int, StoredVerdict]]) -> None:
        kept = tuple(rows)
        await self.write(session_id, lambda connection: log.add_verdicts(connection, session_id, kept))

    async def save_facts(self, session_id: str, rows: Sequence[tuple[int, bytes]]) -> None:
        kept = tuple(rows)
        await self.write(session_id, lambda connection: log.update_facts(connection, session_id, kept))

    async def save_budget(self, session_id: str, budget: int) -> None:
        await self._run_for("save_budget", session_id, budget=budget)

    async def save_failure(self, session_id: str, failure: StoredFailure) -> None:
        await self._run_for("save_failure", session_id, **failure._asdict())

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        wanted = tuple(keys)

        def work(connection: Connection) -> dict[SummaryKey, StoredSummary]:
            if not self.read_only:
                log.note_uses(connection, session_id, wanted, places)
            return log.find_summaries(connection, wanted)

        return await (self.read(work) if self.read_only else self.submit(work))

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        self.refuse_if_read_only("save a summary")

        def work(connection: Connection) -> StoredSummary:
            kept = log.save_summary(connection, key, summary)
            log.note_uses(connection, session_id, [key], places)
            return kept

        return await self.submit(work)

    async def summaries_of(self, session_id: str) -> Mapping[SummaryKey, tuple[StoredSummary, tuple[int, int] | None]]:
        return {
            SummaryKey(*key): (log.read_summary(*parts), None if place[0] is None else (place[0], place[1]))
            for row in await self.rows("summaries_of", session_id=session_id)
            for key, place, parts in [(row[:2], row[2:4], row[4:])]
        }

    async def sessions(self) -> list[SessionInfo]:
        return await self.read(self._list_sessions)

    # What the parts of a store share.

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one committed state."""
        return await self._opened().submit(lambda connection: self._read(connection, work), alone=True)

    async def rows(self, query: str, **values: Any) -> list[Any]:
        """Return all rows of a query."""
        return await self.read(lambda connection: list(connection.run(query, **values)))

    def write(self, session_id: str, work: Work[Result], committed: Committed | None = None) -> asyncio.Future[Result]:
        """Queue `work` for a session that this store has claimed; it is durable when the future is done."""
        self.refuse_if_read_only("write to a session")
        engine = self._opened()
        if session_id not in self._claimed:
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

        def fenced(connection: Any) -> Result:
            self._check_still_ours(connection, session_id)
            return work(connection)

        return engine.submit(fenced, committed=committed)

    def submit(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue `work` that belongs to no session; it is durable when the future is done."""
        return self._opened().submit(work)

    async def submit_alone(self, what: str, work: Work[Result]) -> Result:
        """Run `work` that begins and ends transactions itself; `what` it does is named where nothing may be written."""
        self.refuse_if_read_only(what)
        return await self._opened().submit(work, alone=True)

    async def _run_for(self, query: str, session_id: str, committed: Committed | None = None, **values: Any) -> None:
        """Run one query for a session that this store has claimed."""
        await self.write(
            session_id, lambda connection: connection.run(query, session_id=session_id, **values), committed
        )

    def refuse_if_read_only(self, what: str) -> None:
        """Raise `StoreReadOnlyError` where nothing may be written."""
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")

    def _opened(self) -> Engine:
        """Return the engine."""
        if self._engine is None or not self._is_open or self._is_closed:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return self._engine

    # What a database does in its own way; functions on a connection run in the engine's thread.

    async def _give_up(self, engine: Engine) -> None:
        """Give up what this store has claimed."""
        raise NotImplementedError

    def _claim(self, connection: Any, session_id: str, project: str | None) -> None:
        raise NotImplementedError

    def _check_still_ours(self, connection: Any, session_id: str) -> None:
        """Raise where another writer has taken the session."""
        raise NotImplementedError

    def _append(self, connection: Any, session_id: str, entries: Entries) -> None:
        log.append(connection, session_id, entries)

    def _read(self, connection: Any, work: Work[Result]) -> Result:
        raise NotImplementedError

    def _list_sessions(self, connection: Any) -> list[SessionInfo]:
        return list(starmap(SessionInfo, connection.run("sessions")))
