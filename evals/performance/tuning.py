"""Find the parameter at which a manager's mean view is as large as ours.

Pure: `search` is told by `measure` what a parameter gives. The mean view grows with every knob, in steps at worst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

NEAR = 0.02  # of the target: near enough
TRIES = 8


class Tuned(NamedTuple):
    """The best parameter seen, and the mean view it gave, in tokens."""

    keep: float
    tokens: float


def search(measure: Callable[[float], float | None], target: float, low: float, high: float) -> Tuned | None:
    """Regula falsi with a bisection whenever it creeps; None if nothing could be measured."""
    ends: dict[float, float] = {}
    for keep in (low, high):
        tokens = measure(keep)
        if tokens is not None:
            ends[keep] = tokens
    if not ends:
        return None
    best = min((Tuned(keep, tokens) for keep, tokens in ends.items()), key=lambda tuned: _far(tuned, target))
    if len(ends) < 2 or not ends[low] < target < ends[high]:
        return best
    for attempt in range(TRIES - 2):
        if _far(best, target) <= NEAR:
            break
        share = 0.5 if attempt % 2 else (target - ends[low]) / (ends[high] - ends[low])
        keep = low + (high - low) * min(0.95, max(0.05, share))
        tokens = measure(keep)
        if tokens is None:
            break
        best = min(best, Tuned(keep, tokens), key=lambda tuned: _far(tuned, target))
        ends[keep] = tokens
        low, high = (keep, high) if tokens < target else (low, keep)
    return best


def _far(tuned: Tuned, target: float) -> float:
    return abs(tuned.tokens / target - 1)
