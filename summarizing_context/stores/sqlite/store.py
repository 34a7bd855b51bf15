"""`SqliteStore`: many sessions in one SQLite file, or in memory. A lock file for each says which process may write."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from summarizing_context.errors import SessionInUseError, StoreError, StoreLockedError
from summarizing_context.stores.base import SessionInfo
from summarizing_context.stores.relational.engine import Engine, Result, Work
from summarizing_context.stores.relational.store import RelationalStore, create_session, remove_session
from summarizing_context.stores.sqlite.file import (
    Database,
    File,
    check_to_read,
    connect,
    create_tables,
    fault,
    identity,
    open_to_write,
    read,
)

_WRITTEN_ANEW = 16 << 20  # bytes; a larger file is not written anew by each deletion
_SLICE = 200  # entries or summaries that a deletion removes in one transaction, while others wait
_MERGED = 300  # pages of an index that it merges in one

_held_here: WeakValueDictionary[tuple[int, str], FileLock] = WeakValueDictionary()  # by process and lock file


class SqliteEngine(Engine):
    """The engine of one file, or of memory, where `path` is None: one thread and one connection for the stores of a
    process that name it. With a connection each they would wait for one another as processes do."""

    def __init__(self, file: File, *, read_only: bool) -> None:
        super().__init__(str(file.path or ":memory:"), read_only=read_only)
        self._file = file
        self._identity: object = None  # of the files that the connection has open

    def open(self) -> Database:
        """Return a connection for writing; where only reading is allowed, one that is not used: each read opens its
        own, and leaves no file next to this one."""
        path, wait = self._file.path, self._file.busy_timeout
        if path is None:
            connection = connect(None, "", wait)
            create_tables(connection, self.name)
            return connection
        if self.read_only:
            check_to_read(path, wait)
            return connect(None, "", wait)
        connection = open_to_write(path, self._file)
        self._identity = identity(path)
        return connection

    def close(self, connection: Database) -> None:
        connection.close()

    def gone(self) -> Exception | None:
        """Return the error of all that follows, once the file was removed, moved or replaced."""
        if self._identity is None or self._file.path is None or identity(self._file.path) == self._identity:
            return None
        return StoreError(
            f"{self.name}: the file, or one that belongs to it, was removed, moved or replaced while it was open; "
            "nothing is acknowledged any more, for it would be lost. Put the files back if you can, close this, and "
            "open it again"
        )

    def fault(self, error: Exception) -> StoreError | None:
        return fault(error, self.name)


class SqliteStore(RelationalStore):
    """A `Store` on SQLite. `await open()` first; it shares a thread with the other stores of the file.

    `max_pages` caps the file's size (pages of 4096 bytes), as a full disk would. Without `waits_for_disk` a commit is
    acknowledged before the disk has it: a power cut may lose the newest commits, the end of the process loses none.
    `busy_timeout` is in seconds: 30 by default, for a process that writes the file anew takes so long; 5 without
    `waits_for_disk`, for such a host goes on without the store.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float | None = None,
        max_pages: int | None = None,
        waits_for_disk: bool = True,
    ) -> None:
        where = None if str(path) == ":memory:" else Path(os.path.realpath(path))
        self._file = File(where, busy_timeout or (30.0 if waits_for_disk else 5.0), max_pages, waits_for_disk)
        self._claimed: dict[str, FileLock | None] = {}
        super().__init__(str(where or ":memory:"), where and self._file, read_only=read_only)

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used, in slices: others write to the file in between.

        A file of more than 16 MB stays as large as it is; the space is overwritten and used again. Where this is cut
        short, the session is gone, and `purge` removes the rest.
        """
        is_there = await self.submit_alone(
            "delete a session", lambda connection: self._take_off(connection, session_id)
        )
        if is_there:
            await self._remove_unneeded(everything=False)
        return is_there

    async def purge(self) -> int:
        def forget(connection: Database) -> int:
            with connection.transaction():
                for name in ("forget_replaced_states", "remove_stale_uses", "remove_unnamed_vectors"):
                    connection.run(name)
            return _size(connection)

        before = await self.submit_alone("purge", forget)
        return max(0, before - await self._remove_unneeded(everything=True))

    async def _remove_unneeded(self, *, everything: bool) -> int:
        """Remove what no session needs; of logs, `everything` or what deleted sessions left. Return the file's size."""
        while await self.submit(partial(_remove_slice, everything=everything)):
            pass

        def merge(connection: Database) -> bool:
            before = connection.total_changes
            connection.run("merge_search", pages=pages)
            return connection.total_changes - before > 1

        pages = -_MERGED  # the first merges all parts of the index, the others go on with it
        while await self.submit(merge):  # merged parts hold nothing of what was removed
            pages = _MERGED

        def give_back(connection: Database) -> int:
            """Rewrite the file, which alone leaves no byte of what was removed, and empty its log."""
            wait = round(self._file.busy_timeout * 1_000)
            try:
                if everything or _size(connection) <= _WRITTEN_ANEW:
                    connection.execute("vacuum")
                connection.execute(f"pragma busy_timeout = {min(1_000, wait)}")  # for readers, while others wait
                if connection.pragma("wal_checkpoint(truncate)"):
                    raise StoreLockedError(f"{self.name}: another process is reading the file")
            except (sqlite3.Error, StoreLockedError) as error:
                known = fault(error, self.name) or error
                raise type(known)(
                    f"{known}. Removed text can no longer be found, but its bytes may still be in the "
                    "file: call purge when the cause is gone"
                ) from error
            finally:
                connection.execute(f"pragma busy_timeout = {wait}")
            return _size(connection)

        return await self.submit_alone("purge", give_back)

    def _make_engine(self) -> Engine:
        return SqliteEngine(self._file, read_only=self.read_only)

    async def _give_up(self, engine: Engine) -> None:
        def forget_writer(connection: Database) -> None:
            """Note that the sessions of this store have no writer. A locked file is not waited for long."""
            connection.execute("pragma busy_timeout = 200")
            with suppress(sqlite3.Error), connection.transaction():
                values = [{"session_id": session_id, "pid": os.getpid()} for session_id in self._claimed]
                connection.run_many("forget_writer", values)
            connection.execute(f"pragma busy_timeout = {round(self._file.busy_timeout * 1_000)}")

        try:
            if self._claimed:
                await engine.submit(forget_writer, alone=True)
        except StoreError:  # as where the file was removed: the lock files count, not what is noted
            pass
        finally:
            for session_id in list(self._claimed):
                self._release(session_id)

    # What follows runs in the engine's thread.

    def _read(self, connection: Database, work: Work[Result]) -> Result:
        if self.read_only and self._file.path is not None:
            return read(self._file.path, self._file.busy_timeout, work)
        with connection.transaction("deferred"):
            return work(connection)

    def _claim(self, connection: Database, session_id: str, project: str | None) -> None:
        if session_id in self._claimed:
            raise SessionInUseError(session_id, os.getpid())
        with self._held(connection, session_id):
            if connection.run("session", session_id=session_id).fetchone() is None:
                create_session(connection, session_id, project)
            connection.run("note_writer", session_id=session_id, project=project, pid=os.getpid())

    @contextmanager
    def _held(self, connection: Database, session_id: str) -> Iterator[None]:
        """A transaction on a session that no other store has claimed; from then on this one has, unless that fails."""
        noted, was_ours = _noted_writer(connection, session_id), session_id in self._claimed
        if not was_ours:
            if (lock := self._lock(session_id)) is not None:
                if (os.getpid(), lock.lock_file) in _held_here:  # also where the lock file was removed
                    raise SessionInUseError(session_id, noted)
                try:  # another process may hold the lock for a moment to see whether it is held
                    lock.acquire(timeout=0.25)
                except Timeout:
                    raise SessionInUseError(session_id, noted) from None
                _held_here[os.getpid(), lock.lock_file] = lock
            self._claimed[session_id] = lock
        try:
            with connection.transaction():
                noted = _noted_writer(connection, session_id)
                if self._is_held_without_its_file(session_id, noted):
                    raise SessionInUseError(session_id, noted)
                yield
        except BaseException:
            if not was_ours:
                self._release(session_id)
            raise

    def _release(self, session_id: str) -> None:
        """End a claim and remove its lock file."""
        lock = self._claimed.pop(session_id, None)
        if lock is not None:
            _remove(lock)
            _held_here.pop((os.getpid(), lock.lock_file), None)

    def _has_writer(self, session_id: str, pid: int) -> bool:
        """Return whether a living process, this one included, has the session; `pid` is the last that noted itself."""
        lock = self._lock(session_id)
        if session_id in self._claimed or lock is None:
            return session_id in self._claimed
        if Path(lock.lock_file).exists():
            try:
                lock.acquire(blocking=False)
            except (Timeout, OSError):  # held, or not for us to touch: the writer that it names is the best we know
                return True
            _remove(lock)  # left behind by a process that was killed
        return self._is_held_without_its_file(session_id, pid)

    def _is_held_without_its_file(self, session_id: str, pid: int | None) -> bool:
        """Return whether a process still holds the lock of a session though the lock file was removed.

        Linux tells which files a process has open. Elsewhere this is False, and the next write of that process fails.
        """
        lock = self._lock(session_id)
        if lock is None or pid is None:
            return False
        with suppress(OSError):  # no such process, or not one that may be looked at
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    if os.readlink(f"/proc/{pid}/fd/{number}") == f"{lock.lock_file} (deleted)":
                        return True
        return False

    def _lock(self, session_id: str) -> FileLock | None:
        if self._file.path is None:
            return None
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        # Any thread may end the claim, and two stores of one process must exclude each other as well.
        name = f"{self._file.path}.{digest}.lock"
        return FileLock(name, mode=0o600, thread_local=False, is_singleton=False, poll_interval=0.02)

    def _check_still_ours(self, connection: Database, session_id: str) -> None:
        """Raise where another process has claimed the session, as it may once its lock file was removed."""
        if _noted_writer(connection, session_id) != os.getpid():
            raise StoreError(
                f"{self.name}: another process has opened session {session_id!r} for writing, or deleted it, after "
                "its lock file was removed; nothing was written: close this context and open the session again, and "
                "keep what cleans up away from the files ending in .lock"
            )

    def _list_sessions(self, connection: Database) -> list[SessionInfo]:
        return [
            info
            if info.writer_pid is None or self._has_writer(info.session_id, info.writer_pid)
            else changed(info, writer_pid=None)
            for info in super()._list_sessions(connection)
        ]

    def _take_off(self, connection: Database, session_id: str) -> bool:
        """Remove a session from the list, with all that is small; return False where there is no such session."""
        if connection.run("session", session_id=session_id).fetchone() is None:
            return False
        with self._held(connection, session_id):
            remove_session(connection, session_id)
            connection.run("remove_uses", session_id=session_id)
        self._release(session_id)
        return True


def _noted_writer(connection: Database, session_id: str) -> int | None:
    row = connection.run("writer", session_id=session_id).fetchone()
    return None if row is None else row[0]


def _remove_slice(connection: Database, *, everything: bool) -> bool:
    """Remove the newest entries of a branch that no session needs, with their words and vectors, or a branch, or some
    summaries; return whether there may be more.

    What is needed is asked each time: a session that was restored onto the branch may have added to it meanwhile.
    """
    found = connection.run("unneeded", everything=everything).fetchone()
    if found is not None:
        branch, needed, end = found
        for name in ("unindex_entries", "remove_row_vectors", "remove_entries"):
            connection.run(name, branch=branch, stop=max(needed or 0, end - _SLICE))
        if not end:
            connection.run("remove_branch", branch=branch)
        return True
    ids = json.dumps([id for (id,) in connection.run("unused_summaries", most=_SLICE)])
    connection.run("unindex_summaries", ids=ids)
    return connection.run("remove_summaries", ids=ids).rowcount > 0


def _size(connection: Database) -> int:
    return connection.pragma("page_count") * connection.pragma("page_size")


def _remove(lock: FileLock) -> None:
    # Removed while still held: a process that locked the removed file sees that it has no name and tries again.
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release(force=True)
