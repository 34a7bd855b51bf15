"""`SqliteStore`: many sessions in one SQLite file, or in memory. A lock file says that a process that writes lives.

Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from summarizing_context import errors
from summarizing_context.errors import StoreCorruptError, StoreError, StoreLockedError
from summarizing_context.messages.reading import searchable
from summarizing_context.messages.text import indexed_words
from summarizing_context.stores.base import WATCHED
from summarizing_context.stores.private_files import FILE, make_private_folder, open_private
from summarizing_context.stores.relational import store as relational
from summarizing_context.stores.relational.store import Engine, RelationalStore, Result, Values, Work

_AT_ONCE = 100_000  # entries that are removed in one transaction; a fiftieth of them is indexed in one
_MERGED = 300  # pages of an index that it merges in one

_TRANSLATED = {  # the shared queries are written for PostgreSQL
    "bigint generated always as identity primary key": "integer primary key autoincrement",
    "bytea": "blob",
    " for update of sessions": "",
    " for update": "",
}
_SQL = {  # by name
    name: re.sub("|".join(map(re.escape, _TRANSLATED)), lambda found: _TRANSLATED[found[0]], query)
    for name, query in relational.read_queries("summarizing_context.stores.sqlite", schema="").items()
}

APPLICATION_ID = 0x53435458  # "SCTX"; `file` and other tools show it
_SUFFIXES = ("", "-wal", "-shm")  # of the file, and of those that SQLite adds while it is open
_creating = threading.Lock()  # closing the new file would drop the locks that another store here has on it by then


_DAMAGED = (
    "the file is damaged, or not an SQLite file of summarizing-context; it was left as it is: restore it from a "
    "backup, or name another file"
)
_READ_ONLY = (
    "the file or its folder may not be written, or was moved away; change its permissions, or use read_only=True"
)
_LOCKED = "another process kept the file locked; end it or try again"
_FULL = (
    "no space is left for the file, or a limit on its size is reached; nothing was written: free some and call again"
)
_UNREADABLE = "the file cannot be opened; make it, its folder and the -wal file next to it readable"

_FAULTS: tuple[tuple[type[StoreError], str, tuple[int, ...]], ...] = (  # by codes of SQLite, or errnos below 0
    (StoreCorruptError, _DAMAGED, (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_NOTADB)),
    (StoreLockedError, _LOCKED, (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)),
    (errors.StoreFullError, _FULL, (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)),
    (errors.StoreFullError, _FULL, (-errno.ENOSPC, -errno.EDQUOT, -errno.EFBIG)),
    (errors.StoreReadOnlyError, _READ_ONLY, (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)),
    # the last by a folder that is there, but of a file system that takes no files
    (errors.StoreReadOnlyError, _READ_ONLY, (-errno.EACCES, -errno.EPERM, -errno.EROFS, -errno.ENOENT)),
    (StoreError, _UNREADABLE, (sqlite3.SQLITE_CANTOPEN,)),
)


class Database(sqlite3.Connection):
    """The `Connection` of a file, or of memory, which is None."""

    file: Path | None
    writer: str | None = None
    pipeline = nullcontext

    def run(self, query: str, /, **values: Any) -> sqlite3.Cursor:
        return self.execute(_SQL[query], values)

    def run_many(self, query: str, rows: Iterable[Values]) -> None:
        self.executemany(_SQL[query], rows)

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.run_many("index_text", ((number, indexed_words(text)) for number, text in texts))

    def unindex_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.run_many("unindex_text", ((number, indexed_words(text)) for number, text in texts))

    @contextmanager
    def transaction(self, mode: str = "immediate") -> Iterator[None]:
        """All or nothing; `deferred` for reading one state of the file with several queries."""
        self.execute(f"begin {mode}")
        with self:
            yield

    def lives(self, writer: str, wait: float = 0.25) -> bool:
        """Return whether a process holds the lock of a writer; that of another is removed.

        Linux tells which files a process has open, so that a lock file may be removed. Elsewhere this is False then,
        and the next write of that process fails.
        """
        if self.file is None:
            return True
        lock = writer_lock(self.file, writer)
        with suppress(OSError):  # no such process, or not one that may be looked at
            if Path(lock.lock_file).exists():
                try:  # another process may hold it for a moment to see whether it is held
                    lock.acquire(timeout=wait)
                except (Timeout, OSError):  # held, or not for us to touch
                    return True
                remove_lock(lock)
            pid = writer.partition("-")[0]
            for number in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    if os.readlink(f"/proc/{pid}/fd/{number}") == f"{lock.lock_file} (deleted)":
                        return True
        return False

    def pragma(self, name: str) -> int:
        return int(self.execute(f"pragma {name}").fetchone()[0])


def connect(path: Path | None, mode: str, busy_timeout: float) -> Database:
    """Return a connection; `mode` as in SQLite's URI. Without a path it has a database of its own in memory."""
    place = ":memory:" if path is None else f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(place, uri=True, timeout=busy_timeout, isolation_level=None, factory=Database)
    connection.file = path
    connection.create_function("lives", 1, partial(connection.lives, wait=0))
    return connection


def writer_lock(path: Path, writer: str) -> FileLock:
    """Return the lock of a writer of a file. Any thread may release it, and no two in a process share it."""
    name = f"{path}.{writer}.lock"
    return FileLock(name, mode=0o600, thread_local=False, is_singleton=False, poll_interval=0.02)


def remove_lock(lock: FileLock) -> None:
    """Release a lock and remove its file, while it is held: who locks a file without a name tries again."""
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release(force=True)


def read(path: Path, busy_timeout: float, work: Callable[[Database], Result]) -> Result:
    """Run `work` on one state of the file as last committed, with a connection of its own.

    Without a write-ahead log no process has the file open. SQLite would make one to read it, and leave it there, unless
    the file is declared immutable; so its state is compared before and after.
    """

    def quiet_state() -> tuple[int, int] | None:
        if Path(f"{path}-wal").exists():
            return None
        status = path.stat()
        return status.st_mtime_ns, status.st_size

    while True:
        quiet = quiet_state()
        mode = "ro&immutable=1" if quiet else "ro"
        try:
            with closing(connect(path, mode, busy_timeout)) as connection, connection.transaction("deferred"):
                result = work(connection)
        except Exception:
            if quiet is None or quiet == quiet_state():
                raise
        else:
            if quiet is None or quiet == quiet_state():
                return result


def _identity(path: Path) -> dict[str, tuple[int, int]]:
    """Return which files stand under the names of a store's: it changes when one is removed, moved away or replaced."""
    found = {}
    for suffix in _SUFFIXES:
        with suppress(OSError):  # whatever the reason: opened now it would not be found
            status = os.stat(f"{path}{suffix}")
            found[suffix] = (status.st_dev, status.st_ino)
    return found


def create_tables(connection: Database, path: object) -> None:
    """Make the tables of an empty file; raise `StoreVersionError` for one of another schema."""
    with connection.transaction("immediate" if connection.pragma("user_version") == 0 else "deferred"):
        if connection.pragma("user_version") == 0:  # else another process was quicker
            # one by one: `executescript` would commit before it begins
            for statement in re.split(r";(?: --.*)?$", _SQL["schema"], flags=re.MULTILINE):
                connection.execute(statement)
            connection.execute(f"pragma user_version = {relational.VERSION:d}")
    relational.check_version(connection.pragma("user_version"), str(path), "use another file. The file")


def _checked_version(path: Path, busy_timeout: float) -> int:
    """Return the version of a file's schema, 0 for an empty file. Raise unless it is empty, or a sound store of a
    version that we know. It stays as it is."""
    if not path.is_file():
        raise StoreError(f"{path}: this is not a file; name a file for the store")
    size = path.stat().st_size
    if size == 0:  # new, or created by another process a moment ago
        return 0
    if size < 512:  # bytes; SQLite takes anything shorter for an empty file and would write over it
        raise StoreCorruptError(f"{path}: {_DAMAGED}")
    # First what the file itself says, without its write-ahead log: reading that would leave a file there.
    with closing(connect(path, "ro&immutable=1", busy_timeout)) as alone, suppress(sqlite3.DatabaseError):
        if alone.pragma("application_id") != APPLICATION_ID:
            raise StoreCorruptError(f"{path}: it is an SQLite file of another program; {_DAMAGED}")

    def check(connection: Database) -> int:
        if version := connection.pragma("user_version"):  # else another process has begun it a moment ago
            relational.check_version(version, str(path), "use another file. The file")
        part = "1" if size <= (64 << 20) else "sessions"  # bytes; of larger files only the list of sessions is checked
        if connection.execute(f"pragma quick_check({part})").fetchone() != ("ok",):
            raise StoreCorruptError(f"{path}: {_DAMAGED}")
        return version

    return read(path, busy_timeout, check)


class SqliteEngine(Engine):
    """The engine of one file, or of memory, where `path` is None: one thread and one connection for the stores of a
    process that name it. With a connection each they would wait for one another as processes do."""

    def __init__(self, path: Path | None, busy_timeout: float, waits_for_disk: bool, *, read_only: bool) -> None:
        super().__init__(str(path or ":memory:"), read_only=read_only)
        self._path, self._busy_timeout, self._waits_for_disk = path, busy_timeout, waits_for_disk
        self._identity: object = None  # of the files that the connection has open
        self._lock: FileLock | None = None

    def open(self) -> Database:
        """Return a connection for writing; where only reading is allowed, one that is not used: each read opens its
        own, and leaves no file next to this one."""
        path, wait = self._path, self._busy_timeout
        writer = f"{os.getpid()}-{os.urandom(8).hex()}"
        if path is None:
            connection = connect(None, "", wait)
            create_tables(connection, self.name)
            connection.writer = writer
            return connection
        if self.read_only:
            if not path.exists() or _checked_version(path, wait) == 0:
                raise StoreError(f"{path}: there is no store yet; open it once without read_only=True to create it")
            return connect(None, "", wait)

        # The file is opened, or created privately, whole or not at all. What may not be opened is left as it is.
        make_private_folder(path.parent)
        with _creating, suppress(FileExistsError), open_private(path, new=True):
            pass  # privately: SQLite gives the files that it adds the mode of this one
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise errors.StoreReadOnlyError(f"{path}: {_READ_ONLY}")
        _checked_version(path, wait)
        for suffix in _SUFFIXES:  # of a store that was there, and what a killed process left
            one = Path(f"{path}{suffix}")
            with suppress(FileNotFoundError):
                mode = one.lstat().st_mode
                if stat.S_ISREG(mode) and stat.S_IMODE(mode) != FILE:
                    one.chmod(FILE)
        connection = connect(path, "rw", wait)
        try:
            # The id goes in first and past the log, so that the file's own header tells at any moment whose it is.
            if connection.pragma("application_id") == 0:
                with connection.transaction():
                    connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
            deadline = time.monotonic() + wait
            while True:  # SQLite does not wait here by itself when two processes create the file at once
                try:
                    connection.execute("pragma journal_mode = wal")
                    break
                except sqlite3.OperationalError:
                    if time.monotonic() >= deadline:
                        raise
                time.sleep(0.01)
            # in WAL each commit waits for the disk if it is full
            connection.execute(f"pragma synchronous = {'full' if self._waits_for_disk else 'normal'}")
            connection.execute("pragma secure_delete = on")
            create_tables(connection, path)
            with suppress(PermissionError):  # of a folder whose names may not be read
                for name in os.listdir(path.parent):
                    if left := re.fullmatch(rf"{re.escape(path.name)}\.([1-9]\d*-[0-9a-f]{{16}})\.lock", name):
                        connection.lives(left[1], wait=0)  # by a process that was killed
            self._lock = writer_lock(path, writer)
            self._lock.acquire()
            connection.writer = writer
        except BaseException:
            connection.close()
            raise
        self._identity = _identity(path)
        return connection

    def close(self) -> None:
        connection: Database = self._connection
        with closing(connection), suppress(sqlite3.Error):  # a locked file is not waited for: claims end with the lock
            connection.execute("pragma busy_timeout = 0")
            connection.execute("update sessions set writer = null where writer = ?", (connection.writer,))
        if self._lock is not None:
            remove_lock(self._lock)

    def gone(self) -> Exception | None:
        """Return the error of all that follows, once the file was removed, moved or replaced."""
        if self._identity is None or self._path is None or _identity(self._path) == self._identity:
            return None
        return StoreError(
            f"{self.name}: the file, or one that belongs to it, was removed, moved or replaced while it was open; "
            "nothing is acknowledged any more, for it would be lost. Put the files back if you can, close this, and "
            "open it again"
        )

    def fault(self, error: Exception) -> StoreError | None:
        if isinstance(error, OSError):
            code, said = -(error.errno or 0), f"the file system said: {error.strerror}"
        elif isinstance(error, sqlite3.Error):
            code, said = getattr(error, "sqlite_errorcode", 0), f"SQLite said: {error}"
        else:
            return None
        any_of = {code, code & 0xFF} if code > 0 else {code}  # also without what extends it
        known = ((kind, text) for kind, text, codes in _FAULTS if any_of.intersection(codes))
        kind, text = next(known, (StoreError, said))
        fault = kind(f"{self.name}: {text}")
        fault.__cause__ = error
        return fault


class SqliteStore(RelationalStore):
    """A `SessionStore` on SQLite. `await open()` first; it shares a thread with the other stores of the file.

    Without `waits_for_disk` a commit is acknowledged before the disk has it: a power cut may lose the newest commits,
    the end of the process loses none. `busy_timeout` is in seconds: 30 by default, for a process that rewrites the file
    takes so long; 5 without `waits_for_disk`, for such a host goes on without the store.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float | None = None,
        waits_for_disk: bool = True,
    ) -> None:
        self._path = None if str(path) == ":memory:" else Path(os.path.realpath(path))
        self._busy_timeout = (30.0 if waits_for_disk else 5.0) if busy_timeout is None else busy_timeout
        opened = self._path, self._busy_timeout, waits_for_disk  # stores of one file with equal ones share an engine
        make_engine = partial(SqliteEngine, *opened)
        super().__init__(str(self._path or ":memory:"), self._path and opened, make_engine, read_only=read_only)

    async def _remove_unneeded(self, *, everything: bool) -> int:
        """Remove it from the file too. A file of more than 16 MB stays as large as it is unless `everything` goes; the
        space is overwritten and used again."""

        def remove_at_once(connection: Database) -> list[int]:
            """Where little stays of much, remove the rest at once and index what stays: taking words back by rows is
            slow. Return the bytes of each text."""
            logs = relational.find_unneeded(connection, everything=everything)
            total, goes = connection.run("count_entries", logs=json.dumps(logs)).fetchone()
            if not self._slice < goes <= _AT_ONCE or total - goes > min(goes, _AT_ONCE // 50):
                return []
            connection.execute("insert into search (search) values ('delete-all')")
            removals = [("remove_entries", {"branch": branch, "start": start}) for branch, start in logs]
            sizes: list[int] = []
            for query, values in (*removals, ("remove_unused_summaries", {})):
                while rows := connection.run(query, most=self._slice, **values).fetchall():
                    sizes += (len(text) for _, text in rows)
            kept = connection.run("indexed")
            connection.index_texts((at, searchable(text) if at > 0 else relational.readable(text)) for at, text in kept)
            return sizes

        told, sizes = WATCHED.get(), []
        with suppress(errors.StoreFullError):  # slices need less
            sizes = await self.submit("purge", remove_at_once)
        told("", len(sizes))
        freed = sum(sizes) + await super()._remove_unneeded(everything=everything)

        def merge(connection: Database) -> bool:
            before = connection.total_changes
            connection.run("merge_search", pages=pages)
            return connection.total_changes - before > 1

        engine, pages = self._opened(), -_MERGED  # the first merges all parts of the index, the others go on with it
        doing = "the search index is merged"
        told(doing, 0, await self.submit("purge", lambda connection: connection.run("search_pages").fetchone()[0]))
        while await self.submit("purge", merge):  # merged parts hold nothing of what was removed
            told(doing, _MERGED)
            pages = _MERGED

        def give_back(connection: Database) -> None:
            """Rewrite the file, which alone leaves no byte of what was removed, and empty its log."""
            usual = connection.pragma("busy_timeout")
            try:
                if everything or connection.pragma("page_count") * connection.pragma("page_size") <= 16 << 20:
                    connection.execute("vacuum")
                connection.execute(f"pragma busy_timeout = {min(usual, 1_000):d}")  # for readers, while others wait
                if connection.pragma("wal_checkpoint(truncate)"):
                    raise StoreLockedError(f"{self.name}: another process is reading the file")
            except (sqlite3.Error, StoreLockedError) as error:
                known = engine.fault(error) or error
                raise type(known)(
                    f"{known}. Removed text can no longer be found, but its bytes may still be in the "
                    "file: call purge when the cause is gone"
                ) from error
            finally:
                connection.execute(f"pragma busy_timeout = {usual:d}")

        def logged() -> int:  # a rewritten file is in its log before it is in place
            with suppress(OSError):
                return os.path.getsize(f"{self._path}-wal") // (4_096 + 24)  # bytes of a page in it
            return 0

        seen, doing = 0, "the file is rewritten"
        if everything:
            pages = await self.submit("purge", lambda file: file.pragma("page_count") - file.pragma("freelist_count"))
            told(doing, 0, pages)
        rewriting = self.submit("purge", give_back, alone=True)
        while everything and not (await asyncio.wait([rewriting], timeout=0.2))[0]:
            pages = max(seen, logged())
            told(doing, pages - seen)
            seen = pages
        await rewriting
        return freed

    # What follows runs in the engine's thread.

    def _read(self, connection: Database, work: Work[Result]) -> Result:
        if self.read_only and self._path is not None:
            return read(self._path, self._busy_timeout, work)
        with connection.transaction("deferred"):
            return work(connection)

    def _lost(self, session_id: str) -> StoreError:
        return StoreError(
            f"{self.name}: another process has opened session {session_id!r} for writing, or deleted it, after "
            "its lock file was removed; nothing was written: close this context and open the session again, and "
            "keep what cleans up away from the files ending in .lock"
        )
