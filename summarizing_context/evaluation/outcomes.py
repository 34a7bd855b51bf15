"""The outcome of a run of evals: sums of each session and arm, the verdict on each probe, and means with intervals.

All values are JSON, and none depends on the machine, the clock or a path: equal runs give equal bytes. Intervals are
of a paired bootstrap over sessions, since the probes of one session are not independent. Its draws are seeded.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.settings.values import PLACES, Settings

FORMAT = 1
BASELINE = "baseline"  # begins the names of gates against accepted scores


class ProbeOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One probe, and its verdict in every arm."""

    id: str
    kind: str
    cut: int
    question: str
    literals: list[str]
    forbid: list[str]
    evidence: list[tuple[int, str]]  # message, its words around the answer
    age: int  # tokens between the newest evidence and the cut
    passes: int  # summarizations that the evidence went through in the reference arm
    depth: float | None
    used_at: int | None
    kept: dict[str, int]  # by arm: 1 kept, 0 lost, -1 stale
    why: str  # the verdict in the reference arm
    words: str  # of its view


class ViewOutcome(msgspec.Struct, frozen=True):
    """One arm's view at one cut."""

    cut: int
    tokens: int
    target: int  # tokens that it was given
    unsupported: list[str]
    drifted: list[str]


class SessionOutcome(msgspec.Struct, frozen=True):
    """One session."""

    id: str
    group: str  # sessions of one group are drawn together by the bootstrap
    title: str
    domain: str
    source: str
    messages: int
    tokens: int
    budget: int  # of its last cut
    skipped: list[str]  # cuts that were not scored, with the reason
    sums: dict[str, dict[str, tuple[float, float]]]  # by arm, by figure: of, out of
    views: dict[str, list[ViewOutcome]]  # by arm
    probes: list[ProbeOutcome]


class GateOutcome(msgspec.Struct, frozen=True):
    """What became of one gate."""

    name: str
    result: Literal["passed", "failed", "vacuous", "nothing to look at"]
    words: str

    @property
    def failed(self) -> bool:
        return self.result in ("failed", "nothing to look at")


class RunOutcome(msgspec.Struct, frozen=True):
    """A whole run."""

    suite: str
    claim: str
    arms: list[str]
    settings: dict[str, Any]
    sessions: list[SessionOutcome]
    gates: list[GateOutcome] = []
    format: int = FORMAT


def changed_settings(settings: Settings) -> dict[str, Any]:
    """The settings that differ from their defaults, without those that name a place."""
    defaults = Settings()
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: value for name in names if (value := getattr(settings, name)) != getattr(defaults, name)}


DRAWS = 1_000
_SEED = "sessions"
_LOW, _HIGH = 0.025, 0.975


class Interval(NamedTuple):
    """A mean over sessions, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    sessions: int

    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def session_values(sessions: Sequence[SessionOutcome], arm: str, figure: str) -> dict[str, float]:
    """The figure of one arm in each session that has something to look at; one session at several budgets is one."""
    return ratios((session.group, session.sums.get(arm, {}).get(figure, (0, 0))) for session in sessions)


def ratios(sums: Iterable[tuple[str, tuple[float, float]]]) -> dict[str, float]:
    """Sums over counts by group; groups with an empty count are left out."""
    found: dict[str, tuple[float, float]] = {}
    for group, (of, out_of) in sums:
        known = found.get(group, (0, 0))
        found[group] = known[0] + of, known[1] + out_of
    return {group: of / out_of for group, (of, out_of) in found.items() if out_of}


def indented(document: Any) -> bytes:
    """A document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def mean_of(values: Mapping[str, float]) -> Interval | None:
    """The mean of the sessions' values with its interval; None of nothing."""
    if not values:
        return None
    listed = [values[key] for key in sorted(values)]
    means = sorted(_means(listed))
    return Interval(sum(listed) / len(listed), _at(means, _LOW), _at(means, _HIGH), len(listed))


def difference(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Interval | None:
    """How much larger our mean is than theirs, over the sessions that both have."""
    return mean_of({key: ours[key] - theirs[key] for key in ours if key in theirs})


def recovered(ours: Mapping[str, float], start: Mapping[str, float], goal: Mapping[str, float]) -> Interval | None:
    """How much of the way from `start` to `goal` our mean has gone; 1 is all of it. None where a draw has no such way,
    for then nothing can be said."""
    keys = sorted(ours.keys() & start.keys() & goal.keys())
    if not keys:
        return None
    gains, gaps = [ours[key] - start[key] for key in keys], [goal[key] - start[key] for key in keys]
    gap_means = _means(gaps)
    if sum(gaps) <= 0 or min(gap_means) <= 0:
        return None
    shares = sorted(gain / gap for gain, gap in zip(_means(gains), gap_means, strict=True))
    return Interval(sum(gains) / sum(gaps), _at(shares, _LOW), _at(shares, _HIGH), len(keys))


def _means(values: Sequence[float]) -> list[float]:
    count = len(values)
    return [sum(map(values.__getitem__, draw)) / count for draw in _draws(count)]


@lru_cache(maxsize=64)
def _draws(count: int) -> tuple[tuple[int, ...], ...]:
    """Sessions drawn with replacement, the same for every figure."""
    rng = random.Random(f"{_SEED}/{count}")
    return tuple(tuple(rng.choices(range(count), k=count)) for _ in range(DRAWS))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
