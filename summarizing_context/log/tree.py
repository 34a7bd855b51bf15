"""The tree of summaries: aligned blocks of four, their nodes, and where a view cuts the log.

Pure. A rank r node i stands for the segments i*4^r up to (i+1)*4^r, so a fact passes through at most
floor(log4 segments) + 1 summarizations. Merging neighbours of equal rank, oldest first, is the balanced merge
that kept most facts in "Lost in Compaction" (FrozenRanked).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from summarizing_context.log.segments import Segment

FAN_OUT = 4


class Node(NamedTuple):
    """One place in the tree: rank 0 is a segment's summary, rank n+1 a rollup of four rank-n nodes."""

    rank: int
    number: int

    @property
    def leaves(self) -> range:
        """Indexes of the segments that it stands for."""
        width = FAN_OUT**self.rank
        return range(self.number * width, (self.number + 1) * width)

    @property
    def children(self) -> tuple[Node, ...]:
        """The four nodes that it rolls up; none for a segment's summary."""
        if self.rank <= 0:
            return ()
        return tuple(Node(self.rank - 1, self.number * FAN_OUT + n) for n in range(FAN_OUT))

    @property
    def parent(self) -> Node:
        """The rollup that takes it in."""
        return Node(self.rank + 1, self.number // FAN_OUT)


NOTE = Node(-1, 0)  # a note about a topic; it stands outside the tree

OPEN = Node(-2, 0)  # a piece of the open segment; likewise


def roll_up(nodes: Sequence[Node], tokens: Callable[[Node], int], target: float) -> list[Node]:
    """The nodes of a header brought under `target` tokens: the oldest complete block of four is replaced by its
    rollup, again and again, in one batch down to three quarters of the target. Unchanged while under target."""
    shown = list(nodes)
    total = sum(map(tokens, shown))
    if total <= target:
        return shown
    at = 0
    while total > 0.75 * target and at + FAN_OUT <= len(shown):
        if not _is_block(shown, at):
            at += 1
            continue
        parent = shown[at].parent
        total += tokens(parent) - sum(map(tokens, shown[at : at + FAN_OUT]))
        shown[at : at + FAN_OUT] = [parent]
        at = max(0, at - FAN_OUT + 1)
    return shown


def _is_block(shown: Sequence[Node], at: int) -> bool:
    first = shown[at]
    return first.number % FAN_OUT == 0 and all(
        shown[at + n] == (first.rank, first.number + n) for n in range(1, FAN_OUT)
    )


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
    number: int
    start: int  # first log entry
    stop: int
    form: Form
    made_by: Maker
    passes: int
    text: str  # as shown
    tokens: int = 0  # of its block
    drops: tuple[str, ...] = ()  # exact values of its source that it does not hold; told by `explain`

    @property
    def name(self) -> str:
        """As its fence names it: its first and its last message."""
        return f"{self.start}-{self.stop - 1}"


def stand_ins(nodes: Iterable[HeaderNode]) -> int:
    """How many blocks the extractive pass has made until a summary takes their place."""
    return sum(node.made_by in ("stand-in", "provisional") for node in nodes)


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
