"""`SqliteStore`: many sessions in one SQLite file, or in memory."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path

from summarizing_context.errors import SessionInUseError
from summarizing_context.stores.base import (
    NOWHERE,
    Places,
    SessionInfo,
    StoredEntry,
    StoredSession,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.stores.sqlite import log, removal
from summarizing_context.stores.sqlite.checkpoints import SqliteCheckpoints
from summarizing_context.stores.sqlite.files import Claims, Identity, identity
from summarizing_context.stores.sqlite.memories import SqliteMemories, SqlitePins
from summarizing_context.stores.sqlite.opening import check_to_read, open_memory, open_to_write
from summarizing_context.stores.sqlite.rules import SqliteRules
from summarizing_context.stores.sqlite.schema import SQL, transaction
from summarizing_context.stores.sqlite.search import SqliteSearchIndex, index_before_leaving, index_in_spare_time
from summarizing_context.stores.sqlite.vectors import SqliteVectors
from summarizing_context.stores.sqlite.writer import Access, Writer


def _find_summaries(connection: sqlite3.Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, StoredSummary]:
    """Those of `keys` that are there."""
    found = connection.execute(SQL["find_summaries"], {"keys": json.dumps(keys)})
    return {
        SummaryKey(range_hash, recipe_hash): StoredSummary(text.decode("utf-8", "surrogatepass"), *numbers)
        for range_hash, recipe_hash, text, *numbers in found
    }


def _save_summary(connection: sqlite3.Connection, key: SummaryKey, summary: StoredSummary) -> StoredSummary:
    """Keep `summary` unless there is one, and return the one that is kept."""
    text = summary.text.encode("utf-8", "surrogatepass")
    row = (*key, text, summary.rank, summary.input_tokens, summary.output_tokens)
    connection.execute(SQL["save_summary"], row)
    return _find_summaries(connection, [key])[key]


def _note_uses(connection: sqlite3.Connection, session_id: str, keys: Sequence[SummaryKey], places: Places) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *places.get(key, (None, None))) for key in keys]
    connection.execute(SQL["note_uses"], {"session_id": session_id, "keys": json.dumps(listed)})


_CLOSING_WAIT = 200  # milliseconds that closing waits for a locked file


class SqliteStore:
    """A `Store` on SQLite. `await open()` first; `busy_timeout` is in seconds.

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
    ) -> None:
        self._path = None if path == ":memory:" else Path(os.path.realpath(path))
        self.name = str(self._path or ":memory:")
        self._read_only = read_only
        self._busy_timeout = busy_timeout
        self._max_pages = max_pages
        self._identity: Identity | None = None  # of the files that the connection has open
        self._claims = Claims(self._path)
        self._writer = Writer(
            self.name,
            self._connect,
            self._disconnect,
            is_gone=self._is_gone,
            spare=None if read_only else index_in_spare_time,
            gives_way=gives_way,
        )
        self._access = Access(self._path, self._writer, self._claims, read_only=read_only, wait=busy_timeout)
        self.checkpoints = SqliteCheckpoints(self._access)
        self.index = SqliteSearchIndex(self._access)
        self.memories = SqliteMemories(self._access)
        self.pins = SqlitePins(self._access)
        self.rules = SqliteRules(self._access)
        self.vectors = SqliteVectors(self._access)

    async def open(self) -> None:
        """Open the file, creating it and its folder if needed, and bring its schema up to date."""
        await self._writer.start()

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

    async def save_activation(self, session_id: str, provider_key: str, state: bytes) -> None:
        """Keep the newest state of a provider key."""
        self._access.refuse_unless_claimed(session_id)
        await self._writer.submit(lambda connection: log.save_activation(connection, session_id, provider_key, state))

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Those of `keys` that are there, noted as used by the session at these places."""
        wanted = tuple(keys)
        if self._read_only:
            return await self._access.read(lambda connection: _find_summaries(connection, wanted))

        def work(connection: sqlite3.Connection) -> dict[SummaryKey, StoredSummary]:
            _note_uses(connection, session_id, wanted, places)
            return _find_summaries(connection, wanted)

        return await self._writer.submit(work)

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        """Keep a summary unless its key has one, and return the one that is kept."""
        self._access.refuse_if_read_only("save a summary")

        def work(connection: sqlite3.Connection) -> StoredSummary:
            kept = _save_summary(connection, key, summary)
            _note_uses(connection, session_id, [key], places)
            return kept

        return await self._writer.submit(work)

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

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            return open_memory()
        if self._read_only:
            check_to_read(self._path, busy_timeout=self._busy_timeout)
            return sqlite3.connect(":memory:")  # each read connects anew, so that nothing is left beside the file
        connection = open_to_write(self._path, busy_timeout=self._busy_timeout, max_pages=self._max_pages)
        self._identity = identity(self._path)
        return connection

    def _is_gone(self) -> bool:
        return self._path is not None and self._identity is not None and identity(self._path) != self._identity

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        held = self._claims.held()
        with suppress(sqlite3.Error):  # the lock files count, not what is noted
            connection.execute(f"pragma busy_timeout = {_CLOSING_WAIT}")
            if held:
                with transaction(connection):
                    values = [{"session_id": session_id, "pid": os.getpid()} for session_id in held]
                    connection.executemany(SQL["forget_writer"], values)
                index_before_leaving(connection)
        for session_id in held:
            self._claims.give_up(session_id)
        connection.close()

    def _claim(self, connection: sqlite3.Connection, session_id: str, project: str | None) -> None:
        if not self._claims.take(session_id):
            raise self._in_use(connection, session_id)
        try:
            with transaction(connection):
                log.open_session(connection, session_id, project, os.getpid())
        except BaseException:
            self._claims.give_up(session_id)
            raise

    def _in_use(self, connection: sqlite3.Connection, session_id: str) -> SessionInUseError:
        own = session_id in self._claims.sessions
        return SessionInUseError(session_id, os.getpid() if own else log.noted_writer(connection, session_id))

    def _list_sessions(self, connection: sqlite3.Connection) -> list[SessionInfo]:
        listed = log.list_sessions(connection)
        return [
            info
            if info.writer_pid is None or self._claims.is_claimed(info.session_id)
            else changed(info, writer_pid=None)
            for info in listed
        ]

    def _delete(self, connection: sqlite3.Connection, session_id: str) -> bool:
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
