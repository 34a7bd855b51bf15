"""Groups: what may not be parted.

Pure, and a function of the log alone. A group is one message, or a message with calls and everything up to its
last result. Any message that is neither a result nor another call message abandons the open calls. Split
parallel call lines, and other calls that overlap, stay together for `MAX_HELD` messages: a further call then gives
up on those that are still open. Without that bound calls that always overlap would make one endless group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_HELD = 24


class Step(NamedTuple):
    """What one message did to the groups."""

    closed: tuple[tuple[int, int], ...]  # ranges of the groups that it closed, oldest first
    first_call: int  # ordinal of its first call within its group; -1 without calls
    answered: tuple[int, ...]  # ordinals of the calls that its results answer; -1 for none


class CallBook:
    """The calls of one group, and which of them are still unanswered.

    A result answers the nearest unanswered call of its id: of the latest message that made one, the first.
    """

    def __init__(self) -> None:
        self.made = 0  # calls so far
        self.units = 0  # messages with calls so far
        self._open: dict[str, list[tuple[int, int]]] = {}  # id -> (unit, ordinal), oldest first
        self._left: list[int] = []  # unanswered calls of each unit

    @property
    def settled(self) -> bool:
        """Every call has its result."""
        return not self._open

    def make(self, ids: Sequence[str]) -> int:
        """Note a message's calls; the ordinal of the first."""
        first = self.made
        for id in ids:
            self._open.setdefault(id, []).append((self.units, self.made))
            self.made += 1
        self._left.append(len(ids))
        self.units += 1
        return first

    def answer(self, id: str) -> tuple[int, int] | None:
        """(unit, ordinal) of the call that a result answers, or None if no open call has this id."""
        waiting = self._open.get(id)
        if not waiting:
            return None
        latest = waiting[-1][0]
        place = next(at for at, (unit, _) in enumerate(waiting) if unit == latest)
        found = waiting.pop(place)
        if not waiting:
            del self._open[id]
        self._left[latest] -= 1
        return found

    def complete(self, unit: int) -> bool:
        """All calls of a unit are answered."""
        return self._left[unit] == 0

    def unanswered(self) -> set[int]:
        """Ordinals of the calls without a result."""
        return {ordinal for waiting in self._open.values() for _, ordinal in waiting}


class GroupCutter:
    """Cuts a growing log into groups, one message at a time; O(1) amortised."""

    def __init__(self, position: int = 0) -> None:
        self.position = position  # messages seen
        self.start = position  # of the open group
        self._book: CallBook | None = None
        self._run = position  # where a second message with calls joined the open group

    @property
    def is_open(self) -> bool:
        """A call is still unanswered."""
        return self._book is not None

    def add(self, calls: Sequence[str], answers: Sequence[str]) -> Step:
        """Take the next message, given the ids of the calls that it makes and answers."""
        closed: tuple[tuple[int, int], ...] = ()
        if self._book is not None and (not (calls or answers) or (calls and self._run_is_long())):
            closed = ((self.start, self.position),)
            self._book = None
        if self._book is None:
            self.start, self._book = self.position, CallBook()
        book = self._book
        found = [book.answer(id) for id in answers]
        first_call = book.make(calls) if calls else -1
        if book.units == 1 or (calls and book.units == 2):
            self._run = self.position
        self.position += 1
        if book.settled:
            closed = (*closed, (self.start, self.position))
            self._book = None
        return Step(closed, first_call, tuple(-1 if place is None else place[1] for place in found))

    def _run_is_long(self) -> bool:
        """Whether the overlapping calls of the open group have been kept together for as long as they may be."""
        assert self._book is not None
        return self._book.units > 1 and self.position - self._run >= MAX_HELD
