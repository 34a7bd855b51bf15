"""Tails of a session's views: the raw tail brought up to date with the log, or made anew from a cut.

How a group is shown is decided in `core.tail`; which cut and how much room there is, in `deciding`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from math import inf

from summarizing_context.core.bindings import Bounds
from summarizing_context.core.budget import MAX_SQUEEZE, Room
from summarizing_context.core.folding import Folded, Pairs, pair
from summarizing_context.core.shrinking import Price
from summarizing_context.core.tail import Known, Tail
from summarizing_context.timeline import Timeline


def feed(timeline: Timeline, tail: Tail, most: float = inf) -> None:
    """Show a tail what it has not shown yet. Costs what is new, not what the log holds. A tail that comes to cost more
    than `most` tokens is of no use: it is left as it is."""
    number = bisect_left(timeline.group_starts, tail.next)
    while number < len(timeline.group_starts):
        _feed_riders(timeline, tail)
        start = timeline.group_starts[number]
        run = timeline.repeats(start, tail.repeats_stop)
        number += run.times
        if run.times > 1:
            read, cost = timeline.read(start)
            tail.take_repeats(read, cost, run, staying=bool(timeline.staying(*run)))
            if tail.tokens > most:
                return
            continue
        reads, costs = timeline.group(number - 1)
        staying = timeline.staying(reads[0].seq, reads[-1].seq + 1)
        tail.take(reads, costs, closed=True, staying=staying, most=most)
        if tail.tokens > most:
            return
    _feed_riders(timeline, tail)
    start, stop = timeline.newest_group
    if stop > timeline.closed_groups_stop:
        reads, costs = zip(*map(timeline.read, range(start, stop)), strict=True)
        tail.take(reads, costs, closed=False, staying=timeline.staying(start, stop), most=most)


class Tails:
    """Makes the tails of one decision. One that costs more than its room is not made to its end."""

    def __init__(self, timeline: Timeline, price: Price, shown: Tail) -> None:
        self._timeline = timeline
        self._price = price
        self._shown = shown
        self._known: Known = {}
        self._bounds: Bounds = timeline.bounds()

    @cached_property
    def newest(self) -> Pairs:
        """The newest group."""
        return pair([self._timeline.read(index)[0] for index in range(*self._timeline.newest_group)])

    def at(self, stop: int, room: Room, folded: Folded) -> Tail:
        """The tail from entry `stop` on: that which is shown, cut shorter, or where the room is another, a new one."""
        shown, timeline = self._shown, self._timeline
        same = shown.room == room
        tightest = room.squeeze >= MAX_SQUEEZE  # then ephemeral messages before the first group give way too
        fits = same and not folded and not room.is_bare and stop >= shown.start + tightest
        repeats_stop = len(timeline)
        if fits and not shown.binds(stop, self._bounds) and shown.joins(stop, timeline.runs(stop, repeats_stop)):
            return shown.cut_at(stop, self._bounds, repeats_stop=repeats_stop)
        since = len(timeline) - 1 if room.is_bare and folded else 0
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
            repeats_stop=repeats_stop,
        )
        tail.riders = self._passed_riders(stop, room) if tightest else 0
        feed(timeline, tail, room.tokens)
        tail.known = None
        return tail

    def _passed_riders(self, stop: int, room: Room) -> int:
        """How many ephemeral messages give way: those before its first group, or all but the newest message."""
        riders = self._timeline.riders
        if room.is_bare:
            return len(riders) - bool(riders and riders[-1][0] == len(self._timeline))
        return bisect_right(riders, stop, key=lambda rider: rider[0])


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
