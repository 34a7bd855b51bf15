"""How variants are found: a given list, or a search among the figures of the extractive summarizer.

Pure but for asking the trial: what a variant is worth on the sessions that are tuned on. No optimizer sees the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from summarizing_context.evaluation.tuning.space import FACTORS, Axis, axes, stepped
from summarizing_context.evaluation.tuning.trials import SessionScore
from summarizing_context.evaluation.tuning.variants import Variant

Ask = Callable[[Variant], float]
_LEAST_GAIN = 1e-9


class Trial(Protocol):
    """What an optimizer may ask: everything about the sessions that are tuned on."""

    @property
    def sessions(self) -> int: ...

    def worth(self, variant: Variant) -> float:
        """The quality of a variant over all of them."""

    def scores(self, variant: Variant) -> Sequence[SessionScore]:
        """What it came to in each."""


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

    Rounds follow with smaller and smaller steps, until one with the smallest finds nothing.
    """

    seed: int = 0
    rounds: int = 6
    name: str = "search"

    def run(self, start: Variant, trial: Trial) -> None:
        dice = random.Random(f"tune/{self.seed}")
        best, worth = start, trial.worth(start)
        for round in range(self.rounds):
            ways = axes(best.parameters)
            dice.shuffle(ways)
            found = False
            for axis in ways:
                better, worth = _follow(best, worth, axis, round, trial.worth)
                found |= better is not best
                best = better
            if not found and round >= len(FACTORS) - 1:
                return


def _follow(
    best: Variant, worth: float, axis: Axis, round: int, ask: Callable[[Variant], float]
) -> tuple[Variant, float]:
    """As far along an axis as it helps."""
    while (figures := stepped(best.parameters, axis, round)) is not None:
        value = getattr(getattr(figures, axis.table), axis.name)
        candidate = replace(best, name=f"{axis.table}.{axis.name} = {value}", parameters=figures)
        found = ask(candidate)
        if found <= worth + _LEAST_GAIN:
            break
        best, worth = candidate, found
    return best, worth
