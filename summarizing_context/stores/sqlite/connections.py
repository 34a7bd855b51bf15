"""Open a store's file: create it privately, set SQLite up, bring the schema up to date.

What may not be opened is found out by `files` first.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from functools import cache
from pathlib import Path

from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.private_files import FILE, make_private_folder
from summarizing_context.stores.sqlite.faults import not_private, not_writable, translate
from summarizing_context.stores.sqlite.files import APPLICATION_ID, application_id, beside, check_file, connect, read
from summarizing_context.stores.sqlite.schema import (
    Database,
    known_migrations,
    migrate,
    newest_version,
    schema_version,
    transaction,
)
from summarizing_context.stores.sqlite.search import add_functions

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
    """A store in memory that stays empty. A copy of it takes a small part of the time of its migrations."""
    empty = sqlite3.connect(":memory:", isolation_level=None, factory=Database, check_same_thread=False)
    add_functions(empty)
    migrate(empty, ":memory:", known_migrations())
    return empty


def open_to_write(path: Path, *, busy_timeout: float, max_pages: int | None) -> Database:
    """Open or create the file, with its schema brought up to date."""
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


def check_to_read(path: Path, *, busy_timeout: float) -> None:
    """Raise unless this is a store that can be read as it is."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file; open it once without read_only=True to create it")
    check_file(path, busy_timeout)
    version = read(path, busy_timeout, schema_version)
    if version < newest_version():
        raise StoreReadOnlyError(
            f"{path}: its schema version {version} is older than {newest_version()} and it may not be written; "
            "open it once without read_only=True, where it may be, to bring it up to date"
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
    migrate(connection, str(path), known_migrations())


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
