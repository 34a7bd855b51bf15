"""Work over sessions in processes, and means over sessions with their intervals.

The intervals are a paired bootstrap of sessions, for the probes of one session are not independent.
Draws are seeded, and nothing depends on the machine, the clock or a path: equal runs give equal bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, NamedTuple, TypeVar

import msgspec

from summarizing_context.settings.values import PLACES, Settings

DRAWS = 1_000
MIN_SESSIONS = 5  # from which on an interval says something

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(items: Sequence[Item], work: Callable[[Item], Result], jobs: int) -> Iterator[Result]:
    """Yield what `work` gives for each item, in their order, worked on in so many processes; of one, in this one."""
    jobs = min(jobs, len(items))
    if jobs <= 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, items)


class Interval(NamedTuple):
    """A mean over sessions, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    sessions: int


def mean_of(values: Mapping[str, float]) -> Interval | None:
    """Return the mean of the sessions' values with its interval; None of nothing."""
    if not values:
        return None
    listed = [values[key] for key in sorted(values)]
    means = sorted(sum(map(listed.__getitem__, draw)) / len(listed) for draw in _draws(len(listed)))
    low, high = (means[round(share * (DRAWS - 1))] for share in (0.025, 0.975))
    return Interval(sum(listed) / len(listed), low, high, len(listed))


@lru_cache(maxsize=64)
def _draws(count: int) -> list[list[int]]:
    """Sessions drawn with replacement, the same for every figure."""
    rng = random.Random(f"sessions/{count}")
    return [rng.choices(range(count), k=count) for _ in range(DRAWS)]


def ratios(sums: Iterable[tuple[str, tuple[float, float]]]) -> dict[str, float]:
    """Return sums over counts by group; groups with an empty count are left out."""
    found: dict[str, tuple[float, float]] = {}
    for group, (of, out_of) in sums:
        known = found.get(group, (0, 0))
        found[group] = known[0] + of, known[1] + out_of
    return {group: of / out_of for group, (of, out_of) in found.items() if out_of}


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without those that name a place."""
    defaults = Settings()
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: value for name in names if (value := getattr(settings, name)) != getattr(defaults, name)}


def indented(document: Any) -> bytes:
    """Return a document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
