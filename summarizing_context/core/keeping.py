"""Groups that stay in the view word for word although they are covered, because they are important.

Pure. They are chosen at activations only, the most important first, as many as the room has place for; each is shown
whole, a call with its results, shrunk by the same rule as the tail with half of its shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from summarizing_context.core.bindings import Bounds, has_signed_thinking, loaded_tools
from summarizing_context.core.budget import Room
from summarizing_context.core.importance import Ranked
from summarizing_context.core.pins import Pins
from summarizing_context.core.repairs import Read
from summarizing_context.core.shrinking import Price
from summarizing_context.core.shrunk_notes import says_nothing
from summarizing_context.core.tail import Item, Tail

_MISSES = 16  # groups without room after which no smaller one is looked for

Source = Callable[[int], tuple[Sequence[Read], Sequence[int]]]  # messages of a group, and their tokens


class Kept(NamedTuple):
    """A group as it is shown."""

    start: int
    stop: int
    items: tuple[Item, ...]
    tokens: int


def keep_groups(
    ranked: Iterable[Ranked], source: Source, room: Room, left: int, *, within: tuple[Bounds, Price], pins: Pins
) -> list[Kept]:
    """The most important groups, in the order of the log, in at most `left` tokens. What is pinned whole is not shown
    twice."""
    pinned = {item.seq for item in pins.after if not item.left_out}
    chosen: list[Kept] = []
    misses = 0
    for one in ranked:
        reads, costs = source(one.group)
        if reads[0].seq < pins.opening_stop or all(read.seq in pinned for read in reads):
            continue
        kept = _shown(reads, costs, room, within)
        if kept is None:
            continue
        if kept.tokens <= left:
            chosen.append(kept)
            left -= kept.tokens
        else:
            misses += 1
            if misses == _MISSES:
                break
    return sorted(chosen)


def with_kept(pins: Pins, groups: Sequence[Kept]) -> Pins:
    """Pins with kept groups among them, in the order of the log; blocks that are no message of it stay behind."""
    if not groups:
        return pins
    inside = {seq for group in groups for seq in range(group.start, group.stop)}
    singles = [item for item in pins.after if item.seq >= 0 and item.seq not in inside]
    blocks = [item for item in pins.after if item.seq < 0]
    placed = sorted(chain(((item.seq, (item,)) for item in singles), ((group.start, group.items) for group in groups)))
    after = (*_flat(items for _, items in placed), *blocks)
    return pins._replace(after=after, tokens=sum(item.tokens for item in (*pins.before, *after)))


def _flat(items: Iterable[Sequence[Item]]) -> Iterator[Item]:
    return chain.from_iterable(items)


def _shown(reads: Sequence[Read], costs: Sequence[int], room: Room, within: tuple[Bounds, Price]) -> Kept | None:
    """The group as a tail would show it. None for one that says more than messages do: tools that it loads, thinking
    that must stay while its turn goes on; nor for a note of which no word would be left."""
    bounds, price = within
    for read in reads:
        if loaded_tools(read.message) is not None:
            return None
        if read.seq >= bounds.settled and has_signed_thinking(read.message):
            return None
    start, stop = reads[0].seq, reads[-1].seq + 1
    tail = Tail(start, room._replace(squeeze=room.squeeze + 1), price, (), bounds)
    tail.take(reads, costs, closed=True)
    if all(says_nothing(item.message) for item in tail.items):
        return None
    return Kept(start, stop, tuple(tail.items), tail.tokens)
