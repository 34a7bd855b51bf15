"""Pace: a decision made in slices, so that the event loop has its turn in between.

Pure. Work is counted, never timed. A slice that has done enough ends with `Pause`; who decides lets others run, or has
what the pause names done in a thread, and decides again. What was worked out is kept until the decision is over, so
that each slice gets further than the last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Made = TypeVar("Made")

SLICE = 256  # messages read, or shown as they are
MOST_APART = 200  # pieces of work of a decision that are done in threads


class Pause(Exception):
    """A decision has to be made again: after a turn of the event loop, or after `work`, which any thread may do."""

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        super().__init__("a decision pauses")
        self.work = work


class Pace:
    """What the decisions of one session have done so far. Pauses only within `slice`."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._decisions = 0  # one within another
        self._may_pause = False
        self._spent = 0
        self._apart = 0  # pieces of work that were done in threads

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Keep what is worked out until the outermost of these ends."""
        self._decisions += 1
        try:
            yield
        finally:
            self._decisions -= 1
            if not self._decisions:
                self._kept, self._apart = {}, 0

    @contextmanager
    def slice(self) -> Iterator[None]:
        """One attempt at a decision that may pause."""
        self._may_pause, self._spent = True, 0
        try:
            yield
        finally:
            self._may_pause = False

    def spend(self, work: int = 1) -> None:
        """Note work whose result is kept; pause if it was enough for a slice."""
        self._spent += work
        if self._may_pause and self._spent > SLICE:
            raise Pause

    def once(self, name: Hashable, make: Callable[[], Made], work: int = 0) -> Made:
        """What `make` gives, worked out once in a decision. The name tells all that it depends on."""
        if name not in self._kept:
            made = make()
            if not self._decisions:
                return made
            self._kept[name] = made
            self.spend(work)
        found: Made = self._kept[name]
        return found

    def once_apart(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """The same for what takes long and may be done in any thread."""
        kept = self._kept
        if name not in kept:
            self.apart(lambda: kept.update({name: make()}))
        return self.once(name, make)

    def apart(self, work: Callable[[], object]) -> None:
        """Do work that takes long and may be done in any thread, or pause for it. That it is done has to be seen from
        what it leaves behind; a decision that asks too often gets it done at once."""
        if self._may_pause and self._apart < MOST_APART:
            self._apart += 1
            raise Pause(work)
        work()
