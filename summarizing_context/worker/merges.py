"""Which merges views need: those that they show, and the next one of each, made ahead.

Pure. The next merge of a header is foreseen from what its segments take, so that no merge is paid that no view shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.log.tree import BEHIND, Node

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
