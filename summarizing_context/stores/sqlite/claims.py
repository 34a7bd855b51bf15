"""The claims of a file's sessions: one lock file for each says which process may write to it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from filelock import FileLock, Timeout

_held_here: WeakValueDictionary[tuple[int, str], FileLock] = WeakValueDictionary()  # by process and lock file


class Claims:
    """The claims of one store. Used in the engine's thread; any thread may look at `sessions`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.sessions: dict[str, FileLock | None] = {}  # that this store may write to

    def take(self, session_id: str) -> bool:
        """Claim a session; return False when it is claimed already, here or elsewhere."""
        lock = self._lock(session_id)
        if session_id in self.sessions or (lock and (os.getpid(), lock.lock_file) in _held_here):
            return False  # also where the lock file was removed
        if lock is not None:
            try:  # another process may hold the lock for a moment to see whether it is held
                lock.acquire(timeout=0.25)
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

    def is_open(self, session_id: str, pid: int) -> bool:
        """Return whether a living process, this one included, has the session; `pid` is the last that noted itself."""
        lock = self._lock(session_id)
        if session_id in self.sessions or lock is None:
            return session_id in self.sessions
        if Path(lock.lock_file).exists():
            try:
                lock.acquire(blocking=False)
            except (Timeout, OSError):  # held, or not for us to touch: the writer that it names is the best we know
                return True
            _remove(lock)  # left behind by a process that was killed
        return self.is_held_without_its_file(session_id, pid)

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

    def _lock(self, session_id: str) -> FileLock | None:
        if self._path is None:
            return None
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        # Any thread may end the claim, and two stores of one process must exclude each other as well.
        name = f"{self._path}.{digest}.lock"
        return FileLock(name, mode=0o600, thread_local=False, is_singleton=False, poll_interval=0.02)


def _remove(lock: FileLock) -> None:
    # Removed while still held: a process that locked the removed file sees that it has no name and tries again.
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release(force=True)
