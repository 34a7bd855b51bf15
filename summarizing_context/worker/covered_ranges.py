"""What views show of the past and will show next, and which summaries that takes: of merges, and of pieces.

In memory only; never waits. The next merge of a header is foreseen from what its segments take, so that no merge is
paid that no view shows. Pieces are covered groups that no whole covered segment stands for: those of the open segment,
and those of a closed one that a view covers in part. A view shows a model's summary of them where it is ready, and the
extractive pass's until then. Where messages are counted, pieces are summarized ahead of the view that needs them. Once
a view covers the whole segment, the segment's own summary takes the place of its pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from summarizing_context.log.entries import range_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import BEHIND, OPEN, HeaderNode, Node, NodeText, Want, cut_at

_AHEAD = 0.75  # of the target, from which on the next merge is made

FRAME = 20  # tokens of a block around its text


class HeaderPlace(NamedTuple):
    """What one view shows of the tree."""

    oldest: Node | None  # its first block; None where it shows none
    target: float  # tokens above which it merges more

    @property
    def merged(self) -> int:
        """Segments before those that stand by themselves."""
        if self.oldest is None:
            return 0
        return self.oldest.stop if self.oldest.width > 1 else self.oldest.start


def next_merge(
    place: HeaderPlace, tokens: Callable[[int], int | None], segments: int, merge: int, step: int
) -> Node | None:
    """The merge that will be shown when the header has outgrown its target; None while that is far.

    `tokens` tells those of a segment's summary; None while it is not ready, and then nothing is foreseen: what is asked
    of a model depends on the log alone, not on which summary is ready first. `merge` tells the tokens of a merge. Looks
    at no more segments than fill the target.
    """
    target, rest = place.target, 0.0
    before = merge + FRAME if place.merged else 0
    stops: dict[int, float] = {}
    for segment in range(segments - 1, place.merged - 1, -1):
        if before + rest > target:
            break
        if (segment + 1) % step == 0:
            stops[segment + 1] = rest
        if (size := tokens(segment)) is None:
            return None
        rest += size + FRAME
    if not stops or before + rest < _AHEAD * target:
        return None
    wanted = BEHIND * target - max(0.0, target - before - rest)  # what is still to come will stand behind it too
    return Node(0, min(stops, key=lambda stop: abs(stops[stop] - wanted)))


def merges_below(nodes: Iterable[Node]) -> Iterator[Sequence[Node]]:
    """These nodes with all merges that they are made of, rank by rank from the lowest."""
    by_rank: dict[int, dict[Node, None]] = {}
    left = [node for node in nodes if node.width > 1]
    while left:
        node = left.pop()
        by_rank.setdefault(node.rank, {})[node] = None
        left += [child for child in node.children if child.width > 1]
    for rank in sorted(by_rank):
        yield sorted(by_rank[rank])


def piece_shown(node: HeaderNode) -> range | None:
    """The piece that a block of a header stands for; None for any other block."""
    return range(node.start, node.stop) if (node.rank, node.form) == (-1, "full") else None


class CoveredRange(NamedTuple):
    """What a view shows of the past before entry `stop`."""

    stop: int
    nodes: tuple[HeaderNode, ...]


class Foreseen(NamedTuple):
    """What the next activation of a view may cover that the view does not cover yet."""

    segments: range = range(0)
    pieces: tuple[range, ...] = ()  # entries of a segment that it covers in part


class OpenRangeSummaries:
    """Model-made summaries of pieces, of one session.

    `every` is how many messages make a piece that is summarized ahead of need; None where messages are not counted.
    With `by_model` false nothing is ever wanted.
    """

    def __init__(self, log: MessageLog, *, by_model: bool, every: int | None = None) -> None:
        self._log = log
        self._by_model = by_model
        self._every = every
        self._views: tuple[CoveredRange, ...] = ()
        self._shown: tuple[range, ...] = ()
        self._requested: tuple[CoveredRange, ...] = ()
        self._foreseen: tuple[range, ...] = ()  # pieces
        self._ready: dict[str, NodeText] = {}  # by range hash
        self._hashes: dict[tuple[int, int], str] = {}
        self._known_to = (-1, -1)  # of which log, and of which open segment, the hashes are

    @property
    def goes_ahead(self) -> bool:
        """Whether pieces are summarized ahead of need."""
        return self._by_model and self._every is not None

    @property
    def may_foresee(self) -> bool:
        """Whether pieces are summarized that a view is foreseen to show; not where all are summarized ahead anyway."""
        return self._by_model and not self.goes_ahead

    def keep(self, views: Iterable[CoveredRange]) -> None:
        """This is what views show now. What was asked for or foreseen beside it is not any longer."""
        self._views, self._requested, self._foreseen = tuple(views), (), ()
        nodes = (node for view in self._views for node in view.nodes)
        self._shown = tuple(dict.fromkeys(piece for piece in map(piece_shown, nodes) if piece is not None))

    @property
    def is_requested(self) -> bool:
        """Whether summaries are wanted of what no view covers."""
        return bool(self._requested)

    def request(self, view: CoveredRange) -> None:
        """Have a model summarize what such a view would cover."""
        self._requested = (view,) if self._by_model else ()

    def foresee(self, pieces: tuple[range, ...]) -> None:
        """These pieces of the present log will be shown next."""
        self._foreseen = pieces

    def is_foreseen(self, pieces: tuple[range, ...]) -> bool:
        """Whether these were foreseen last."""
        return bool(pieces) and pieces == self._foreseen

    def ends(self) -> list[int]:
        """Where pieces end that were or are summarized ahead, behind those that views show: at the first group boundary
        after every so many messages. Those of the newest closed segment are among them, for they are ready sooner."""
        newest = [(segment.start, segment.stop) for segment in self._log.segments[-1:]]
        return [end for place in (*newest, self._open_segment) for end in self._ends_within(*place)]

    @property
    def _open_segment(self) -> tuple[int, int]:
        return self._log.covered_by_segments, self._log.closed_groups_stop

    def _ends_within(self, first: int, stop: int) -> list[int]:
        starts, found = self._log.group_starts, []
        at = max((piece.stop for piece in self._shown_within(first, stop)), default=first)
        while self.goes_ahead and self._every and at + self._every <= stop:
            next_group = bisect_left(starts, at + self._every)
            at = min(starts[next_group], stop) if next_group < len(starts) else stop
            found.append(at)
        return found

    def _shown_within(self, first: int, stop: int) -> list[range]:
        return [piece for piece in self._shown if first <= piece.start and piece.stop <= stop]

    def pieces(self, start: int, stop: int, shown: Iterable[HeaderNode]) -> list[range]:
        """The pieces of a covered part of a segment: those of the present header's nodes and those that were asked for,
        or are summarized ahead, stay apart, for their summaries are there or on their way."""
        if start >= stop or not self._by_model:
            return [range(start, stop)] if start < stop else []
        nodes = [*shown, *(node for view in self._requested for node in view.nodes)]
        ends = {piece.stop for piece in map(piece_shown, nodes) if piece is not None and piece.start >= start}
        foreseen = {piece.stop for piece in self._foreseen}
        within = sorted(end for end in {start, stop, *ends, *foreseen, *self.ends()} if start <= end <= stop)
        return [range(first, end) for first, end in pairwise(within)]

    def text_of(self, piece: range) -> NodeText | None:
        """The model's summary of a piece, if it is ready."""
        return self._ready.get(self.hash_of(piece)) if self._by_model else None

    def made_of(self, hash: str) -> NodeText | None:
        """The model's summary of the messages of a hash, also where no view shows it any longer."""
        return self._ready.get(hash)

    def wanted(self) -> list[Want]:
        """What a model has still to summarize: pieces that a view shows first, then those it will need."""
        if not self._by_model:
            return []
        within, stops = self._shown_within(*self._open_segment), self._ends_within(*self._open_segment)
        first = max((piece.stop for piece in within), default=self._log.covered_by_segments)
        ahead = [range(start, stop) for start, stop in pairwise([first, *stops])]
        shown = [piece for view in (*self._views, *self._requested) for piece in self._left_of(view)]
        hashes = dict.fromkeys(map(self.hash_of, (*shown, *self._foreseen, *ahead)))
        return [Want(OPEN, hash) for hash in hashes if hash not in self._ready]

    def _left_of(self, view: CoveredRange) -> list[range]:
        """The pieces that a view would show now: of what it shows by pieces, all that stands in no segment which it
        covers whole."""
        shown = [piece for piece in map(piece_shown, view.nodes) if piece is not None]
        if not shown:
            return []
        whole = cut_at(self._log.segments, view.stop).leaves_stop
        pieces = self.pieces(max(whole, self._log.leading_count), view.stop, view.nodes)
        return [piece for piece in pieces if any(piece.start < one.stop and one.start < piece.stop for one in shown)]

    def piece_of(self, hash: str) -> range | None:
        """The piece of a wanted hash; None where it is not wanted any longer."""
        if all(want.hash != hash for want in self.wanted()):
            return None
        return next(range(*place) for place, known in self._hashes.items() if known == hash)

    @property
    def ready_stop(self) -> int:
        """The entry up to which pieces of the present log are summarized by a model; 0 for none."""
        self._forget_other_log()
        return max((stop for (_, stop), hash in self._hashes.items() if hash in self._ready), default=0)

    def add(self, hash: str, text: NodeText) -> None:
        """A model has summarized a piece, or its summary was found. The first stays."""
        self._ready.setdefault(hash, text)

    def hash_of(self, piece: range) -> str:
        """The range hash of a piece: that of a segment of the same messages."""
        self._forget_other_log()
        place = (piece.start, piece.stop)
        if (known := self._hashes.get(place)) is None:
            digests = (entry.digest for entry in self._log.entries[piece.start : piece.stop])
            known = self._hashes[place] = range_hash(digests)
        return known

    def _forget_other_log(self) -> None:
        log = (self._log.version, self._log.covered_by_segments)
        if log != self._known_to:
            self._known_to, self._hashes = log, {}
