"""Planning: which summaries are still to be made, oldest first, and merges only that a view shows or will need.

Pure but for a pointer that only moves forward, so that planning costs what is missing, not what the log holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from summarizing_context.log.tree import FAN_IN, Node, Want, blocks_ending_at
from summarizing_context.worker.summary_cache import SummaryCache


class Planner:
    """Finds missing summaries. `reset` it when the log is replaced. With `blocks` every whole block is merged ahead:
    where merges cost no money, none is left to the view that needs it."""

    def __init__(self, summaries: SummaryCache, *, rollups: bool = True, blocks: bool = False) -> None:
        self._summaries = summaries
        self._rollups = rollups
        self._has_blocks = rollups and blocks
        self.reset()

    def reset(self) -> None:
        self._leaves, self._blocks = _Leaves(), _Leaves()

    def merges(self, segments: int) -> list[Node]:
        """Every merge that views may need, ready or not."""
        blocks = range(FAN_IN, segments + 1, FAN_IN) if self._has_blocks else ()
        needed = self._summaries.needed_merges() if self._rollups else ()
        return [*needed, *(block for stop in blocks for block in blocks_ending_at(stop))]

    def plan(self, segments: int, is_busy: Callable[[str], bool], limit: int) -> list[Want]:
        """At most `limit` wants whose hash is not busy, each hash once."""
        wants: dict[str, Want] = {}
        for want in self._missing(segments):
            if len(wants) >= limit:
                break
            if not is_busy(want.hash):
                wants.setdefault(want.hash, want)
        return list(wants.values())

    def pending(self, segments: int) -> int:
        """How many summaries could be made now or are being made."""
        return sum(1 for _ in self._missing(segments))

    def _missing(self, segments: int) -> Iterator[Want]:
        for number in self._leaves.missing(segments, lambda number: self._summaries.is_ready(Node.leaf(number))):
            yield from self._want(Node.leaf(number))
        if self._rollups:
            for node in self._summaries.needed_merges():
                yield from self._missing_of(node)
        if self._has_blocks:
            for number in self._blocks.missing(segments // FAN_IN, lambda number: not self._missing_blocks(number)):
                for block in self._missing_blocks(number):
                    yield from self._want(block)

    def _missing_blocks(self, number: int) -> list[Node]:
        """The blocks that are not ready of those that end where the block of this number of the lowest rank does."""
        return [node for node in blocks_ending_at((number + 1) * FAN_IN) if not self._summaries.is_ready(node)]

    def _missing_of(self, merge: Node) -> Iterator[Want]:
        """The merge, or, where it cannot be made yet, what it lacks beside leaves."""
        if self._summaries.is_ready(merge):
            return
        if (hash := self._summaries.hash_of(merge)) is not None:
            yield Want(merge, hash)
            return
        for child in merge.children:
            if child.width > 1:
                yield from self._missing_of(child)

    def _want(self, node: Node) -> Iterator[Want]:
        if (hash := self._summaries.hash_of(node)) is not None:
            yield Want(node, hash)


class _Leaves:
    """Segments, or blocks of them, whose summary may be missing. One that can never be made does not keep those behind
    it from being forgotten once they are ready."""

    def __init__(self) -> None:
        self._left: OrderedDict[int, None] = OrderedDict()  # found missing, oldest first
        self._looked = 0  # segments from this one on were not looked at yet

    def missing(self, count: int, is_ready: Callable[[int], bool]) -> Iterator[int]:
        """The missing ones of the first `count`, oldest first."""
        made = []
        try:
            for number in self._left:
                if is_ready(number):
                    made.append(number)
                else:
                    yield number
        finally:
            for number in made:
                del self._left[number]
        while self._looked < count:
            number = self._looked
            self._looked += 1
            if not is_ready(number):
                self._left[number] = None
                yield number
