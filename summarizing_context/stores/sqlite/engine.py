"""The engine of an SQLite file: one thread and one connection for the stores of a process that name it.

Stores with a connection each would wait for one another as processes do, and a busy machine makes one wait too long.
A file is created privately and set up, whole or not at all; what may not be opened is refused and left as it is.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.private_files import FILE, make_private_folder
from summarizing_context.stores.relational.engine import VERSION, Engine, read_schema
from summarizing_context.stores.sqlite.faults import READ_ONLY, fault, translate
from summarizing_context.stores.sqlite.files import (
    APPLICATION_ID,
    PACKAGE,
    Claims,
    Database,
    beside,
    check_file,
    connect,
    identity,
    read,
    refuse_other_version,
)

logger = logging.getLogger(__name__)

_CLOSING_WAIT = 200  # milliseconds that closing waits for a locked file

_creating = threading.Lock()  # closing the new file would drop the locks that another store here has on it by then


class SqliteEngine(Engine):
    """The engine of one file, or of memory, where `path` is None. `busy_timeout` is in seconds.

    With `flushes_behind` a commit is acknowledged before the disk has it, and flushed right after: a power cut in
    between loses it, the end of the process does not.
    """

    def __init__(
        self, path: Path | None, *, read_only: bool, busy_timeout: float, max_pages: int | None, flushes_behind: bool
    ) -> None:
        super().__init__(str(path or ":memory:"), read_only=read_only)
        self.path = path
        self.busy_timeout = busy_timeout
        self.claimed: list[Claims] = []  # that is given up as the connection ends
        self._max_pages = max_pages
        self._flushes_behind = flushes_behind and path is not None
        self._log: int | None = None  # what is flushed behind: the file that SQLite writes ahead
        self._flushed = 0  # changes of the connection
        self._identity: object = None  # of the files that the connection has open

    def open(self) -> Database:
        """Return a connection for writing; where only reading is allowed, one that is not used."""
        if self.path is None or self.read_only:
            if self.path is not None:
                self._check_to_read(self.path)
            connection: Database = sqlite3.connect(":memory:", isolation_level=None, factory=Database)
            if self.path is None:
                connection.add_functions()
                self._create(connection)
            return connection  # a read connects anew: nothing is left beside the file
        connection = self._open_to_write(self.path)
        self._identity = identity(self.path)
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
        held = list(claims.sessions)
        if held:
            connection.execute(f"pragma busy_timeout = {_CLOSING_WAIT}")
            with suppress(sqlite3.Error), connection.transaction():  # the lock files count, not what is noted
                values = [{"session_id": session_id, "pid": os.getpid()} for session_id in held]
                connection.run_many("forget_writer", values)
            connection.execute(f"pragma busy_timeout = {round(self.busy_timeout * 1_000)}")
        for session_id in held:
            claims.give_up(session_id)

    def gone(self) -> Exception | None:
        """Return the error of all that follows, once the file was removed, moved or replaced."""
        if self.path is None or self._identity is None or identity(self.path) == self._identity:
            return None
        return StoreError(
            f"{self.name}: the file, or one of those beside it, was removed, moved or replaced while it was open; "
            "nothing is acknowledged any more, for it would be lost. Put the files back if you can, close this, and "
            "open it again"
        )

    def translate(self, error: Exception) -> Exception:
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

    def _check_to_read(self, path: Path) -> None:
        """Raise unless this is a store that can be read as it is."""
        if not path.exists():
            raise StoreError(f"{path}: there is no such file; open it once without read_only=True to create it")
        check_file(path, self.busy_timeout)
        if read(path, self.busy_timeout, lambda connection: connection.pragma("user_version")) == 0:
            raise StoreReadOnlyError(
                f"{path}: the file is empty and it may not be written; open it once without read_only=True"
            )

    def _open_to_write(self, path: Path) -> Database:
        """Open or create the file."""
        make_private_folder(path.parent)
        with _creating:  # privately: SQLite gives the files beside it the mode of the file itself
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE))
                path.chmod(FILE)
            except FileExistsError:
                pass
            except FileNotFoundError as error:  # a folder that is there, but of a file system that takes no files
                raise fault(READ_ONLY, path) from error
        if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            raise fault(READ_ONLY, path)
        check_file(path, self.busy_timeout)
        for file in beside(path):  # of a store that was there, and what a killed process left
            try:
                mode = file.lstat().st_mode
                if stat.S_ISREG(mode) and stat.S_IMODE(mode) != FILE:
                    file.chmod(FILE)
            except FileNotFoundError:
                continue
            except PermissionError as error:
                raise StoreError(
                    f"{file}: others may read this file, and its mode cannot be changed by this user; "
                    "have its owner set it to 0600, or name another file"
                ) from error
        connection = connect(path, "rw", self.busy_timeout)
        try:
            connection.add_functions()
            # The id goes in first and past the log, so that the file's own header tells at any moment whose it is.
            if connection.pragma("application_id") == 0:
                with connection.transaction():
                    connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
            self._use_wal(connection)
            connection.execute("pragma synchronous = full")
            connection.execute("pragma secure_delete = on")
            self._create(connection)
            if self._max_pages is not None:
                connection.execute(f"pragma max_page_count = {self._max_pages:d}")
            if self._flushes_behind:
                connection.execute("pragma synchronous = normal")
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: Database) -> None:
        # SQLite does not wait here by itself when two processes create the file at once.
        deadline = time.monotonic() + self.busy_timeout
        while True:
            try:
                connection.execute("pragma journal_mode = wal")
                return
            except sqlite3.OperationalError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.01)

    def _create(self, connection: Database) -> None:
        """Make the tables of an empty file; raise `StoreVersionError` for one of another schema."""
        if connection.pragma("user_version") == 0:
            with connection.transaction():
                if connection.pragma("user_version") == 0:  # else another process was quicker
                    # `executescript` would commit before it begins, so the statements are run one by one.
                    statement = ""
                    for line in read_schema(PACKAGE).splitlines(keepends=True):
                        statement += line
                        if ";" in line and sqlite3.complete_statement(statement):
                            connection.execute(statement)
                            statement = ""
                    connection.execute(f"pragma user_version = {VERSION:d}")
        refuse_other_version(connection.pragma("user_version"), self.name)
