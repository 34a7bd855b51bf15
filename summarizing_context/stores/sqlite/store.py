"""`SqliteStore`: many sessions in one SQLite file, or in memory."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import TypeVar

from summarizing_context.errors import SessionInUseError
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
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.activations import RelationalActivations, add_to_history
from summarizing_context.stores.relational.checkpoints import RelationalCheckpoints
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.memories import RelationalMemories, RelationalPins
from summarizing_context.stores.relational.rules import RelationalRules
from summarizing_context.stores.relational.summaries import find_summaries, note_uses, save_summary
from summarizing_context.stores.relational.vectors import RelationalVectors
from summarizing_context.stores.sqlite import removal
from summarizing_context.stores.sqlite.access import Access
from summarizing_context.stores.sqlite.engine import Engine, EngineSeat
from summarizing_context.stores.sqlite.files import Claims, is_empty
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.search import SqliteSearchIndex

Result = TypeVar("Result")


class SqliteStore:
    """A `Store` on SQLite. `await open()` first; `busy_timeout` is in seconds.

    It has a thread and a connection of its own, or shares those of `engine`, whose path and bounds hold then.
    `max_pages` caps the file's size (pages of 4096 bytes), as a full disk would. While `gives_way` says so, which the
    store's thread asks, nothing is indexed in spare time.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float = 5.0,
        max_pages: int | None = None,
        gives_way: Callable[[], bool] = lambda: False,
        engine: Engine | None = None,
    ) -> None:
        if engine is None:
            engine = Engine(path, read_only=read_only, busy_timeout=busy_timeout, max_pages=max_pages)
        self.name = engine.name
        self._read_only = engine.read_only
        self._claims = Claims(engine.path)
        self._writer = EngineSeat(engine, self._claims, gives_way)
        self._access = Access(
            engine.path, self._writer, self._claims, read_only=self._read_only, wait=engine.busy_timeout
        )
        self.activations = RelationalActivations(self._access)
        self.checkpoints = RelationalCheckpoints(self._access)
        self.index = SqliteSearchIndex(self._access)
        self.memories = RelationalMemories(self._access)
        self.pins = RelationalPins(self._access)
        self.rules = RelationalRules(self._access)
        self.vectors = RelationalVectors(self._access)

    async def open(self) -> None:
        """Open the file, creating it and its folder if needed, and bring its schema up to date."""
        await self._writer.start()

    @staticmethod
    def is_empty(path: str | Path) -> bool:
        """Whether a file holds no session, memory or summary. It is not changed."""
        return is_empty(path)

    async def close(self) -> None:
        """Finish the queued writes, give up the claims, end the thread. May be called twice."""
        await self._writer.stop()
        for session_id in self._claims.held():  # the thread may be at work in spare time still
            self._claims.give_up(session_id)

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        """Become the session's only writer, creating the session if needed."""
        self._access.refuse_if_read_only("claim a session")
        await self._writer.submit(lambda connection: self._claim(connection, session_id, project), alone=True)

    async def load(self, session_id: str) -> StoredSession | None:
        """The session as committed, or None if there is none."""
        return await self._access.read(lambda connection: log.load(connection, session_id, self.name))

    def append(self, session_id: str, entries: Sequence[StoredEntry], committed: Callable[[], None]) -> Awaitable[None]:
        """Queue entries at the end of the log, at once and in call order."""
        self._access.refuse_unless_claimed(session_id)
        kept = tuple(entries)
        return self._writer.submit(lambda connection: log.append(connection, session_id, kept), committed=committed)

    async def replace(
        self, session_id: str, keep: int, entries: Sequence[StoredEntry], committed: Callable[[], None]
    ) -> None:
        """Make the log its own first `keep` entries followed by `entries`."""
        self._access.refuse_unless_claimed(session_id)
        kept = tuple(entries)
        await self._writer.submit(
            lambda connection: log.replace(connection, session_id, keep, kept), committed=committed
        )

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: NewActivation | None = None
    ) -> None:
        """Keep the newest state of a provider key, and along with it what the activation was."""
        self._access.refuse_unless_claimed(session_id)

        def work(connection: Database) -> None:
            log.save_activation(connection, session_id, provider_key, state)
            if made is not None:
                add_to_history(connection, session_id, provider_key, made)

        await self._writer.submit(work)

    async def save_budget(self, session_id: str, budget: int) -> None:
        """Keep the budget of the session's last request, in tokens."""
        self._access.refuse_unless_claimed(session_id)
        await self._writer.submit(lambda connection: log.save_budget(connection, session_id, budget))

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Those of `keys` that are there, noted as used by the session at these places."""
        wanted = tuple(keys)
        if self._read_only:
            return await self._access.read(lambda connection: find_summaries(connection, wanted))

        def work(connection: Database) -> dict[SummaryKey, StoredSummary]:
            note_uses(connection, session_id, wanted, places)
            return find_summaries(connection, wanted)

        return await self._writer.submit(work)

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        """Keep a summary unless its key has one, and return the one that is kept."""
        self._access.refuse_if_read_only("save a summary")

        def work(connection: Database) -> StoredSummary:
            kept = save_summary(connection, key, summary)
            note_uses(connection, session_id, [key], places)
            return kept

        return await self._writer.submit(work)

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one state of the file."""
        return await self._access.read(work)

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the newest change first."""
        return await self._access.read(self._list_sessions)

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used; its claim, if this store has it, ends too."""
        self._access.refuse_if_read_only("delete a session")
        return await self._writer.submit(lambda connection: self._delete(connection, session_id), alone=True)

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; bytes freed."""
        self._access.refuse_if_read_only("purge")
        return await self._writer.submit(lambda connection: removal.remove_unneeded(connection, self.name), alone=True)

    # What follows runs in the writer's thread.

    def _claim(self, connection: Database, session_id: str, project: str | None) -> None:
        if not self._claims.take(session_id):
            raise self._in_use(connection, session_id)
        try:
            with transaction(connection):
                log.open_session(connection, session_id, project, os.getpid())
        except BaseException:
            self._claims.give_up(session_id)
            raise

    def _in_use(self, connection: Database, session_id: str) -> SessionInUseError:
        own = session_id in self._claims.sessions
        return SessionInUseError(session_id, os.getpid() if own else log.noted_writer(connection, session_id))

    def _list_sessions(self, connection: Database) -> list[SessionInfo]:
        listed = log.list_sessions(connection)
        return [
            info
            if info.writer_pid is None or self._claims.is_claimed(info.session_id)
            else changed(info, writer_pid=None)
            for info in listed
        ]

    def _delete(self, connection: Database, session_id: str) -> bool:
        if not log.has_session(connection, session_id):
            return False
        was_ours = session_id in self._claims.sessions
        if not was_ours and not self._claims.take(session_id):
            raise self._in_use(connection, session_id)
        try:
            removal.remove_session(connection, session_id, self.name)
        finally:
            if not (was_ours and log.has_session(connection, session_id)):
                self._claims.give_up(session_id)
        return True
