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

_LOCKED = (StoreLockedError, "another process kept the file locked; end it or try again")

_CORRUPT = (
    StoreCorruptError,
    "the file is damaged; it was left as it is: restore it from a backup, or move it away to begin a new one",
)

_NOT_OURS = (
    StoreCorruptError,
    "the file is damaged, or not a store of summarizing-context; it was left as it is: restore it from a backup, "
    "or name another file",
)

_FULL = (StoreFullError, "no space is left for the file; nothing was written: free some and call again")

_MAY_NOT_GROW = (
    StoreFullError,
    "the file could not be written: a quota or a limit on its size is reached, or the disk fails; nothing was written: "
    "free some space, or raise the limit, and call again",
)

_READ_ONLY = (
    StoreReadOnlyError,
    "the file or its folder may not be written, or was moved away; change its permissions, or use read_only=True",
)

_CLOSED_TO_US = (
    StoreError,
    "the file cannot be opened; see whether it, its folder and the file ending in -wal beside it may be read",
)

_BY_SQLITE_CODE = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_CORRUPT: _CORRUPT,
    sqlite3.SQLITE_FORMAT: _CORRUPT,
    sqlite3.SQLITE_NOTADB: _NOT_OURS,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_AUTH: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _CLOSED_TO_US,
}

_BY_EXTENDED_CODE = {
    sqlite3.SQLITE_IOERR_WRITE: _MAY_NOT_GROW,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # no space for what is shared with other processes
}

_BY_ERRNO = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _MAY_NOT_GROW,
    errno.EFBIG: _MAY_NOT_GROW,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
}


def damaged(path: str) -> StoreCorruptError:
    """The file is a store, but what it holds does not fit together."""
    return StoreCorruptError(f"{path}: {_CORRUPT[1]}")


def not_ours(path: str, found: str) -> StoreCorruptError:
    """The file is something else; `found` says what."""
    return StoreCorruptError(f"{path}: {found}; {_NOT_OURS[1]}")


def not_writable(path: str) -> StoreReadOnlyError:
    """The file, or the folder in which SQLite keeps its log beside it, may not be written."""
    return StoreReadOnlyError(f"{path}: {_READ_ONLY[1]}")


def not_private(path: str) -> StoreError:
    """Others have rights to the file, and it is not ours to take them away."""
    return StoreError(
        f"{path}: others may read this file, and its mode cannot be changed by this user; "
        "have its owner set it to 0600, or name another file"
    )


def gone(path: str) -> StoreError:
    """The name leads to another file now, or to none."""
    return StoreError(
        f"{path}: the file, or one of those beside it, was removed, moved or replaced while it was open; nothing is "
        "acknowledged any more, for it would be lost. Put the files back if you can, close this, and open it again"
    )


def translate(error: Exception, path: str) -> SummarizingContextError:
    """The error to raise in place of `error`, which becomes its cause."""
    if isinstance(error, SummarizingContextError):
        return error
    kind, text = _meaning(error)
    fault = kind(f"{path}: {text}")
    # A UnicodeError carries the whole text that could not be written.
    fault.__cause__ = None if isinstance(error, UnicodeError) else error
    return fault


def _meaning(error: Exception) -> tuple[type[StoreError], str]:
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, (StoreError, f"the file system said: {error.strerror}"))
    if isinstance(error, UnicodeError):
        return StoreError, "a name given to the store is not valid Unicode; leave lone surrogates out of it"
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", -1)
        other = (StoreError, f"SQLite said: {error}")
        return _BY_EXTENDED_CODE.get(code) or _BY_SQLITE_CODE.get(code & 0xFF, other)
    return StoreError, f"the store was given something that it cannot keep ({type(error).__name__})"
