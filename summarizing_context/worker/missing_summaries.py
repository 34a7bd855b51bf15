"""Planning: which summaries are still to be made, oldest first, and merges only that a view shows or will need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from summarizing_context.log.tree import FOUR, Node, Want, blocks_ending_at
from summarizing_context.worker.summary_cache import SummaryCache


class Planner:
    """Finds missing summaries. With `blocks` every whole block is merged ahead: where merges cost no money, none is
    left to the view that needs it."""

    def __init__(self, summaries: SummaryCache, *, rollups: bool = True, blocks: bool = False) -> None:
        self._summaries = summaries
        self._rollups = rollups
        self._has_blocks = rollups and blocks

    def merges(self, segments: int) -> list[Node]:
        """Every merge that views may need, ready or not."""
        needed = self._summaries.needed_merges() if self._rollups else []
        return [*needed, *self._blocks(segments)]

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
        for number in range(segments):
            yield from self._want(Node.leaf(number))
        if self._rollups:
            for node in self._summaries.needed_merges():
                yield from self._missing_of(node)
        for block in self._blocks(segments):
            yield from self._want(block)

    def _blocks(self, segments: int) -> Iterator[Node]:
        """The blocks that are merged ahead."""
        for stop in range(FOUR, segments + 1, FOUR) if self._has_blocks else ():
            yield from blocks_ending_at(stop)

    def _missing_of(self, merge: Node) -> Iterator[Want]:
        """The merge, or, where it cannot be made yet, what it lacks beside leaves."""
        if self._summaries.hash_of(merge) is not None:
            yield from self._want(merge)
            return
        for child in merge.children:
            if child.width > 1:
                yield from self._missing_of(child)

    def _want(self, node: Node) -> Iterator[Want]:
        if not self._summaries.is_ready(node) and (hash := self._summaries.hash_of(node)) is not None:
            yield Want(node, hash)
