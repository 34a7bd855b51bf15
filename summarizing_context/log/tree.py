"""Segments, the tree of their summaries, and where a view cuts the log.

Pure. Segments are runs of whole closed groups that are summarized as one. Content alone decides, looking back only
(content-defined chunking): a longer log begins with the same segments, and after an edit the cuts fall back into step
within a few. Sizes are the built-in estimate, so that cuts are equal whatever counter a session uses.

A header shows the past in less and less detail: the newest segments each by itself, older ones in merges of four, and
one wide merge of all before. Each merge of four is made once; the wide one reads those, and larger blocks of the deep
past. A fact passes through at most floor(log4 segments) + 1 summarizations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal, NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import Reading, encodable
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.rendering import THOUGHT_ONLY, cut_evenly, render_messages


class Segment(NamedTuple):
    """A leaf of the tree: entries `start` up to `stop`, or one of several `parts` of a group too large for one."""

    start: int
    stop: int
    size: int  # estimated tokens, of the whole range
    part: int = 0
    parts: int = 1
    is_early: bool = False  # a view, or a number of messages, has ended it before it was full


@dataclass(eq=False)
class Sources:
    """Writes a session's entries down for a summarizer, in the process, or, with `redact`, outside of it."""

    redact: Redact | None = None
    _: KW_ONLY
    numbered: bool = False
    thinking: bool = False  # with what the agent thought
    yield_now: YieldNow = never_yield  # called all along by a thread that writes
    _pieces: tuple[str, Sequence[str]] = ("", ())  # of the large group that was read last, with its name

    def source(self, segment: Segment, group: str, entries: Sequence[Entry]) -> Callable[[], str]:
        """Return what gives the text of a segment, in any thread; `group` names what its entries say, and the parts."""

        def text() -> str:
            if segment.parts == 1:
                return self.render(entries)
            known, pieces = self._pieces
            if known != group:
                pieces = cut_evenly(self.render(entries), segment.parts, self.yield_now)
                self._pieces = group, pieces
            return pieces[segment.part] or THOUGHT_ONLY  # a large group may be thinking for the most part

        return text

    def render(self, entries: Sequence[Entry]) -> str:
        """Return entries, written down. `redact` reads each message as a whole before, and all of them as written."""
        redact, readings = self.redact, list[Reading]()
        for entry in entries:
            self.yield_now(len(entry.data))
            read = entry.read(0)
            readings.append(read.reading if redact is None else redact_reading(read.message, read.reading, redact))
        how: dict[str, Any] = {"numbered": self.numbered, "thinking": self.thinking, "yield_now": self.yield_now}
        text: str = encodable(render_messages(readings, **how))
        return text if redact is None else redact(text)


FOUR = 4  # segments of the smallest merge
BLOCKS = (FOUR, *(FOUR**power for power in range(3, 10)))  # segments of a block: 4, 64, 256, 1,024 and so on
BEHIND = 0.3  # of a header's target: about what the leaves behind a new merge take
MERGED = 0.6  # of a header's target, that merges take before the wide one moves on
FRAME = 20  # tokens of a block around its text


class Node(NamedTuple):
    """One place in the tree: the segments from `start` up to `stop`. One segment is a leaf; a block has 4, 64, 256 or
    more of them and begins at a multiple of its size; any other node is a wide merge."""

    start: int
    stop: int

    @classmethod
    def leaves(cls, start: int, stop: int) -> list[Node]:
        return [cls(segment, segment + 1) for segment in range(start, stop)]

    @property
    def width(self) -> int:
        return self.stop - self.start

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes that it merges, oldest first: leaves where fewer than 16, else the largest blocks that fit."""
        sizes, found, at = BLOCKS if self.width >= FOUR**2 else (), list[Node](), self.start
        while at < self.stop and self.width > 1:
            fitting = [size for size in sizes if at % size == 0 and at + size <= self.stop and size != self.width]
            found.append(Node(at, at + max(fitting, default=1)))
            at = found[-1].stop
        return tuple(found)


@lru_cache(4_096)
def rank_of(node: Node) -> int:
    """0 for a leaf, one more than its largest child's for a merge."""
    return 0 if node.width == 1 else 1 + rank_of(max(node.children, key=lambda child: child.width))


def merge_share(node: Node) -> float:
    """The part of its source that a merge may take: more where that is merged already, or of few segments."""
    return 0.35 if rank_of(node) == 1 and node.width >= FOUR else 0.75


class Want(NamedTuple):
    """A summary that is missing."""

    node: Node
    hash: str


def by_four(rests: dict[int, float], target: float) -> dict[int, float]:
    """Those places that are multiples of four; all where these leave too little behind the merges, or too much."""
    fours = {stop: rest for stop, rest in rests.items() if stop % FOUR == 0}
    return fours if any(0 < rest <= 2 * BEHIND * target for rest in fours.values()) else rests


class HeaderPlace(NamedTuple):
    """What one view shows of the tree."""

    merges: tuple[Node, ...]  # oldest first
    start: int  # of the first segment that stands by itself
    target: float  # tokens above which it merges more


def next_merges(place: HeaderPlace, tokens: Callable[[Node], int | None], segments: int) -> list[Node]:
    """The merges that will be shown when the header has outgrown its target; none while that is far. `tokens` tells
    those of a summary; None while it is not ready. Before all segments that may fill the target have one, nothing is
    foreseen: what is asked of a model depends on the log alone, not on which summary is ready first."""
    merges, start, target = place
    before = sum((tokens(node) or 0) + FRAME for node in merges)
    rests, rest = dict[int, float](), 0.0
    for segment in range(segments - 1, start - 1, -1):
        if before + rest > target:
            break
        rests[segment + 1] = rest
        if (size := tokens(Node(segment, segment + 1))) is None:
            return []
        rest += size + FRAME
    if before + rest <= target and merges:
        rests[start] = rest
    stops = by_four(rests, target)
    if not stops or before + rest < 0.75 * target:  # of the target, from which on the next merge is made
        return []
    wanted = BEHIND * target - max(0.0, target - before - rest)  # what is still to come will stand behind it too
    stop = min(stops, key=lambda stop: abs(stops[stop] - wanted))
    if stop % FOUR or start % FOUR:
        return [Node(0, stop)]
    small = [Node(at, at + FOUR) for at in range(start, stop, FOUR)]
    sizes = [size + FRAME for node in small if (size := tokens(node)) is not None]
    return [Node(0, stop)] if len(sizes) == len(small) and before + sum(sizes) > MERGED * target else small


def merges_below(nodes: Iterable[Node]) -> Iterator[Sequence[Node]]:
    """These nodes with all merges that they are made of, rank by rank from the lowest."""
    found, left = set[Node](), list(nodes)
    while left:
        if (node := left.pop()).width > 1 and node not in found:
            found.add(node)
            left += node.children
    for _, merges in groupby(sorted(found, key=lambda node: (rank_of(node), node)), rank_of):
        yield list(merges)


Maker = Literal["model", "extractive", "verbatim", "stand-in", "provisional", "provider", "none"]


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
    form: Literal["full", "brief", "line", "note"]
    made_by: Maker
    passes: int
    text: str  # as shown
    tokens: int = 0  # of its block
    segments: int = 0  # that it stands for; 0 outside the tree

    @property
    def name(self) -> str:
        """As its fence names it: its first and its last message."""
        return f"{self.start}-{self.stop - 1}"

    @property
    def node(self) -> Node | None:
        """Its place in the tree; None outside of it."""
        return Node(self.number, self.number + self.segments) if self.rank >= 0 else None


def stand_ins(nodes: Iterable[HeaderNode], but: Sequence[HeaderNode] = ()) -> int:
    """How many blocks, of those not among `but`, the extractive pass made until a summary takes their place."""
    return sum(node.made_by in ("stand-in", "provisional") and node not in but for node in nodes)


def notes(nodes: Iterable[HeaderNode]) -> list[str]:
    return [node.text for node in nodes if node.form == "note"]


class Cut(NamedTuple):
    """How far a view covers the log."""

    leaves: int  # segments
    leaves_stop: int  # entries in them
    stop: int  # entries; those after `leaves_stop` stand in the open segment


def cut_at(segments: Sequence[Segment], stop: int) -> Cut:
    """The cut at `stop`, with as many whole segments as stand before it."""
    leaves = bisect_right(segments, stop, key=lambda segment: segment.stop)
    while leaves and segments[leaves - 1].part + 1 < segments[leaves - 1].parts:  # it is covered with all parts
        leaves -= 1
    return Cut(leaves, segments[leaves - 1].stop if leaves else 0, stop)
