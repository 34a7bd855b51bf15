"""Foresight: what the next activation will cover, told a little before it is due, so that its summaries are there.

Pure. Where whole segments do not free enough, an activation covers a part of one. That part ends where it was foreseen:
the log, the view and the settings alone say where, whatever has been summarized by then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import Cut, cut_at
from summarizing_context.views.budget import Thresholds
from summarizing_context.views.tail import Tail
from summarizing_context.views.view import ActivationState
from summarizing_context.worker.covered_ranges import piece_shown

_AHEAD = 1.25  # times `low_water` below `high_water`, from where on a cut inside a segment is foreseen


def foreseen_cut(
    state: ActivationState,
    tail: Tail,
    thresholds: Thresholds,
    segments: Sequence[Segment],
    summary_tokens: Callable[[int | None], int],
) -> Cut | None:
    """Where the next activation will cut inside a segment: at the last end of a group that the view had room for, a
    little below its high water. None while it is not so near, and where whole segments free enough.

    Args:
        state: of the view.
        tail: the view's, with all that it shows.
        thresholds: of the room of the view.
        segments: of the log.
        summary_tokens: what the summary of a segment takes, about; for None that of a part.
    """
    room, head = thresholds.room, state.head_tokens
    before = thresholds.high(head) - _AHEAD * room.low - head
    if tail.start != state.stop or tail.tokens <= before:
        return None
    at = bisect_right(tail.marks, before + tail.marks[0].tokens, key=lambda mark: mark.tokens) - 1
    stop = tail.marks[max(0, at)].stop
    cut = cut_at(segments, stop)
    replaced = sum(node.tokens for node in state.nodes if piece_shown(node) is not None)
    added = sum(map(summary_tokens, range(state.leaves, cut.leaves)))
    whole = 0
    if cut.leaves_stop > state.stop:
        whole, added = tail.tokens - tail.after(cut.leaves_stop) - added + replaced, added - replaced
    freed = tail.tokens - tail.after(stop) - added - summary_tokens(None)
    is_partial = stop > max(cut.leaves_stop, state.stop)
    return cut if is_partial and whole < room.min_free <= freed else None
