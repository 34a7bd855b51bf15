"""Work over sessions in processes, and means over sessions with their intervals.

The intervals are a paired bootstrap of sessions, for the probes of one session are not independent.
Draws are seeded, and nothing depends on the machine, the clock or a path: equal runs give equal bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    if min(jobs, len(items)) <= 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(min(jobs, len(items)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, items)


class Interval(NamedTuple):
    """A mean over sessions, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    sessions: int


Points = Mapping[tuple[str, str, str], float]  # by session, case and question


def by_session(points: Points) -> dict[str, float]:
    """Return the mean of each session."""
    found: dict[str, list[float]] = {}
    for (session, _, _), value in points.items():
        found.setdefault(session, []).append(value)
    return {session: sum(values) / len(values) for session, values in found.items()}


def mean_of(points: Points) -> Interval | None:
    """Return the mean over sessions with its interval; None of nothing."""
    if not points:
        return None
    listed = [value for _, value in sorted(by_session(points).items())]
    means = sorted(sum(map(listed.__getitem__, draw)) / len(listed) for draw in _draws(len(listed)))
    low, high = (means[round(share * (DRAWS - 1))] for share in (0.025, 0.975))
    return Interval(sum(listed) / len(listed), low, high, len(listed))


def paired(ours: Points, theirs: Points) -> Interval | None:
    """Return by how much ours are more than theirs, over the questions that both have."""
    return mean_of({key: ours[key] - theirs[key] for key in ours if key in theirs})


@lru_cache(maxsize=64)
def _draws(count: int) -> list[list[int]]:
    """Sessions drawn with replacement, the same for every figure."""
    rng = random.Random(f"sessions/{count}")
    return [rng.choices(range(count), k=count) for _ in range(DRAWS)]


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without those that name a place."""
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: one for name in names if (one := getattr(settings, name)) != getattr(Settings(), name)}


def indented(document: Any) -> bytes:
    """Return a document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
