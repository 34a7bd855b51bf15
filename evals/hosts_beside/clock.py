"""A clock of steps: a reply of the agent's model takes one, a summary takes as many as the run says.

A summary that is not done is held. It is let go when the agent has made enough steps meanwhile: then nobody has waited.
Or it is let go when nothing in this process moves any more: then the agent waits for it, and the clock jumps to where
it is done. So waits are told in steps, whatever the machine does.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

_LOOK = 0.01  # seconds between two looks at the process
_QUIET = 8  # looks in a row without any work
_WORK = 0.002  # seconds of processor in one look that count as work
_TASKS = Path("/proc/self/task")  # of Linux: tells whether a thread has work that the machine does not get to
_SETTLE = 0.02  # seconds for what was let go to be taken up


class Clock:
    """Shared by all threads and event loops of a run. Used as a context manager, which ends its thread."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: dict[int, float] = {}  # steps, by turn
        self._turn: int | None = None
        self._held: list[tuple[float, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="clock", daemon=True)

    def __enter__(self) -> Clock:
        self._watching.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def begin(self, turn: int | None) -> None:
        """A turn begins; None between turns, when jumps are nobody's wait."""
        self._turn = turn

    async def step(self) -> None:
        """The agent's model has replied."""
        if self._release(self.now + 1):
            await asyncio.sleep(_SETTLE)

    async def sleep(self, steps: float) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        self._hold(steps, wake)
        await done

    def sleep_here(self, steps: float) -> None:
        """The same for a thread."""
        done = threading.Event()
        self._hold(steps, done.set)
        done.wait()

    def end(self) -> None:
        """Let everything go, now and later."""
        self._ended.set()
        self._release(float("inf"))
        self._watching.join()

    def _hold(self, steps: float, wake: Callable[[], None]) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._held.append((self.now + steps, wake))
                return
        wake()

    def _release(self, now: float) -> int:
        with self._lock:
            self.now = now
            due = sorted((one for one in self._held if one[0] <= now), key=lambda one: one[0])
            self._held = [one for one in self._held if one[0] > now]
        for _, wake in due:
            wake()
        return len(due)

    def _watch(self) -> None:
        quiet, seen = 0, (time.process_time(), self.now, 0)
        while not self._ended.wait(_LOOK):
            look = (time.process_time(), self.now, len(self._held))
            moved = look[0] - seen[0] > _WORK or look[1:] != seen[1:] or not look[2] or _has_work()
            quiet, seen = 0 if moved else quiet + 1, look
            if quiet >= _QUIET:
                self._jump()
                quiet = 0

    def _jump(self) -> None:
        with self._lock:
            due = min((at for at, _ in self._held), default=self.now)
            waited, turn = due - self.now, self._turn
        if turn is not None and waited > 0:
            self.waits[turn] = self.waits.get(turn, 0.0) + waited
        self._release(due)


def _has_work() -> bool:
    """Whether another thread runs, waits for a processor, or for a disk. A busy machine is no wait of the agent."""
    own = str(threading.get_native_id())
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
        if task.name != own and state in "RD":
            return True
    return False
