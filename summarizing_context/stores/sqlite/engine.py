"""The engine of an SQLite file: one thread and one connection for the stores of a process that name it.

Stores with a connection each would wait for one another as processes do, and a busy machine makes one wait too long.
A file is created privately and set up; what may not be opened is found out by `files` first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakValueDictionary

from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.private_files import FILE, make_private_folder
from summarizing_context.stores.relational.writer import Engine
from summarizing_context.stores.sqlite.faults import gone, not_private, not_writable, translate
from summarizing_context.stores.sqlite.files import (
    APPLICATION_ID,
    Claims,
    Identity,
    application_id,
    beside,
    check_file,
    connect,
    identity,
    read,
)
from summarizing_context.stores.sqlite.schema import (
    Database,
    create,
    schema_version,
    transaction,
)
from summarizing_context.stores.sqlite.search import add_functions

logger = logging.getLogger(__name__)

_CLOSING_WAIT = 200  # milliseconds that closing waits for a locked file

BUSY_TIMEOUT = 30.0  # seconds that a write waits for another process; one that writes the file anew takes so long

_BUSY_TIMEOUT_BEHIND = 5.0  # seconds; hosts that flush behind answer a request without the store then


class SqliteEngine(Engine):
    """The engine of one file, or of memory.

    `busy_timeout` is in seconds: 30 by default, 5 with `flushes_behind`.
    `max_pages` caps the file's size (pages of 4096 bytes), as a full disk would.
    With `flushes_behind` a commit is acknowledged before the disk has it, and flushed right after: a power cut in
    between loses it, the end of the process does not.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float | None = None,
        max_pages: int | None = None,
        flushes_behind: bool = False,
    ) -> None:
        self.path = None if path == ":memory:" else Path(os.path.realpath(path))
        super().__init__(str(self.path or ":memory:"), read_only=read_only)
        self.busy_timeout = busy_timeout or (_BUSY_TIMEOUT_BEHIND if flushes_behind else BUSY_TIMEOUT)
        self.claimed: list[Claims] = []  # of the stores that are open
        self._max_pages = max_pages
        self._flushes_behind = flushes_behind
        self._log: int | None = None  # what is flushed behind: the file that SQLite writes ahead
        self._flushed = 0  # changes of the connection
        self._identity: Identity | None = None  # of the files that the connection has open

    def open(self) -> Database:
        """A connection for writing; where only reading is allowed, one that is not used."""
        if self.path is None:
            return open_memory()
        if self.read_only:
            _check_to_read(self.path, busy_timeout=self.busy_timeout)
            return sqlite3.connect(":memory:", factory=Database)  # each read connects anew: nothing is left beside it
        connection = _open_to_write(self.path, busy_timeout=self.busy_timeout, max_pages=self._max_pages)
        self._identity = identity(self.path)
        if self._flushes_behind:
            connection.execute("pragma synchronous = normal")
        return connection

    def close(self, connection: Database) -> None:
        """Give up all claims, and end the connection."""
        for claims in self.claimed:
            self.release(connection, claims)
        connection.close()
        if self._log is not None:
            os.close(self._log)

    def release(self, connection: Database, claims: Claims) -> None:
        """Give up what one store has claimed. A locked file is not waited for long."""
        held = claims.held()
        if held:
            connection.execute(f"pragma busy_timeout = {_CLOSING_WAIT}")
            with suppress(sqlite3.Error), transaction(connection):  # the lock files count, not what is noted
                values = [{"session_id": session_id, "pid": os.getpid()} for session_id in held]
                connection.run_many("forget_writer", values)
            connection.execute(f"pragma busy_timeout = {round(self.busy_timeout * 1_000)}")
        for session_id in held:
            claims.give_up(session_id)

    def gone(self) -> Exception | None:
        """The error of all that follows, once the file was removed, moved or replaced."""
        if self.path is None or self._identity is None or identity(self.path) == self._identity:
            return None
        return gone(self.name)

    def translate(self, error: Exception) -> Exception:
        """The error to raise in place of one of SQLite."""
        return translate(error, self.name)

    def flush(self, connection: Database) -> None:
        """Where commits did not wait for the disk, wait for it now. Where that fails, later commits wait again."""
        if not self._flushes_behind or connection.total_changes == self._flushed:
            return
        self._flushed = connection.total_changes
        try:
            if self._log is None:
                self._log = os.open(f"{self.path}-wal", os.O_RDWR | getattr(os, "O_BINARY", 0))
            os.fsync(self._log)
        except OSError as error:
            self._flushes_behind = False
            with suppress(sqlite3.Error):
                connection.execute("pragma synchronous = full")
            logger.warning("a store could not be flushed behind", extra={"cause": type(error).__name__})


_shared: WeakValueDictionary[tuple[object, ...], SqliteEngine] = WeakValueDictionary()


def shared_engine(path: str | Path, *, read_only: bool = False, flushes_behind: bool = False) -> SqliteEngine | None:
    """Return the engine that all stores of the running event loop on this file share; None for a store in memory.

    One that has ended, or whose file was removed or replaced, is not returned again. Open the store before anything
    else is awaited: else the engine may have ended with its last store meanwhile.
    """
    if str(path) == ":memory:":
        return None
    key = (asyncio.get_running_loop(), os.path.realpath(path), read_only, flushes_behind)
    engine = _shared.get(key)
    if engine is None or not engine.is_usable or engine.gone() is not None:
        engine = _shared[key] = SqliteEngine(path, read_only=read_only, flushes_behind=flushes_behind)
    return engine


_copying = threading.Lock()  # the empty store serves all threads

_creating = threading.Lock()  # closing the new file would drop the locks that another store here has on it by then


def open_memory() -> Database:
    """A store that lives as long as its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Database)
    add_functions(connection)
    with _copying:
        _empty_store().backup(connection)
    return connection


@cache
def _empty_store() -> Database:
    """A store in memory that stays empty. A copy of it takes a small part of the time of making it."""
    empty = sqlite3.connect(":memory:", isolation_level=None, factory=Database, check_same_thread=False)
    add_functions(empty)
    create(empty, ":memory:")
    return empty


def _open_to_write(path: Path, *, busy_timeout: float, max_pages: int | None) -> Database:
    """Open or create the file."""
    make_private_folder(path.parent)
    _make_private_file(path)
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise not_writable(str(path))
    check_file(path, busy_timeout)
    _keep_private(path)
    connection = connect(path, "rw", busy_timeout)
    try:
        add_functions(connection)
        _set_up(connection, path, busy_timeout)
        if max_pages is not None:
            connection.execute(f"pragma max_page_count = {max_pages:d}")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_to_read(path: Path, *, busy_timeout: float) -> None:
    """Raise unless this is a store that can be read as it is."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file; open it once without read_only=True to create it")
    check_file(path, busy_timeout)
    if read(path, busy_timeout, schema_version) == 0:
        raise StoreReadOnlyError(
            f"{path}: the file is empty and it may not be written; open it once without read_only=True"
        )


def _make_private_file(path: Path) -> None:
    # SQLite gives the files beside it the mode of the file itself.
    with _creating:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE))
            path.chmod(FILE)
        except FileExistsError:
            pass
        except FileNotFoundError as error:  # a folder that is there, but of a file system that takes no files
            raise not_writable(str(path)) from error


def _keep_private(path: Path) -> None:
    """Take the rights of others away from a store that was there, and from what a killed process left beside it."""
    for file in beside(path):
        try:
            mode = file.lstat().st_mode
            if stat.S_ISREG(mode) and stat.S_IMODE(mode) != FILE:
                file.chmod(FILE)
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise not_private(str(file)) from error


def _set_up(connection: Database, path: Path, busy_timeout: float) -> None:
    # The id goes in first and past the log, so that the file's own header tells at any moment whose it is.
    if application_id(connection) == 0:
        with transaction(connection):
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
    _use_wal(connection, path, busy_timeout)
    connection.execute("pragma synchronous = full")
    connection.execute("pragma secure_delete = on")
    create(connection, str(path))


def _use_wal(connection: Database, path: Path, busy_timeout: float) -> None:
    # SQLite does not wait here by itself when two processes create the file at once.
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if time.monotonic() >= deadline:
                raise translate(error, str(path)) from error
            time.sleep(0.01)
