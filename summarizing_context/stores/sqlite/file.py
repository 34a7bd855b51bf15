"""The file of a store: connect to it, create it, check it, read it without leaving a trace, and say what went wrong.

Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from summarizing_context.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
)
from summarizing_context.messages.search_terms import indexed_words, searchable
from summarizing_context.stores.private_files import FILE, make_private_folder
from summarizing_context.stores.relational.engine import VERSION, Values, check_version, read_queries, readable

Result = TypeVar("Result")

_SQL = {  # by name; the shared ones are written for PostgreSQL
    name: query.replace("greatest(", "max(").replace("least(", "min(")
    for name, query in read_queries("summarizing_context.stores.sqlite", schema="").items()
}

APPLICATION_ID = 0x53435458  # "SCTX"; `file` and other tools show it
_CHECKED_WHOLE = 64 << 20  # bytes; of larger files only the list of sessions is checked
_BESIDE = ("", "-wal", "-shm")  # the file, and those that SQLite keeps beside it while it is open
_creating = threading.Lock()  # closing the new file would drop the locks that another store here has on it by then


Fault = tuple[type[StoreError], str]

_CORRUPT: Fault = (
    StoreCorruptError,
    "the file is damaged; it was left as it is: restore it from a backup, or move it away to begin a new one",
)
_NOT_OURS: Fault = (
    StoreCorruptError,
    "the file is damaged, or not a store of summarizing-context; it was left as it is: restore it from a backup, "
    "or name another file",
)
_READ_ONLY: Fault = (
    StoreReadOnlyError,
    "the file or its folder may not be written, or was moved away; change its permissions, or use read_only=True",
)
_LOCKED: Fault = (StoreLockedError, "another process kept the file locked; end it or try again")
_FULL: Fault = (
    StoreFullError,
    "no space is left for the file, or a limit on its size is reached; nothing was written: free some and call again",
)
_CANNOT_OPEN: Fault = (
    StoreError,
    "the file cannot be opened; make it, its folder and the -wal file next to it readable",
)

_BY_SQLITE = {  # by code; extended codes are looked up first
    **dict.fromkeys((sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE), _FULL),
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL), _LOCKED),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT), _CORRUPT),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH), _READ_ONLY),
    sqlite3.SQLITE_NOTADB: _NOT_OURS,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_OPEN,
}
_BY_ERRNO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _READ_ONLY),
}


class File(NamedTuple):
    """Where a store is, and how it is opened; stores with equal ones share an engine."""

    path: Path | None  # None: in memory
    busy_timeout: float  # seconds
    max_pages: int | None
    waits_for_disk: bool


class Database(sqlite3.Connection):
    """The `Connection` of a file."""

    def run(self, query: str, /, **values: Any) -> sqlite3.Cursor:
        return self.execute(_SQL[query], values)

    def run_many(self, query: str, rows: Iterable[Values]) -> None:
        self.executemany(_SQL[query], rows)

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.run_many("index_text", ((number, indexed_words(text)) for number, text in texts))

    def undo_work(self) -> None:
        if self.in_transaction:  # else SQLite has done so already, as it does when the disk is full
            self.execute("rollback")

    @contextmanager
    def transaction(self, mode: str = "immediate") -> Iterator[None]:
        """All or nothing; `deferred` for reading one state of the file with several queries."""
        self.execute(f"begin {mode}")
        try:
            yield
            self.execute("commit")
        except BaseException:
            self.undo_work()
            raise

    def pragma(self, name: str) -> int:
        return int(self.execute(f"pragma {name}").fetchone()[0])


def connect(path: Path | None, mode: str, busy_timeout: float) -> Database:
    """Return a connection that begins and ends no transaction by itself; `mode` as in SQLite's URI. Without a path it
    has a database of its own in memory."""
    place = ":memory:" if path is None else f"{path.as_uri()}?mode={mode}"
    connection = sqlite3.connect(place, uri=True, timeout=busy_timeout, isolation_level=None, factory=Database)
    # What queries call that remove a message, or a summary, from the index: its terms.
    connection.create_function("indexed", 1, lambda message: indexed_words(searchable(message)), deterministic=True)
    connection.create_function("spaced", 1, lambda text: indexed_words(readable(text)), deterministic=True)
    return connection


def read(path: Path, busy_timeout: float, work: Callable[[Database], Result]) -> Result:
    """Run `work` on one state of the file as last committed, with a connection of its own.

    Without a log beside the file no process has it open. SQLite would make a log to read it, and leave it there, unless
    it is told that the file cannot change; so we look ourselves whether it did.
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
            continue
        if quiet is None or quiet == quiet_state():
            return result


def identity(path: Path) -> list[tuple[int, int] | None]:
    """Return which files stand under the names of a store's: it changes when one is removed, moved away or replaced."""
    found: list[tuple[int, int] | None] = []
    for suffix in _BESIDE:
        try:
            status = os.stat(f"{path}{suffix}")
            found.append((status.st_dev, status.st_ino))
        except OSError:  # whatever the reason: opened now it would not be found
            found.append(None)
    return found


def check_to_read(path: Path, busy_timeout: float) -> None:
    """Raise unless this is a store that can be read as it is."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file; open it once without read_only=True to create it")
    _check(path, busy_timeout)
    if read(path, busy_timeout, lambda connection: connection.pragma("user_version")) == 0:
        raise StoreReadOnlyError(
            f"{path}: the file is empty and it may not be written; open it once without read_only=True"
        )


def open_to_write(path: Path, file: File) -> Database:
    """Open the file, or create it privately, whole or not at all. What may not be opened is left as it is."""
    make_private_folder(path.parent)
    with _creating:  # privately: SQLite gives the files beside it the mode of the file itself
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE))
            path.chmod(FILE)
        except FileExistsError:
            pass
        except FileNotFoundError as error:  # a folder that is there, but of a file system that takes no files
            raise _fault(_READ_ONLY, path) from error
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise _fault(_READ_ONLY, path)
    _check(path, file.busy_timeout)
    for suffix in _BESIDE:  # of a store that was there, and what a killed process left
        one = Path(f"{path}{suffix}")
        try:
            mode = one.lstat().st_mode
            if stat.S_ISREG(mode) and stat.S_IMODE(mode) != FILE:
                one.chmod(FILE)
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise StoreError(
                f"{one}: others may read this file, and its mode cannot be changed by this user; "
                "have its owner set it to 0600, or name another file"
            ) from error
    connection = connect(path, "rw", file.busy_timeout)
    try:
        # The id goes in first and past the log, so that the file's own header tells at any moment whose it is.
        if connection.pragma("application_id") == 0:
            with connection.transaction():
                connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
        deadline = time.monotonic() + file.busy_timeout
        while True:  # SQLite does not wait here by itself when two processes create the file at once
            try:
                connection.execute("pragma journal_mode = wal")
                break
            except sqlite3.OperationalError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.01)
        connection.execute("pragma synchronous = full")  # for the tables; in WAL each commit waits for the disk
        connection.execute("pragma secure_delete = on")
        create_tables(connection, path)
        if file.max_pages is not None:
            connection.execute(f"pragma max_page_count = {file.max_pages:d}")
        if not file.waits_for_disk:
            connection.execute("pragma synchronous = normal")
    except BaseException:
        connection.close()
        raise
    return connection


def create_tables(connection: Database, path: object) -> None:
    """Make the tables of an empty file; raise `StoreVersionError` for one of another schema."""
    with connection.transaction("immediate" if connection.pragma("user_version") == 0 else "deferred"):
        if connection.pragma("user_version") == 0:  # else another process was quicker
            statement = ""  # `executescript` would commit before it begins, so the statements are run one by one
            for line in _SQL["schema"].splitlines(keepends=True):
                statement += line
                if ";" in line and sqlite3.complete_statement(statement):
                    connection.execute(statement)
                    statement = ""
            connection.execute(f"pragma user_version = {VERSION:d}")
    check_version(connection.pragma("user_version"), str(path), "use another file. The file")


def _check(path: Path, busy_timeout: float) -> None:
    """Raise unless the file is empty, or a sound store of a version that we know. It stays as it is."""
    if not path.is_file():
        raise StoreError(f"{path}: this is not a file; name a file for the store")
    size = path.stat().st_size
    if size == 0:  # new, or created by another process a moment ago
        return
    if size < 512:  # bytes; SQLite takes anything shorter for an empty file and would write over it
        raise _fault(_NOT_OURS, path, "it is not an SQLite file")
    foreign = _fault(_NOT_OURS, path, "it is an SQLite file of another program")
    # First what the file itself says, without what stands in a log beside it: reading that would leave a file there.
    with closing(connect(path, "ro&immutable=1", busy_timeout)) as alone, suppress(sqlite3.DatabaseError):
        if alone.pragma("application_id") != APPLICATION_ID:
            raise foreign

    def check(connection: Database) -> None:
        known = _fault(_NOT_OURS, path, "it is not an SQLite file, or its beginning is damaged")
        try:
            if connection.pragma("application_id") != APPLICATION_ID:
                raise foreign
            known = _fault(_CORRUPT, path)
            if version := connection.pragma("user_version"):  # else another process has begun it a moment ago
                check_version(version, str(path), "use another file. The file")
            part = "1" if size <= _CHECKED_WHOLE else "sessions"
            if connection.execute(f"pragma quick_check({part})").fetchone() != ("ok",):
                raise known
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise known from error
            raise

    read(path, busy_timeout, check)


def _fault(known: Fault, path: object, found: str = "") -> StoreError:
    """Return one of the errors above for a file; `found` is said before it."""
    kind, text = known
    return kind(f"{path}: {found}{'; ' if found else ''}{text}")


def fault(error: Exception, path: str) -> StoreError | None:
    """Return the error to raise in place of `error`, which becomes its cause; None for one that is not of the file."""
    if isinstance(error, OSError):
        known = _BY_ERRNO.get(error.errno or 0, (StoreError, f"the file system said: {error.strerror}"))
    elif isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", -1)
        known = _BY_SQLITE.get(code) or _BY_SQLITE.get(code & 0xFF, (StoreError, f"SQLite said: {error}"))
    else:
        return None
    ours = _fault(known, path)
    ours.__cause__ = error
    return ours
