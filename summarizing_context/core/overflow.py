"""Overflow: the ladder by which a view that does not fit its budget is brought into it.

Pure. When a view that fits activates is decided in `activation`; how messages shrink, in `shrinking` and `folding`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from summarizing_context.core.activation import Build, Cut, Proposal, cut_at
from summarizing_context.core.budget import MAX_SQUEEZE, Room
from summarizing_context.core.folding import Calls
from summarizing_context.core.segments import Segment
from summarizing_context.core.tail import Tail

_FOLD_SQUEEZE = 2  # what is not folded stays readable where that can be


class Newest(NamedTuple):
    """The newest group, and the cut that leaves nothing else."""

    cut: Cut
    calls: Calls
    is_open: bool


def last_cuts(tail: Tail, present: Cut, segments: Sequence[Segment]) -> list[Cut]:
    """Cuts for a view that fits no other way: before the newest closed group, then behind it."""
    stops = [mark.stop for mark in tail.marks[-2:] if mark.stop > present.stop]
    return [cut_at(segments, stop) for stop in stops]


def fit(room: Room, found: Sequence[Cut], last: Sequence[Cut], newest: Newest | None, build: Build) -> Proposal | None:
    """The gentlest proposal that brings an overflowing view well into its room, or else the smallest that fits.

    With every squeeze the `found` cuts are tried, then the one that leaves the newest closed group, then the one that
    leaves only the open group; then calls of the newest group are folded. The last resort is to show none of it.
    """
    goal, best = room.high - room.min_free, None
    gentle, bare = _squeezed(room, [*found, *last[:-1]], build), _squeezed(room, last[-1:], build)
    rungs, resort = [gentle], bare
    if newest is not None:
        rungs += [bare, _folded(room, newest, build)] if newest.is_open else [_folded(room, newest, build)]
        resort = _hidden(room, newest, build) if newest.is_open else bare
    for rung in rungs:
        for proposal in rung:
            if proposal.tokens <= goal:
                return proposal
            if proposal.tokens <= room.tokens and (best is None or proposal.tokens < best.tokens):
                best = proposal
        if best is not None and best.tokens <= room.tokens - room.min_free:
            return best
    return best or next((proposal for proposal in resort if proposal.tokens <= room.tokens), None)


def _squeezed(room: Room, found: Sequence[Cut], build: Build) -> Iterator[Proposal]:
    for squeeze in range(MAX_SQUEEZE + 1):
        for cut in found:
            yield build(cut, room._replace(squeeze=squeeze))


def _folded(room: Room, newest: Newest, build: Build) -> Iterator[Proposal]:
    """As few calls folded as bring the view well into its room, or else all that are answered; those answered first
    go first."""
    goal, counts = room.high - room.min_free, range(1, len(newest.calls.answered) + 1)

    def folding(count: int, squeeze: int) -> Proposal:
        return build(newest.cut, room._replace(squeeze=squeeze), newest.calls.oldest(count))

    for squeeze in range(_FOLD_SQUEEZE, MAX_SQUEEZE + 1) if counts else ():
        fewest = bisect_left(counts, True, key=lambda count: folding(count, squeeze).tokens <= goal)
        yield folding(min(fewest + 1, len(counts)), squeeze)


def _hidden(room: Room, newest: Newest, build: Build) -> Iterator[Proposal]:
    """Every call folded, those in flight too; what answers them later is folded with them."""
    yield build(newest.cut, room._replace(squeeze=MAX_SQUEEZE), newest.calls.all)
