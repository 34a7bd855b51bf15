"""What SQLite does for the writer: open and close the connection, and index in spare time."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from summarizing_context.stores.sqlite.connections import check_to_read, open_memory, open_to_write
from summarizing_context.stores.sqlite.faults import gone, translate
from summarizing_context.stores.sqlite.files import Claims, Identity, identity
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.search import index_before_leaving, index_in_spare_time

logger = logging.getLogger(__name__)

_CLOSING_WAIT = 200  # milliseconds that closing waits for a locked file


class SqliteDriver:
    """A `Driver` for one file, or for memory where `path` is None."""

    def __init__(
        self,
        path: Path | None,
        *,
        read_only: bool,
        busy_timeout: float,
        max_pages: int | None,
        gives_way: Callable[[], bool],
        flushes_behind: bool = False,
    ) -> None:
        self.gives_way = gives_way
        self._path = path
        self._name = str(path or ":memory:")
        self.claimed: list[Claims] = []  # of the stores that are open
        self._read_only = read_only
        self._busy_timeout = busy_timeout
        self._max_pages = max_pages
        self._flushes_behind = flushes_behind
        self._log: int | None = None  # what is flushed behind: the file that SQLite writes ahead
        self._flushed = 0  # changes of the connection
        self._identity: Identity | None = None  # of the files that the connection has open

    def open(self) -> Database:
        """A connection for writing; where only reading is allowed, one that is not used."""
        if self._path is None:
            return open_memory()
        if self._read_only:
            check_to_read(self._path, busy_timeout=self._busy_timeout)
            return sqlite3.connect(":memory:", factory=Database)  # each read connects anew: nothing is left beside it
        connection = open_to_write(self._path, busy_timeout=self._busy_timeout, max_pages=self._max_pages)
        self._identity = identity(self._path)
        if self._flushes_behind:
            connection.execute("pragma synchronous = normal")
        return connection

    def close(self, connection: Database) -> None:
        """Give up all claims, and end the connection."""
        held = [claims for claims in self.claimed if self.release(connection, claims)]
        with suppress(sqlite3.Error):
            if held:
                connection.execute(f"pragma busy_timeout = {_CLOSING_WAIT}")
                index_before_leaving(connection)
        connection.close()
        if self._log is not None:
            os.close(self._log)

    def release(self, connection: Database, claims: Claims) -> bool:
        """Give up what one store has claimed; whether there was anything. A locked file is not waited for long."""
        held = claims.held()
        if held:
            connection.execute(f"pragma busy_timeout = {_CLOSING_WAIT}")
            with suppress(sqlite3.Error), transaction(connection):  # the lock files count, not what is noted
                values = [{"session_id": session_id, "pid": os.getpid()} for session_id in held]
                connection.run_many("forget_writer", values)
            connection.execute(f"pragma busy_timeout = {round(self._busy_timeout * 1_000)}")
        for session_id in held:
            claims.give_up(session_id)
        return bool(held)

    def gone(self) -> Exception | None:
        """The error of all that follows, once the file was removed, moved or replaced."""
        if self._path is None or self._identity is None or identity(self._path) == self._identity:
            return None
        return gone(self._name)

    def translate(self, error: Exception) -> Exception:
        """The error to raise in place of one of SQLite."""
        return translate(error, self._name)

    def flush(self, connection: Database) -> None:
        """Where commits did not wait for the disk, wait for it now. Where that fails, later commits wait again."""
        if not self._flushes_behind or connection.total_changes == self._flushed:
            return
        self._flushed = connection.total_changes
        try:
            if self._log is None:
                self._log = os.open(f"{self._path}-wal", os.O_RDWR | getattr(os, "O_BINARY", 0))
            os.fsync(self._log)
        except OSError as error:
            self._flushes_behind = False
            with suppress(sqlite3.Error):
                connection.execute("pragma synchronous = full")
            logger.warning("a store could not be flushed behind", extra={"cause": type(error).__name__})

    def has_spare(self) -> bool:
        """Whether messages may be left to index."""
        return not self._read_only

    def spend(self, connection: Database) -> bool:
        """Index a slice; whether there is more."""
        return index_in_spare_time(connection)

    def beat(self, connection: Database) -> None:
        """A lock file needs no renewal."""
