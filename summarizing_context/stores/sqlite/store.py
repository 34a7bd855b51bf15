"""`SqliteStore`: many sessions in one SQLite file, or in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import TypeVar

from summarizing_context.errors import SessionInUseError, StoreError, StoreLockedError
from summarizing_context.stores.base import SessionInfo
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.checkpoints import forget_unused_states
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.store import RelationalStore
from summarizing_context.stores.relational.vectors import RelationalVectors
from summarizing_context.stores.sqlite.engine import SqliteEngine
from summarizing_context.stores.sqlite.faults import translate
from summarizing_context.stores.sqlite.files import Claims, is_empty, read
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.search import SqliteSearchIndex, forget_entries

Result = TypeVar("Result")


class SqliteStore(RelationalStore[SqliteEngine]):
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
        engine: SqliteEngine | None = None,
    ) -> None:
        if engine is None:
            engine = SqliteEngine(path, read_only=read_only, busy_timeout=busy_timeout, max_pages=max_pages)
        self._shared = engine
        self._claims = Claims(engine.path)
        super().__init__(engine.name, self._claims.sessions, read_only=engine.read_only, gives_way=gives_way)
        self.index = SqliteSearchIndex(self)
        self.vectors = RelationalVectors(self)

    @staticmethod
    def is_empty(path: str | Path) -> bool:
        """Whether a file holds no session, memory or summary. It is not changed."""
        return is_empty(path)

    def _join(self) -> SqliteEngine:
        self._shared.claimed.append(self._claims)
        return self._shared

    async def _leave(self, engine: SqliteEngine) -> None:
        if engine.stores:
            with suppress(StoreError):
                await engine.writer.submit(lambda connection: engine.release(connection, self._claims), alone=True)
        else:  # it gives the claims up
            await engine.stop()
        engine.claimed.remove(self._claims)
        for session_id in self._claims.held():  # the thread may be at work in spare time still
            self._claims.give_up(session_id)

    # What follows runs in the writer's thread.

    def _read(self, connection: Database, work: Work[Result]) -> Result:
        if self.read_only and self._shared.path is not None:
            return read(self._shared.path, self._shared.busy_timeout, work)
        with transaction(connection, "deferred"):
            return work(connection)

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
            _remove_session(connection, session_id, self.name)
        finally:
            if not (was_ours and log.has_session(connection, session_id)):
                self._claims.give_up(session_id)
        return True

    def _purge(self, connection: Database) -> int:
        before = _size(connection)
        with transaction(connection):
            _trim(connection, everything=True)
            connection.run("forget_replaced_states")
            connection.run("remove_stale_uses")
            connection.run("unindex_unused_summaries")
            connection.run("remove_unused_summaries")
            connection.run("remove_unnamed_vectors")
            connection.run("tidy_index")
            connection.run("tidy_memories")
        _give_back_space(connection, self.name)
        return max(0, before - _size(connection))


def _remove_session(connection: Database, session_id: str, path: str) -> None:
    """Remove a session with the entries and summaries that only it needs."""
    known = {"session_id": session_id}
    with transaction(connection):
        connection.run("disown_branches", known)
        connection.run("remove_session", known)
        connection.run("remove_checkpoints", known)
        remove_of_session(connection, session_id)
        connection.run("forget_rules", {**known, "keep": 0})
        connection.run("remove_history", known)
        forget_unused_states(connection)
        _trim(connection, everything=False)
        connection.run("forget_activations", {**known, "keep": 0})
        connection.run("unindex_own_summaries", known)
        connection.run("remove_own_summaries", known)
        connection.run("remove_uses", known)
        connection.run("tidy_index")
        connection.run("tidy_memories")
    _give_back_space(connection, path)


def _trim(connection: Database, *, everything: bool) -> None:
    """Remove what no head needs of all branches, or of those of deleted sessions."""
    for branch, stop in connection.run("needed", {"everything": everything}).fetchall():
        forget_entries(connection, branch, stop or 0)
        connection.run("remove_entries", {"branch": branch, "stop": stop or 0})
        if stop is None:
            connection.run("remove_branch", {"branch": branch})


def _give_back_space(connection: Database, path: str) -> None:
    """Write the file anew and empty the log beside it, so that no byte of what was removed is left."""
    try:
        connection.execute("vacuum")
        is_busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise StoreLockedError(f"{path}: another process is reading the file")
    except (sqlite3.Error, StoreLockedError) as error:
        fault = translate(error, path)
        raise type(fault)(
            f"{fault}. What was removed is no longer to be found by the store, but its bytes may still be in the "
            "file: call purge when the cause is gone"
        ) from error


def _size(connection: Database) -> int:
    pages, page_size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_size)
