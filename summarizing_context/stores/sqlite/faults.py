"""Turn the errors of SQLite and of the file system into ours: path, what happened, what to do.

Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import errno
import sqlite3

from summarizing_context.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    SummarizingContextError,
)

Fault = tuple[type[StoreError], str]

CORRUPT: Fault = (
    StoreCorruptError,
    "the file is damaged; it was left as it is: restore it from a backup, or move it away to begin a new one",
)
NOT_OURS: Fault = (
    StoreCorruptError,
    "the file is damaged, or not a store of summarizing-context; it was left as it is: restore it from a backup, "
    "or name another file",
)
READ_ONLY: Fault = (
    StoreReadOnlyError,
    "the file or its folder may not be written, or was moved away; change its permissions, or use read_only=True",
)
_LOCKED: Fault = (StoreLockedError, "another process kept the file locked; end it or try again")
_FULL: Fault = (StoreFullError, "no space is left for the file; nothing was written: free some and call again")
_MAY_NOT_GROW: Fault = (
    StoreFullError,
    "the file could not be written: a quota or a limit on its size is reached, or the disk fails; nothing was written: "
    "free some space, or raise the limit, and call again",
)
_CANNOT_OPEN: Fault = (
    StoreError,
    "the file cannot be opened; see whether it, its folder and the file ending in -wal beside it may be read",
)

_BY_SQLITE = {  # by code; extended codes are looked up first
    sqlite3.SQLITE_IOERR_WRITE: _MAY_NOT_GROW,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # no space for what is shared with other processes
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_CORRUPT: CORRUPT,
    sqlite3.SQLITE_FORMAT: CORRUPT,
    sqlite3.SQLITE_NOTADB: NOT_OURS,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_AUTH: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_OPEN,
}
_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _MAY_NOT_GROW,
    errno.EFBIG: _MAY_NOT_GROW,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
    errno.EROFS: READ_ONLY,
}


def fault(known: Fault, path: object, found: str = "") -> StoreError:
    """Return one of the errors above for a file; `found` is said before it."""
    kind, text = known
    return kind(f"{path}: {found}{'; ' if found else ''}{text}")


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether SQLite says that a file is damaged, or none of its own."""
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def translate(error: Exception, path: str) -> SummarizingContextError:
    """Return the error to raise in place of `error`, which becomes its cause."""
    if isinstance(error, SummarizingContextError):
        return error
    if isinstance(error, UnicodeError):  # no cause: it carries the whole text that could not be written
        return StoreError(f"{path}: a name given to the store is not valid Unicode; leave lone surrogates out of it")
    known: Fault = (StoreError, f"the store was given something that it cannot keep ({type(error).__name__})")
    if isinstance(error, OSError):
        known = _BY_ERRNO.get(error.errno or 0, (StoreError, f"the file system said: {error.strerror}"))
    elif isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", -1)
        known = _BY_SQLITE.get(code) or _BY_SQLITE.get(code & 0xFF, (StoreError, f"SQLite said: {error}"))
    ours = fault(known, path)
    ours.__cause__ = error
    return ours
