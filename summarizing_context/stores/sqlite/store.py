"""`SqliteStore`: many sessions in one SQLite file, or in memory."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import TypeVar

from summarizing_context.errors import SessionInUseError, StoreError, StoreLockedError
from summarizing_context.stores.base import SessionInfo, StoredEntry
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.search import RelationalSearchIndex
from summarizing_context.stores.relational.store import RelationalStore
from summarizing_context.stores.relational.vectors import RelationalVectors
from summarizing_context.stores.sqlite.engine import SqliteEngine
from summarizing_context.stores.sqlite.faults import translate
from summarizing_context.stores.sqlite.files import Claims, read
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.search import Fts5, forget_entries

Result = TypeVar("Result")

_WRITTEN_ANEW = 16 << 20  # bytes; a larger file is not written anew by each deletion

_SLICE = 200  # entries or summaries that a deletion removes in one transaction, while others wait

_MERGED = 300  # pages of an index that it merges in one

_READERS_END = 1_000  # milliseconds that emptying the log beside the file waits for readers, while others wait


class SqliteStore(RelationalStore[SqliteEngine]):
    """A `Store` on SQLite. `await open()` first; `busy_timeout` is in seconds, 30 by default.

    It has a thread and a connection of its own, or shares those of `engine`, whose path and bounds hold then.
    `max_pages` caps the file's size (pages of 4096 bytes), as a full disk would.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float | None = None,
        max_pages: int | None = None,
        engine: SqliteEngine | None = None,
    ) -> None:
        if engine is None:
            engine = SqliteEngine(path, read_only=read_only, busy_timeout=busy_timeout, max_pages=max_pages)
        self._shared = engine
        self._claims = Claims(engine.path)
        super().__init__(engine.name, self._claims.sessions, read_only=engine.read_only)
        self.index = RelationalSearchIndex(self, Fts5)
        self.vectors = RelationalVectors(self)

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used, in slices: others write to the file in between.

        A file of more than 16 MB stays as large as it is; the space is overwritten and used again. Where this is cut
        short, the session is gone, and `purge` removes the rest.
        """
        self.refuse_if_read_only("delete a session")
        submit = partial(self._writer().submit, alone=True)
        left = await submit(partial(self._remove_head, session_id=session_id))
        if left is None:
            return False
        try:
            for branch, stop in left:
                while await submit(partial(_remove_newest, branch=branch, stop=stop)):
                    pass
            while await submit(partial(_remove_summaries, session_id=session_id)):
                pass
            for index in ("search", "memory_words"):
                pages = -_MERGED  # the first merges all parts of the index, the others go on with it
                while await submit(partial(_merge, index=index, pages=pages)):
                    pages = _MERGED
            await submit(self._overwrite)
        finally:
            with suppress(StoreError):  # closed meanwhile: that has given it up
                await submit(lambda _: self._claims.give_up(session_id))
        return True

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
                self._refuse_if_held(connection, session_id)
                log.open_session(connection, session_id, project, os.getpid())
        except BaseException:
            self._claims.give_up(session_id)
            raise

    def _refuse_if_held(self, connection: Database, session_id: str) -> None:
        """Raise where the lock was free only because its file was removed under a living writer."""
        pid = log.noted_writer(connection, session_id)
        if self._claims.is_held_without_its_file(session_id, pid):
            raise SessionInUseError(session_id, pid)

    def _check_still_ours(self, connection: Database, session_id: str) -> None:
        """Raise where another process has claimed the session, as it may once its lock file was removed."""
        if log.noted_writer(connection, session_id) != os.getpid():
            raise StoreError(
                f"{self.name}: another process has opened session {session_id!r} for writing, or deleted it, after "
                "its lock file was removed; nothing was written: close this context and open the session again, and "
                "keep what cleans up away from the files ending in .lock"
            )

    def _append(self, connection: Database, session_id: str, entries: Sequence[StoredEntry]) -> None:
        self._check_still_ours(connection, session_id)
        super()._append(connection, session_id, entries)

    def _fenced(self, session_id: str, work: Work[Result]) -> Work[Result]:
        def fenced(connection: Database) -> Result:
            self._check_still_ours(connection, session_id)
            return work(connection)

        return fenced

    def _in_use(self, connection: Database, session_id: str) -> SessionInUseError:
        own = session_id in self._claims.sessions
        return SessionInUseError(session_id, os.getpid() if own else log.noted_writer(connection, session_id))

    def _list_sessions(self, connection: Database) -> list[SessionInfo]:
        listed = log.list_sessions(connection)
        return [
            info
            if info.writer_pid is None
            or self._claims.is_claimed(info.session_id)
            or self._claims.is_held_without_its_file(info.session_id, info.writer_pid)
            else changed(info, writer_pid=None)
            for info in listed
        ]

    def _remove_head(self, connection: Database, session_id: str) -> list[tuple[int, int | None]] | None:
        """Claim a session and take it off the list; the branches of which entries are left over, as `needed` tells."""
        if not log.has_session(connection, session_id):
            return None
        was_ours = session_id in self._claims.sessions
        if not was_ours and not self._claims.take(session_id):
            raise self._in_use(connection, session_id)
        known = {"session_id": session_id}
        try:
            with transaction(connection):
                self._refuse_if_held(connection, session_id)
                connection.run("disown_branches", known)
                connection.run("remove_session", known)
                connection.run("remove_checkpoints", known)
                remove_of_session(connection, session_id)
                connection.run("forget_rules", {**known, "keep": 0})
                connection.run("remove_history", known)
                connection.run("forget_activations", {**known, "keep": 0})
                connection.run("age_uses", known)  # for `purge`, where this is cut short
                return connection.run("needed", {"everything": False}).fetchall()
        except BaseException:
            if not was_ours:
                self._claims.give_up(session_id)
            raise

    def _overwrite(self, connection: Database) -> None:
        """Leave no byte of what was removed, as far as that does not keep others waiting for long."""
        _give_back_space(connection, self.name, self._shared.busy_timeout, anew=_size(connection) <= _WRITTEN_ANEW)

    def _purge(self, connection: Database) -> int:
        before = _size(connection)
        with transaction(connection):
            _trim(connection)
            connection.run("forget_replaced_states")
            connection.run("remove_stale_uses")
            connection.run("unindex_unused_summaries")
            connection.run("remove_unused_summaries")
            connection.run("remove_unnamed_vectors")
            connection.run("tidy_index")
            connection.run("tidy_memories")
        _give_back_space(connection, self.name, self._shared.busy_timeout, anew=True)
        return max(0, before - _size(connection))


def _remove_newest(connection: Database, branch: int, stop: int | None) -> bool:
    """Remove the newest entries of a branch, not those before `stop`; whether there are more. None: it goes whole."""
    with transaction(connection):
        (end,) = connection.run("branch_end", {"branch": branch}).fetchone()
        start = max(stop or 0, end - _SLICE)
        if start < end:
            forget_entries(connection, branch, start)
            connection.run("remove_entries", {"branch": branch, "stop": start})
        elif stop is None:
            connection.run("remove_branch", {"branch": branch})
    return bool(start < end)


def _remove_summaries(connection: Database, session_id: str) -> bool:
    """Remove some summaries that only a deleted session uses; whether there may be more."""
    with transaction(connection):
        found = connection.run("own_summaries", {"session_id": session_id, "most": _SLICE}).fetchall()
        ids = {"ids": json.dumps([id for (id,) in found])}
        connection.run("unindex_summaries", ids)
        connection.run("remove_summaries", ids)
        if not found:
            connection.run("remove_uses", {"session_id": session_id})
    return bool(found)


def _merge(connection: Database, index: str, pages: int) -> bool:
    """Merge so many pages of an index, so that words of what was removed are in none; whether there is more to do."""
    before = connection.total_changes
    with transaction(connection):
        connection.run(f"merge_{index}", {"pages": pages})
    return connection.total_changes - before > 1


def _trim(connection: Database) -> None:
    """Remove what no head needs."""
    for branch, stop in connection.run("needed", {"everything": True}).fetchall():
        forget_entries(connection, branch, stop or 0)
        connection.run("remove_entries", {"branch": branch, "stop": stop or 0})
        if stop is None:
            connection.run("remove_branch", {"branch": branch})


def _give_back_space(connection: Database, path: str, busy_timeout: float, *, anew: bool) -> None:
    """Write the file anew, which alone leaves no byte of what was removed, and empty the log beside it."""
    try:
        if anew:
            connection.execute("vacuum")
        connection.execute(f"pragma busy_timeout = {min(_READERS_END, round(busy_timeout * 1_000))}")
        is_busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise StoreLockedError(f"{path}: another process is reading the file")
    except (sqlite3.Error, StoreLockedError) as error:
        fault = translate(error, path)
        raise type(fault)(
            f"{fault}. What was removed is no longer to be found by the store, but its bytes may still be in the "
            "file: call purge when the cause is gone"
        ) from error
    finally:
        connection.execute(f"pragma busy_timeout = {round(busy_timeout * 1_000)}")


def _size(connection: Database) -> int:
    pages, page_size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_size)
