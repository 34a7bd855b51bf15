"""Cuts: where a view may begin its raw tail.

Pure. Which of them is taken is decided in `planner`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import Cut, cut_at
from summarizing_context.views.budget import Room
from summarizing_context.views.tail import Tail


def cuts_to_low_water(tail: Tail, room: Room, present: Cut, segments: Sequence[Segment], keep: int = 0) -> list[Cut]:
    """Where the tail may be cut, best first: at the segment boundary nearest to the low water, then at the group
    boundary nearest to it. Never below half the low water; not below `keep` messages where that can be met."""
    found: list[Cut] = []
    ends = [segment.stop for segment in segments[present.leaves :] if segment.last_part]
    leaf = _nearest(tail, room, [stop for stop in ends if tail.start <= stop <= tail.marks[-1].stop], keep)
    if leaf is not None:
        found.append(cut_at(segments, leaf))
    stops = [mark.stop for mark in tail.marks if mark.stop > (leaf or present.stop)]
    group = _nearest(tail, room, stops, keep)
    if group is not None:
        found.append(cut_at(segments, group))
    return found


def cuts_leaving(
    tail: Tail, present: Cut, segments: Sequence[Segment], messages: int, ends: Container[int] | None = None
) -> list[Cut]:
    """The cut that leaves about `messages` messages, and no fewer if a group boundary allows. Where `ends` are given
    it is one of these."""
    stops = [mark.stop for mark in tail.marks if mark.stop > present.stop and (ends is None or mark.stop in ends)]
    enough = [stop for stop in stops if _messages_after(tail, stop) >= messages]
    return [cut_at(segments, enough[-1])] if enough else []


def last_cuts(tail: Tail, present: Cut, segments: Sequence[Segment]) -> list[Cut]:
    """Cuts for a view that fits no other way: before the newest closed group, then behind it."""
    stops = [mark.stop for mark in tail.marks[-2:] if mark.stop > present.stop]
    return [cut_at(segments, stop) for stop in stops]


def _nearest(tail: Tail, room: Room, stops: Sequence[int], keep: int) -> int | None:
    """The stop that leaves about the low water, of those that leave at least half of it."""
    low = room.low
    fair = [stop for stop in stops if tail.after(stop) >= low / 2]
    kept = [stop for stop in fair if _messages_after(tail, stop) >= keep] if keep else fair
    return min(kept or fair, key=lambda stop: abs(tail.after(stop) - low), default=None)


def _messages_after(tail: Tail, stop: int) -> int:
    return tail.marks[-1].items - tail.mark(stop).items
