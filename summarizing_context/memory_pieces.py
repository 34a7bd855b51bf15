"""Which pieces of a log are still to be read for memories, and which were.

In memory only. A segment is read once its summary is there, the open one as far as its pieces are summarized; what a
checkpoint or leaving asks for is read up to where the log stood. What a segment was read up to is known by a mark, the
hash of its beginning, so that nothing is read twice after a restart, in a fork, or when the rest of a segment comes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from summarizing_context.core.cutting import cut_results
from summarizing_context.core.keys import prefix_hashes, range_hash
from summarizing_context.core.redaction import Redact
from summarizing_context.core.segments import Segment
from summarizing_context.core.sources import Sources
from summarizing_context.timeline import Timeline


class Piece(NamedTuple):
    """What is read in one go: entries `start` up to `stop`, or a part of one large group."""

    leaf: int  # segment that it is in; one past the last for what is in none yet
    start: int
    stop: int
    hash: str  # names what is read
    mark: str  # names what of the segment has been read then


class MemoryPieces:
    """The pieces of one session's log. `is_summarized` tells it of a leaf, `open_stop` up to which entry a model has
    summarized the open segment."""

    def __init__(
        self,
        timeline: Timeline,
        is_summarized: Callable[[int], bool],
        open_stop: Callable[[], int],
        redact: Redact | None = None,
    ) -> None:
        self._timeline = timeline
        self._open_stop = open_stop
        self._redact = redact
        self._is_summarized = is_summarized
        self.reset()

    def reset(self) -> None:
        """The log was replaced."""
        self._stops: dict[int, int] = {}  # by leaf: the entry up to which it was read
        self._begun: dict[int, Piece] = {}  # by leaf: what is to be read next, until it is
        self._first = 0  # leaves before it were read
        self._asked = 0  # entries before it are to be read now
        self._sources = Sources(self._redact, numbered=True)

    def ask(self) -> None:
        """All that stands in closed groups is to be read."""
        self._asked = self._timeline.closed_groups_stop

    def wanted(self) -> Iterator[Piece]:
        """What is to be read now, oldest first."""
        segments = self._timeline.segments
        while self._first < len(segments) and self._stops.get(self._first) == segments[self._first].stop:
            self._stops.pop(self._first)
            self._first += 1
        for leaf in range(self._first, len(segments) + 1):
            if leaf not in self._begun and (piece := self._next(leaf)) is not None:
                self._begun[leaf] = piece
            if leaf in self._begun:
                yield self._begun[leaf]

    def note(self, piece: Piece) -> None:
        """A piece was read."""
        if self._begun.pop(piece.leaf, None) is not None:
            self._stops[piece.leaf] = piece.stop

    def holds(self, piece: Piece) -> bool:
        """Whether the piece stands where it stood: the log may have been replaced meanwhile."""
        return self._begun.get(piece.leaf) == piece

    def marks(self, leaves: Iterable[int]) -> dict[str, tuple[int, int]]:
        """For every mark that these leaves may have: the leaf, and the entry up to which it then was read."""
        known: dict[str, tuple[int, int]] = {}
        for leaf in leaves:
            segment = self._segment(leaf)
            if segment.parts > 1:
                known[self._timeline.hashes[leaf]] = leaf, segment.stop
                continue
            ends = self._group_ends(segment)
            digests = [entry.digest for entry in self._timeline.entries[segment.start : segment.stop]]
            hashes = list(prefix_hashes(digests))
            known.update((hashes[end - segment.start - 1], (leaf, end)) for end in ends)
        return known

    def take(self, marks: Iterable[tuple[int, int]]) -> None:
        """So far these leaves were read, by this process or by an earlier one."""
        for leaf, stop in marks:
            self._stops[leaf] = max(stop, self._stops.get(leaf, 0))

    @property
    def leaves(self) -> int:
        """How many leaves there are, what is in no segment yet included."""
        return len(self._timeline.segments) + 1

    def source(self, piece: Piece) -> Callable[[], str]:
        """What gives the text of a piece, its messages with their numbers in it, in any thread."""
        segment = self._segment(piece.leaf)
        first_part = piece.leaf - segment.part
        group = self._timeline.hashes[first_part] if segment.parts > 1 else ""
        return self._sources.source(segment, group, self._timeline.entries[piece.start : piece.stop])

    def _next(self, leaf: int) -> Piece | None:
        segment = self._segment(leaf)
        start = self._stops.get(leaf, segment.start)
        is_closed = leaf < len(self._timeline.segments)
        whole = is_closed and (segment.stop <= self._asked or self._is_summarized(leaf))
        asked = start if is_closed else min(segment.stop, max(self._asked, self._open_stop()))
        stop = segment.stop if whole else asked
        if stop <= start:
            return None
        if is_closed and start == segment.start:
            return Piece(leaf, start, stop, self._timeline.hashes[leaf], self._timeline.hashes[leaf])
        digests = [entry.digest for entry in self._timeline.entries[segment.start : stop]]
        return Piece(leaf, start, stop, range_hash(digests[start - segment.start :]), range_hash(digests))

    def _segment(self, leaf: int) -> Segment:
        """A leaf; the last is what is in no segment yet."""
        timeline = self._timeline
        if leaf < len(timeline.segments):
            return timeline.segments[leaf]
        return Segment(timeline.covered_by_segments, timeline.closed_groups_stop, 0)

    def _group_ends(self, segment: Segment) -> list[int]:
        """Where the groups of a segment end."""
        starts = self._timeline.group_starts
        first, last = bisect_left(starts, segment.start), bisect_left(starts, segment.stop)
        return [*islice(starts, first + 1, last), segment.stop] if first < last else []


def shortened(content: str) -> str:
    """A content without the middles of its long results: what lasts is seldom in them."""
    cut = cut_results(content)
    return cut.join([()] * len(cut.left_out))
