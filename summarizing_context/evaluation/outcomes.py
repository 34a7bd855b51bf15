"""Means over sessions with their intervals: a paired bootstrap, for the probes of one session are not independent.

Draws are seeded, and nothing depends on the machine, the clock or a path: equal runs give equal bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.settings.values import PLACES, Settings

DRAWS = 1_000
SEED = "sessions"
LOW, HIGH = 0.025, 0.975


class GateOutcome(msgspec.Struct, frozen=True):
    """What became of one bound on a score."""

    name: str
    result: Literal["passed", "failed", "vacuous", "nothing to look at"]
    words: str

    @property
    def failed(self) -> bool:
        return self.result in ("failed", "nothing to look at")


class Interval(NamedTuple):
    """A mean over sessions, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    sessions: int

    def excludes_zero(self) -> bool:
        """Return whether the whole interval is on one side of zero."""
        return self.low > 0 or self.high < 0


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without those that name a place."""
    defaults = Settings()
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: value for name in names if (value := getattr(settings, name)) != getattr(defaults, name)}


def ratios(sums: Iterable[tuple[str, tuple[float, float]]]) -> dict[str, float]:
    """Return sums over counts by group; groups with an empty count are left out."""
    found: dict[str, tuple[float, float]] = {}
    for group, (of, out_of) in sums:
        known = found.get(group, (0, 0))
        found[group] = known[0] + of, known[1] + out_of
    return {group: of / out_of for group, (of, out_of) in found.items() if out_of}


def indented(document: Any) -> bytes:
    """Return a document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def mean_of(values: Mapping[str, float]) -> Interval | None:
    """Return the mean of the sessions' values with its interval; None of nothing."""
    if not values:
        return None
    listed = [values[key] for key in sorted(values)]
    means = sorted(sum(map(listed.__getitem__, draw)) / len(listed) for draw in _draws(len(listed)))
    return Interval(sum(listed) / len(listed), _at(means, LOW), _at(means, HIGH), len(listed))


def difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Interval | None:
    """Return how much larger our mean is than theirs, over the sessions that both have."""
    return mean_of({key: ours[key] - theirs[key] for key in ours if key in theirs})


@lru_cache(maxsize=64)
def _draws(count: int) -> tuple[tuple[int, ...], ...]:
    """Sessions drawn with replacement, the same for every figure."""
    rng = random.Random(f"{SEED}/{count}")
    return tuple(tuple(rng.choices(range(count), k=count)) for _ in range(DRAWS))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
