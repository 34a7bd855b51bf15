"""Overflow: the ladder by which a view that does not fit its budget is brought into it.

Pure. When a view that fits activates is decided in `planner`; how messages shrink, in `shrunk_messages` and `folds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from summarizing_context.log.tree import Cut
from summarizing_context.views.activation import ActivationPlan, Build
from summarizing_context.views.budget import BARE, MAX_BARE, MAX_SQUEEZE, Room
from summarizing_context.views.folds import Calls

_FOLD_SQUEEZE = 2  # what is not folded stays readable where that can be


class Newest(NamedTuple):
    """The newest group, and the cut that leaves nothing else."""

    cut: Cut
    calls: Calls
    is_open: bool
    is_covered: bool = False  # by the present header
    tokens: int = 0  # of the log


def fit(room: Room, found: Sequence[Cut], last: Sequence[Cut], newest: Newest, build: Build) -> ActivationPlan | None:
    """The gentlest proposal that brings an overflowing view well into its room, or else the smallest that fits.

    With every squeeze the `found` cuts are tried, then the one that leaves the newest closed group, then the one that
    leaves only the open group; then calls of the newest group are folded, at last those in flight too. The last
    resort is the newest message alone.
    """
    best: ActivationPlan | None = None
    rungs = [_squeezed(room, [*found, *last[:-1]], build)]
    if newest.is_open:
        rungs.append(_squeezed(room, last[-1:], build))
    if not newest.is_covered and newest.calls.answered:
        rungs.append(_folded(room, newest, build))
    for rung in rungs:
        for proposal in rung:
            if proposal.tokens <= proposal.room.high - room.min_free:
                return proposal
            if proposal.tokens <= room.tokens and (best is None or proposal.tokens < best.tokens):
                best = proposal
        if best is not None and best.tokens <= room.tokens - room.min_free:
            return best
    return best or next((each for each in _least(room, newest, build) if each.tokens <= room.tokens), None)


def _squeezed(room: Room, found: Sequence[Cut], build: Build) -> Iterator[ActivationPlan]:
    """The cuts with ever less for each message; not between the least and the most where even that is too large."""
    tightest = room._replace(squeeze=MAX_SQUEEZE)
    yield from (build(cut, room) for cut in found)
    least = [build(cut, tightest) for cut in found]
    if any(proposal.tokens <= room.tokens for proposal in least):
        for squeeze in range(1, MAX_SQUEEZE):
            yield from (build(cut, room._replace(squeeze=squeeze)) for cut in found)
        yield from least


def _folded(room: Room, newest: Newest, build: Build) -> Iterator[ActivationPlan]:
    """As few calls folded as bring the view well into its room, or else all that are answered but the last; those
    answered first go first. How many may stay is sought from few to many: a view of many is dear to make."""
    answered = len(newest.calls.answered)
    each = newest.tokens / answered

    def folding(stay: int, squeeze: int) -> ActivationPlan:
        return build(newest.cut, room._replace(squeeze=squeeze), newest.calls.oldest(answered - stay))

    def spare(stay: int, squeeze: int) -> float:
        proposal = folding(stay, squeeze)
        return proposal.room.high - room.min_free - proposal.tokens

    for squeeze in range(_FOLD_SQUEEZE, MAX_SQUEEZE + 1):
        yield folding(max(1, _most(answered - 1, partial(spare, squeeze=squeeze), each)), squeeze)


def _most(limit: int, spare: Callable[[int], float], each: float) -> int:
    """The largest number up to `limit` that leaves something to spare, or 0. It is sought where it would be if all cost
    alike: `each`, about, then as much as was found, and at most twice as many; then halfway."""
    most, over, last = 0, limit + 1, (0, 0.0)
    guess = min(1, limit)
    while 0 < guess < over and most + 1 < over:
        left = spare(guess)
        if left < 0:
            over = guess
            guess = (most + over) // 2
            continue
        doubled = 2 * guess if most and over > limit else over - 1
        each = (last[1] - left) / (guess - last[0]) if most else each
        last, most = (guess, left), guess
        guess = max(guess + 1, min(doubled, guess + int(left / each))) if each > 0 else max(guess + 1, doubled)
        guess = min(guess, over - 1)
    return most


def _least(room: Room, newest: Newest, build: Build) -> Iterator[ActivationPlan]:
    """Every call folded but the one that was answered last, those in flight too: what answers them is for another view.
    Then, where there is no room for the newest result, every answered call, and every call; then nothing else is shown
    but the newest message."""
    calls = newest.calls
    if calls.made and not newest.is_covered:
        every = calls.oldest(len(calls.answered))
        for folded in filter(None, dict.fromkeys([calls.but_newest, every, calls.all])):
            yield build(newest.cut, room._replace(squeeze=MAX_SQUEEZE), folded)
    for folded in dict.fromkeys([(), calls.all]):
        for squeeze in range(BARE, MAX_BARE + 1):
            yield build(newest.cut, room._replace(squeeze=squeeze), folded)
