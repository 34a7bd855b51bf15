"""Who may write to a session: one lock file for each, held as long as the claim.

The operating system frees a lock when its process dies, however it dies. A store in memory has no other
processes, so its claims are only remembered.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

_WAIT = 0.25  # seconds; another process may hold the lock for a moment to see whether it is held
_POLL = 0.02  # seconds


class Claims:
    """The claims of one store. Used in its writer thread, except for `holds`."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._held: dict[str, FileLock | None] = {}

    def holds(self, session_id: str) -> bool:
        """Whether this store may write to the session."""
        return session_id in self._held

    def held(self) -> list[str]:
        """The sessions that this store may write to."""
        return list(self._held)

    def take(self, session_id: str) -> bool:
        """Claim a session; False when it is claimed already, here or elsewhere."""
        if session_id in self._held:
            return False
        lock = self._lock(session_id)
        if lock is not None:
            try:
                lock.acquire(timeout=_WAIT, poll_interval=_POLL)
            except Timeout:
                return False
        self._held[session_id] = lock
        return True

    def give_up(self, session_id: str) -> None:
        """End a claim and remove its lock file."""
        lock = self._held.pop(session_id, None)
        if lock is not None:
            _remove(lock)

    def is_claimed(self, session_id: str) -> bool:
        """Whether a living process, this one included, has the session."""
        lock = self._lock(session_id)
        if session_id in self._held or lock is None or not Path(lock.lock_file).exists():
            return session_id in self._held
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
    # Removed while still held: whoever locked the removed file sees that it has no name and tries again.
    with suppress(OSError):
        Path(lock.lock_file).unlink()
    lock.release(force=True)
