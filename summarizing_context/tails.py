"""Tails of a session's views: the raw tail brought up to date with the log, or made anew from a cut.

How a group is shown is decided in `core.tail`; which cut and how much room there is, in `deciding`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TypeVar

from summarizing_context.core.budget import MAX_SQUEEZE, Room
from summarizing_context.core.folding import Calls, Folded, Pairs, calls_of, pair
from summarizing_context.core.pace import Pace
from summarizing_context.core.repairs import Read
from summarizing_context.core.repeats import Run
from summarizing_context.core.shrinking import Price
from summarizing_context.core.tail import PARTS, Known, Tail
from summarizing_context.timeline import Timeline

Made = TypeVar("Made")

_LONG = 400_000  # bytes of a message that is read in a thread
_MANY = 400  # calls or blocks of one, about
_BRIEF = 10_000  # bytes of one that cannot have so many


class Reads:
    """The log as a decision reads it: each message once, long ones in a thread."""

    def __init__(self, timeline: Timeline, pace: Pace) -> None:
        self.timeline = timeline
        self.pace = pace

    def read(self, index: int) -> tuple[Read, int]:
        """A log entry, read, and its cost."""
        entry = self.timeline.entries[index]
        name, cost = ("read", entry, index), self.timeline.cost(index)
        if entry.fresh is None and _is_long(entry.data):
            return self.pace.once_apart(name, partial(entry.read, index)), cost
        return self.pace.once(name, lambda: self.timeline.read(index)[0], 1), cost

    def cost(self, index: int) -> int:
        """Tokens that a log entry costs when it is sent."""
        return self.timeline.cost(index)

    def repeats(self, index: int, stop: int) -> Run:
        """The entry with those right behind it that repeat it, as far as `stop`."""
        return self.timeline.repeats(index, stop)

    def group(self, number: int) -> tuple[Sequence[Read], Sequence[int]]:
        """The messages of a closed group, read, and their costs."""
        return self.between(*self.timeline.group_range(number))

    def between(self, start: int, stop: int) -> tuple[Sequence[Read], Sequence[int]]:
        """Log entries, read, and their costs."""
        if stop - start == 1:
            return self._each(start, stop)
        return self.pace.once(("between", log_name(self.timeline), start, stop), lambda: self._each(start, stop))

    def _each(self, start: int, stop: int) -> tuple[Sequence[Read], Sequence[int]]:
        reads, costs = zip(*map(self.read, range(start, stop)), strict=True)
        return reads, costs


def _is_long(data: bytes) -> bool:
    """Whether it would hold the event loop up to read a message."""
    return len(data) > _LONG or (len(data) > _BRIEF and data.count(b"{") > _MANY)


def feed(reads: Reads, tail: Tail, most: float = inf) -> None:
    """Show a tail what it has not shown yet. Costs what is new, not what the log holds. A tail that comes to cost more
    than `most` tokens is of no use: it is left as it is."""
    timeline, pace = reads.timeline, reads.pace
    number = bisect_left(timeline.group_starts, tail.next)
    while number < len(timeline.group_starts):
        _feed_riders(timeline, tail)
        start, stop = timeline.group_range(number)
        run = timeline.repeats(start, tail.repeats_stop)
        number += run.times
        if run.times > 1:
            read, cost = reads.read(start)
            tail.take_repeats(read, cost, run, staying=bool(timeline.staying(*run)))
        else:
            group, costs = reads.between(start, stop)
            tail.take(group, costs, closed=True, staying=timeline.staying(start, stop), most=most, pace=pace)
        if tail.tokens > most:
            return
    _feed_riders(timeline, tail)
    start, stop = timeline.newest_group
    if stop > timeline.closed_groups_stop:
        group, costs = reads.between(start, stop)
        tail.take(group, costs, closed=False, staying=timeline.staying(start, stop), most=most, pace=pace)


class Tails:
    """Makes the tails of one decision. One that costs more than its room is not made to its end."""

    def __init__(self, reads: Reads, price: Price, shown: Tail) -> None:
        self._reads = reads
        self._timeline = reads.timeline
        self._price = price
        self._shown = shown
        self._bounds = reads.timeline.bounds()
        self._log = log_name(reads.timeline)
        self._known: Known = reads.pace.once(("known", self._log), dict)

    @property
    def newest(self) -> Pairs:
        """The newest group."""
        return self._of_newest("pairs", lambda group: pair(self._reads.between(*group)[0]))

    @property
    def newest_calls(self) -> Calls:
        """Its calls."""
        return self._of_newest("calls", lambda _: calls_of(self.newest))

    def _of_newest(self, what: str, make: Callable[[tuple[int, int]], Made]) -> Made:
        group = self._timeline.newest_group
        work = sum(1 + len(entry.facts.calls) for entry in self._timeline.entries[slice(*group)]) // PARTS
        return self._reads.pace.once((what, self._log), lambda: make(group), work)

    def at(self, stop: int, room: Room, folded: Folded) -> Tail:
        """The tail from entry `stop` on: that which is shown, cut shorter, or where the room is another, a new one."""
        shown = self._shown
        same = shown.room == room
        tightest = room.squeeze >= MAX_SQUEEZE  # then ephemeral messages before the first group give way too
        fits = same and not folded and not room.is_bare and stop >= shown.start + tightest
        timeline, end = self._timeline, len(self._timeline)
        if fits and not shown.binds(stop, self._bounds) and shown.joins(stop, timeline.runs(stop, end)):
            return shown.cut_at(stop, self._bounds, repeats_stop=end)
        name = ("tail", self._log, stop, room, folded, tightest)
        tail = self._reads.pace.once(name, lambda: self._begun(stop, room, folded, tightest=tightest))
        feed(self._reads, tail, room.tokens)
        tail.known = None
        return tail

    def _begun(self, stop: int, room: Room, folded: Folded, *, tightest: bool) -> Tail:
        """A new tail that shows nothing yet."""
        since = len(self._timeline) - 1 if room.is_bare and folded else 0
        pairs = self.newest if folded else None
        tail = Tail(
            stop,
            room,
            self._price,
            folded,
            self._bounds,
            since=since,
            pairs=pairs,
            known=self._known,
            repeats_stop=len(self._timeline),
        )
        tail.riders = self._passed_riders(stop, room) if tightest else 0
        return tail

    def _passed_riders(self, stop: int, room: Room) -> int:
        """How many ephemeral messages give way: those before its first group, or all but the newest message."""
        riders = self._timeline.riders
        if room.is_bare:
            return len(riders) - bool(riders and riders[-1][0] == len(self._timeline))
        return bisect_right(riders, stop, key=lambda rider: rider[0])


def log_name(timeline: Timeline) -> tuple[int, int, int]:
    """What names the log as it stands."""
    return timeline.version, len(timeline), len(timeline.riders)


def late_start(timeline: Timeline, first: int, room: Room) -> int:
    """The last segment boundary after `first` behind which a room's worth of messages stands."""
    tokens, cap = timeline.tokens, room.message_cap(0)
    total, at = 0, len(timeline)
    for segment in reversed(timeline.segments):
        if segment.stop <= first:
            break
        total += sum(min(cap, tokens[n + 1] - tokens[n]) for n in range(segment.stop, at))
        at = segment.stop
        if total > room.tokens:
            return segment.stop
    return first


def _feed_riders(timeline: Timeline, tail: Tail) -> None:
    while tail.riders < len(timeline.riders) and timeline.riders[tail.riders][0] <= tail.next:
        index, message, tokens = timeline.rider(tail.riders)
        if index > tail.start or tail.start == timeline.leading:
            tail.pass_by(index, message, tokens)
        tail.riders += 1
