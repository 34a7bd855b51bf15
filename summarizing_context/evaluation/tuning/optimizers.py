"""How variants are found: a given list, or a search among the figures of the extractive summarizer.

Pure but for asking the trial: what a variant is worth on the sessions that are tuned on. No optimizer sees the others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from summarizing_context.evaluation.tuning.outcome import qualities
from summarizing_context.evaluation.tuning.trials import SessionScore
from summarizing_context.evaluation.tuning.variants import FACTORS, Axis, Variant, axes, stepped

_LEAST_GAIN = 1e-9


class Trial(Protocol):
    """What an optimizer may ask: everything about the sessions that are tuned on."""

    @property
    def sessions(self) -> int: ...

    def worth(self, variant: Variant) -> float:
        """The quality of a variant over all of them."""

    def scores(self, variant: Variant) -> Sequence[SessionScore]:
        """What it came to in each."""

    def take(self, variant: Variant) -> None:
        """It is the best by now. An optimizer that never says so leaves it to the mean."""


class Optimizer(Protocol):
    """Asks about variants until it knows no better one. Stopped by an exception where the budget is spent."""

    @property
    def name(self) -> str: ...

    def run(self, start: Variant, trial: Trial) -> None: ...


@dataclass(frozen=True, slots=True)
class Grid:
    """Every variant of a list."""

    variants: Sequence[Variant]
    name: str = "grid"

    def run(self, start: Variant, trial: Trial) -> None:
        for variant in (start, *self.variants):
            trial.worth(variant)


@dataclass(frozen=True, slots=True)
class CoordinateSearch:
    """One figure after the other, in an order drawn by the seed: a step that helps is taken, and taken again.

    Rounds follow with smaller and smaller steps, until one with the smallest finds nothing. A gain must be more than
    the luck of one session, or the search would learn the sessions by heart.
    """

    seed: int = 0
    rounds: int = 6
    name: str = "search"

    def run(self, start: Variant, trial: Trial) -> None:
        dice = random.Random(f"tune/{self.seed}")
        best = start
        trial.take(start)
        for round in range(self.rounds):
            ways = axes(best.parameters)
            dice.shuffle(ways)
            found = False
            for axis in ways:
                better = _follow(best, axis, round, trial)
                found |= better is not best
                best = better
            if not found and round >= len(FACTORS) - 1:
                return


def _follow(best: Variant, axis: Axis, round: int, trial: Trial) -> Variant:
    """As far along an axis as it helps."""
    while (figures := stepped(best.parameters, axis, round)) is not None:
        value = getattr(getattr(figures, axis.table), axis.name)
        candidate = replace(best, name=f"{axis.table}.{axis.name} = {value}", parameters=figures)
        if not is_better(qualities(trial.scores(candidate)), qualities(trial.scores(best))):
            break
        best = candidate
        trial.take(best)
    return best


def is_better(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Whether the sessions' mean gain is larger than its own standard error, and more than one session gains."""
    gains = [ours[session] - theirs[session] for session in ours if session in theirs]
    if len([gain for gain in gains if gain > _LEAST_GAIN]) < min(2, len(gains)):
        return False
    mean = sum(gains) / len(gains) if gains else 0.0
    variance = sum((gain - mean) ** 2 for gain in gains) / max(1, len(gains) - 1)
    return mean > _LEAST_GAIN and mean * mean * len(gains) > variance
