"""The file of a store: read it without leaving a trace, check it, and claim a session in it.

One lock file for each session says which process may write to it, as long as the claim is held.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from summarizing_context.errors import StoreError
from summarizing_context.stores.sqlite.faults import damaged, not_ours
from summarizing_context.stores.sqlite.schema import (
    Database,
    refuse_other_version,
    schema_version,
    transaction,
)

_WAIT = 0.25  # seconds; another process may hold the lock for a moment to see whether it is held

_POLL = 0.02  # seconds

_held_here: WeakValueDictionary[tuple[int, str], FileLock] = WeakValueDictionary()  # by process and lock file


class Claims:
    """The claims of one store. Used in its writer thread; any thread may look at `sessions`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.sessions: dict[str, FileLock | None] = {}  # that this store may write to

    def held(self) -> list[str]:
        """The sessions that this store may write to."""
        return list(self.sessions)

    def take(self, session_id: str) -> bool:
        """Claim a session; False when it is claimed already, here or elsewhere."""
        if session_id in self.sessions:
            return False
        lock = self._lock(session_id)
        if lock is not None:
            if (os.getpid(), lock.lock_file) in _held_here:  # also where the file was removed
                return False
            try:
                lock.acquire(timeout=_WAIT, poll_interval=_POLL)
            except Timeout:
                return False
            _held_here[os.getpid(), lock.lock_file] = lock
        self.sessions[session_id] = lock
        return True

    def give_up(self, session_id: str) -> None:
        """End a claim and remove its lock file."""
        lock = self.sessions.pop(session_id, None)
        if lock is not None:
            _remove(lock)
            _held_here.pop((os.getpid(), lock.lock_file), None)

    def is_held_without_its_file(self, session_id: str, pid: int | None) -> bool:
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

    def is_claimed(self, session_id: str) -> bool:
        """Whether a living process, this one included, has the session."""
        lock = self._lock(session_id)
        if session_id in self.sessions or lock is None or not Path(lock.lock_file).exists():
            return session_id in self.sessions
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        except OSError:  # we may not touch it; the writer it names is the best we know
            return True
        _remove(lock)  # left behind by a process that was killed
        return False

    def _lock(self, session_id: str) -> FileLock | None:
        if self._path is None:
            return None
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        # Any thread may end the claim, and two stores of one process must exclude each other as well.
        return FileLock(
            f"{self._path}.{digest}.lock", mode=0o600, thread_local=False, is_singleton=False, poll_interval=_POLL
        )


def _remove(lock: FileLock) -> None:
    # Removed while still held: a process that locked the removed file sees that it has no name and tries again.
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release(force=True)


Result = TypeVar("Result")

Identity = tuple[tuple[int, int] | None, ...]  # device and number of each file; None for one that is not there

APPLICATION_ID = 0x53435458  # "SCTX"; `file` and other tools show it

CHECKED_WHOLE = 64 << 20  # bytes; of larger files only the small tables are checked

_SMALLEST = 512  # bytes; SQLite takes anything shorter for an empty file and would write over it

_SMALL_TABLES = ("sessions", "branches", "activations")

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def connect(path: Path, mode: str, busy_timeout: float) -> Database:
    """A connection that begins and ends no transaction by itself; `mode` as in SQLite's URI."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=busy_timeout, isolation_level=None, factory=Database
    )


def check_file(path: Path, busy_timeout: float) -> None:
    """Raise unless the file is empty, or a sound store of a version that we know. It stays as it is."""
    if not path.is_file():
        raise StoreError(f"{path}: this is not a file; name a file for the store")
    size = path.stat().st_size
    if size == 0:  # new, or created by another process a moment ago
        return
    if size < _SMALLEST:
        raise not_ours(str(path), "it is not an SQLite file")
    if _names_another_program(path, busy_timeout):
        raise not_ours(str(path), "it is an SQLite file of another program")
    owner, version, sound = read(path, busy_timeout, lambda connection: _look(connection, path, size))
    if owner != APPLICATION_ID:
        raise not_ours(str(path), "it is an SQLite file of another program")
    if version:  # else another process has begun it a moment ago
        refuse_other_version(version, str(path))
    if not sound:
        raise damaged(str(path))


def beside(path: Path) -> tuple[Path, ...]:
    """The file, and those that SQLite keeps beside it while it is open."""
    return tuple(Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm"))


def identity(path: Path) -> Identity:
    """Which files stand under these names: it changes when one of them is removed, moved away or replaced."""
    return tuple(map(_numbers, beside(path)))


def read(path: Path, busy_timeout: float, work: Callable[[Database], Result]) -> Result:
    """Run `work` on one state of the file as last committed, with a connection of its own."""
    quiet = _quiet_state(path)
    try:
        mode = "ro&immutable=1" if quiet else "ro"
        with closing(connect(path, mode, busy_timeout)) as connection, transaction(connection, "deferred"):
            result = work(connection)
    except Exception:
        if quiet == _quiet_state(path) or quiet is None:
            raise
    else:
        if quiet == _quiet_state(path) or quiet is None:
            return result
    return read(path, busy_timeout, work)  # a process began to write while we read


def _quiet_state(path: Path) -> tuple[int, int] | None:
    # Without a log beside it no process has the file open. SQLite would make a log to read it, and leave it there,
    # unless it is told that the file cannot change; so we look ourselves whether it did. None: there is a log.
    if _has(path, "-wal"):
        return None
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def application_id(connection: Database) -> int:
    """Which program the file belongs to; 0 for none."""
    return int(connection.execute("pragma application_id").fetchone()[0])


def _numbers(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:  # whatever the reason: opened now it would not be found
        return None
    return status.st_dev, status.st_ino


def _names_another_program(path: Path, busy_timeout: float) -> bool:
    """What the file itself says, without what stands in a log beside it: reading that would leave a file there."""
    try:
        with closing(connect(path, "ro&immutable=1", busy_timeout)) as connection:
            return application_id(connection) != APPLICATION_ID
    except sqlite3.DatabaseError:
        return False  # damaged: what stands in its log may mend it


def _has(path: Path, suffix: str) -> bool:
    return Path(f"{path}{suffix}").exists()


def _look(connection: Database, path: Path, size: int) -> tuple[int, int, bool]:
    """Whose the file is, its version, and whether it is sound; of a file of others only the first is looked at."""
    try:
        owner = application_id(connection)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in _DAMAGED:
            raise
        raise not_ours(str(path), "it is not an SQLite file, or its beginning is damaged") from error
    if owner != APPLICATION_ID:
        return owner, 0, True
    return owner, schema_version(connection), _is_sound(connection, size)


def _is_sound(connection: Database, size: int) -> bool:
    try:
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        checks = [f"({name})" for name in _SMALL_TABLES if name in tables] if size > CHECKED_WHOLE else ["(1)"]
        return all(connection.execute(f"pragma quick_check{check}").fetchone() == ("ok",) for check in checks)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _DAMAGED:
            return False
        raise
