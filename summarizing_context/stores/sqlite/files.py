"""The file of a store: connect to it, read it without leaving a trace, check it, and claim a session in it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

from summarizing_context.errors import StoreError
from summarizing_context.messages.search_terms import indexed_words, searchable
from summarizing_context.stores.relational.engine import Values, check_version, in_schema, read_queries
from summarizing_context.stores.relational.log import readable
from summarizing_context.stores.sqlite.faults import CORRUPT, NOT_OURS, fault, is_damage

Result = TypeVar("Result")

PACKAGE = "summarizing_context.stores.sqlite"

SQL = {  # by name; the shared ones are written for PostgreSQL
    name: in_schema(query, "").replace("greatest(", "max(").replace("least(", "min(")
    for name, query in read_queries(PACKAGE).items()
}

APPLICATION_ID = 0x53435458  # "SCTX"; `file` and other tools show it

CHECKED_WHOLE = 64 << 20  # bytes; of larger files only the small tables are checked

_SMALLEST = 512  # bytes; SQLite takes anything shorter for an empty file and would write over it

_POLL = 0.02  # seconds


class Database(sqlite3.Connection):
    """The `Connection` of a file."""

    def run(self, name: str, values: Values = ()) -> sqlite3.Cursor:
        return self.execute(SQL[name], values)

    def run_many(self, name: str, rows: Iterable[Values]) -> None:
        self.executemany(SQL[name], rows)

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.executemany(SQL["index_text"], ((number, indexed_words(text)) for number, text in texts))

    def begin_work(self) -> None:
        self.execute("begin immediate")

    def commit_work(self) -> None:
        self.execute("commit")

    def undo_work(self) -> None:
        if self.in_transaction:  # else SQLite has done so already, as it does when the disk is full
            self.execute("rollback")

    def may_pass(self, error: Exception) -> bool:
        return False  # the file was waited for already

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
        """Return a number that SQLite keeps of the file."""
        return int(self.execute(f"pragma {name}").fetchone()[0])

    def add_functions(self) -> None:
        """Add what the queries call that forget what is indexed: the words of a message, and of a text."""

        def spaced(text: str | bytes) -> str:
            return indexed_words(text if isinstance(text, str) else readable(text))

        self.create_function("indexed", 1, lambda message: indexed_words(searchable(message)), deterministic=True)
        self.create_function("spaced", 1, spaced, deterministic=True)


def connect(path: Path, mode: str, busy_timeout: float) -> Database:
    """Return a connection that begins and ends no transaction by itself; `mode` as in SQLite's URI."""
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=busy_timeout, isolation_level=None, factory=Database
    )


def beside(path: Path) -> tuple[Path, ...]:
    """Return the file, and those that SQLite keeps beside it while it is open."""
    return tuple(Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm"))


def identity(path: Path) -> list[tuple[int, int] | None]:
    """Return which files stand under these names: it changes when one is removed, moved away or replaced."""
    found: list[tuple[int, int] | None] = []
    for file in beside(path):
        try:
            status = file.stat()
            found.append((status.st_dev, status.st_ino))
        except OSError:  # whatever the reason: opened now it would not be found
            found.append(None)
    return found


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
        try:
            mode = "ro&immutable=1" if quiet else "ro"
            with closing(connect(path, mode, busy_timeout)) as connection, connection.transaction("deferred"):
                result = work(connection)
        except Exception:
            if quiet is None or quiet == quiet_state():
                raise
        else:
            if quiet is None or quiet == quiet_state():
                return result


def check_file(path: Path, busy_timeout: float) -> None:
    """Raise unless the file is empty, or a sound store of a version that we know. It stays as it is."""
    if not path.is_file():
        raise StoreError(f"{path}: this is not a file; name a file for the store")
    size = path.stat().st_size
    if size == 0:  # new, or created by another process a moment ago
        return
    if size < _SMALLEST:
        raise fault(NOT_OURS, path, "it is not an SQLite file")
    foreign = fault(NOT_OURS, path, "it is an SQLite file of another program")
    # First what the file itself says, without what stands in a log beside it: reading that would leave a file there.
    with closing(connect(path, "ro&immutable=1", busy_timeout)) as alone, suppress(sqlite3.DatabaseError):
        if alone.pragma("application_id") != APPLICATION_ID:
            raise foreign

    def check(connection: Database) -> None:
        try:
            owner = connection.pragma("application_id")
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            raise fault(NOT_OURS, path, "it is not an SQLite file, or its beginning is damaged") from error
        if owner != APPLICATION_ID:
            raise foreign
        version = connection.pragma("user_version")
        if version:  # else another process has begun it a moment ago
            refuse_other_version(version, path)
        try:
            tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
            small = [f"({name})" for name in ("sessions", "branches", "activations") if name in tables]
            for part in small if size > CHECKED_WHOLE else ["(1)"]:
                if connection.execute(f"pragma quick_check{part}").fetchone() != ("ok",):
                    raise fault(CORRUPT, path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            raise fault(CORRUPT, path) from error

    read(path, busy_timeout, check)


def refuse_other_version(version: int, path: object) -> None:
    """Raise `StoreVersionError` for a file of another schema."""
    check_version(version, str(path), "use another file. The file")


_held_here: WeakValueDictionary[tuple[int, str], FileLock] = WeakValueDictionary()  # by process and lock file


class Claims:
    """The claims of one store: one lock file for each session says which process may write to it, as long as the claim
    is held. Used in the engine's thread; any thread may look at `sessions`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.sessions: dict[str, FileLock | None] = {}  # that this store may write to

    def take(self, session_id: str) -> bool:
        """Claim a session; return False when it is claimed already, here or elsewhere."""
        if session_id in self.sessions:
            return False
        lock = self._lock(session_id)
        if lock is not None:
            if (os.getpid(), lock.lock_file) in _held_here:  # also where the file was removed
                return False
            try:  # another process may hold the lock for a moment to see whether it is held
                lock.acquire(timeout=0.25, poll_interval=_POLL)
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
        """Return whether a living process, this one included, has the session."""
        lock = self._lock(session_id)
        if session_id in self.sessions or lock is None or not Path(lock.lock_file).exists():
            return session_id in self.sessions
        try:
            lock.acquire(blocking=False)
        except (Timeout, OSError):  # held, or not for us to touch; then the writer that it names is the best we know
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
