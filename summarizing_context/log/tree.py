"""The tree of summaries: segments, blocks of sixteen, wide merges, and where a view cuts the log.

Pure. A header shows one wide merge of all old segments, and the summaries of the newer ones behind it. Measured on
real models: such a header keeps what narrow merges of four lose. A fact passes through at most
floor(log16 segments) + 2 summarizations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Literal, NamedTuple

from summarizing_context.log.segments import Segment

FAN_IN = 16

LEAST_STEP = 4  # segments; a merge of fewer is not worth a call

BEHIND = 0.3  # of a header's target: about what the leaves behind a new merge take

_FIRST_FAN_IN = 4  # of the first release


class Node(NamedTuple):
    """One place in the tree: the segments from `start` up to, not including, `stop`.

    One segment is a leaf. Sixteen leaves from a multiple of 16 on are a block, sixteen such blocks from a multiple of
    256 on are one again, and so on. Any other node is a wide merge.
    """

    start: int
    stop: int

    @classmethod
    def leaf(cls, segment: int) -> Node:
        """The place of one segment's summary."""
        return cls(segment, segment + 1)

    @property
    def leaves(self) -> range:
        """Indexes of the segments that it stands for."""
        return range(self.start, self.stop)

    @property
    def width(self) -> int:
        """How many segments it stands for."""
        return self.stop - self.start

    @property
    def rank(self) -> int:
        """0 for a leaf, n for a block of 16^n, one more than its largest child's for a wide merge; -1 outside."""
        size, rank = 1, 0 if self.width else -1
        while size < self.width:
            size, rank = size * FAN_IN, rank + 1
        is_whole = size == self.width and self.start % size == 0
        return rank if is_whole or rank < 0 else 1 + max(child.rank for child in self.children)

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes that it merges, oldest first: the sixteen parts of a block, else the largest blocks that fit."""
        if self.width <= 1:
            return ()
        found, at = list[Node](), self.start
        while at < self.stop:
            size = 1
            while at % (size * FAN_IN) == 0 and size * FAN_IN <= min(self.stop - at, self.width - 1):
                size *= FAN_IN
            found.append(Node(at, at + size))
            at += size
        return tuple(found)


def blocks_ending_at(stop: int) -> list[Node]:
    """The blocks whose last segment is the one before `stop`, the smallest first."""
    found, size = list[Node](), FAN_IN
    while stop and stop % size == 0:
        found.append(Node(stop - size, stop))
        size *= FAN_IN
    return found


NOTE = Node(-1, -1)  # a note about a topic; it stands outside the tree


class Want(NamedTuple):
    """A summary that is missing."""

    node: Node
    hash: str


class MergeRule(NamedTuple):
    """When the oldest part of a header is merged. Tokens are those of its blocks."""

    target: float  # tokens; above, more is merged
    most: float  # tokens that it may take as long as no merge is ready
    step: int  # merges end at multiples of so many segments


def merge_oldest(
    shown: Sequence[Node], tokens: Callable[[Node], int], is_ready: Callable[[Node], bool], rule: MergeRule
) -> list[Node]:
    """The nodes of a header, with the oldest replaced by one wide merge where they exceed the target.

    As many leaves stay behind the merge as come nearest to `BEHIND` of the target. While no merge is ready, the header
    may grow up to `most`; beyond that the nearest merge is taken, even as an extract.
    """
    total, rests = 0.0, _rests(shown, tokens, rule)
    for node in reversed(shown):
        total += tokens(node)
        if total > max(rule.target, rule.most):  # the newest alone are too many: old ones are not looked at
            total = inf
            break
    if total <= rule.target or not rests:
        return list(shown)

    def merged(stop: int) -> float:
        return tokens(Node(0, stop)) + rests[stop]

    nearest = sorted(rests, key=lambda stop: abs(rests[stop] - BEHIND * rule.target))
    ready = [stop for stop in nearest if is_ready(Node(0, stop))]
    found = next((stop for stop in ready if merged(stop) <= rule.target), None)
    if found is None and total <= rule.most:
        return list(shown)
    if found is None:
        found = next((stop for stop in ready if merged(stop) <= rule.most), None)
    if found is None:
        found = next((stop for stop in nearest if merged(stop) <= rule.target), None)
    if found is None:
        found = min(nearest, key=merged)
        if merged(found) >= total:
            return list(shown)
    return [Node(0, found), *(node for node in shown if node.start >= found)]


def _rests(shown: Sequence[Node], tokens: Callable[[Node], int], rule: MergeRule) -> dict[int, float]:
    """Where a wide merge may end, each with the tokens of the leaves behind it: at multiples of the step, or of the
    least step, that leave no more than the target; where these leave none, anywhere."""
    leaves = [node for node in shown if node.width == 1]
    rests, rest = dict[int, float](), 0.0
    for leaf in reversed(leaves):
        if rest > rule.target:
            break
        rests[leaf.stop] = rest
        rest += tokens(leaf)
    return _stepped(rests, rule.step, rule.target) or ({leaves[-1].stop: 0.0} if leaves else {})


def _stepped(rests: dict[int, float], step: int, target: float) -> dict[int, float]:
    """Those of the places that are multiples of the step, or of the least step; all where these leave too little behind
    the merge, or too much."""
    for each in (step, LEAST_STEP):
        found = {stop: rest for stop, rest in rests.items() if stop % each == 0}
        if any(0 < rest <= 2 * BEHIND * target for rest in found.values()):
            return found
    return rests


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
    rests: dict[int, float] = {}
    for segment in range(segments - 1, place.merged - 1, -1):
        if before + rest > target:
            break
        rests[segment + 1] = rest
        if (size := tokens(segment)) is None:
            return None
        rest += size + FRAME
    stops = _stepped(rests, step, target)
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


Form = Literal["full", "brief", "line", "note"]

Maker = Literal["model", "extractive", "verbatim", "stand-in", "provisional", "none"]


class NodeText(NamedTuple):
    """What stands for a node, who made it, and through how many summarizations its oldest fact went."""

    text: str
    made_by: Maker
    passes: int


class HeaderNode(NamedTuple):
    """One block of a header."""

    rank: int  # -1 for a line, a note or a provisional node, which stand outside the tree
    number: int  # of its first segment
    start: int  # first log entry
    stop: int
    form: Form
    made_by: Maker
    passes: int
    text: str  # as shown
    tokens: int = 0  # of its block
    drops: tuple[str, ...] = ()  # exact values of its source that it does not hold; told by `explain`
    segments: int = 0  # that it stands for; 0 outside the tree, and in what the first release has stored

    @property
    def name(self) -> str:
        """As its fence names it: its first and its last message."""
        return f"{self.start}-{self.stop - 1}"

    @property
    def node(self) -> Node | None:
        """Its place in the tree; None outside of it."""
        if self.rank < 0:
            return None
        if self.segments:
            return Node(self.number, self.number + self.segments)
        width = _FIRST_FAN_IN**self.rank
        return Node(self.number * width, (self.number + 1) * width)


def stand_ins(nodes: Iterable[HeaderNode], but: Sequence[HeaderNode] = ()) -> int:
    """How many blocks, of those that are not among others, the extractive pass made until a summary takes their
    place."""
    return sum(node.made_by in ("stand-in", "provisional") and node not in but for node in nodes)


def notes(nodes: Iterable[HeaderNode]) -> list[str]:
    """What the notes among the blocks say."""
    return [node.text for node in nodes if node.form == "note"]


class Cut(NamedTuple):
    """How far a view covers the log."""

    leaves: int  # segments
    leaves_stop: int  # entries in them
    stop: int  # entries; those after `leaves_stop` stand in the open segment


def cut_at(segments: Sequence[Segment], stop: int) -> Cut:
    """The cut at `stop`, with as many whole segments as stand before it."""
    leaves = bisect_right(segments, stop, key=lambda segment: segment.stop)
    while leaves and not segments[leaves - 1].last_part:
        leaves -= 1
    return Cut(leaves, segments[leaves - 1].stop if leaves else 0, stop)
