"""Variants of parameters and prompts, and the optimizers that look for better ones.

Pure, apart from the trial that an optimizer asks. Steps multiply or divide a parameter, first by four, then by less.
They do not depend on the shipped values.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from summarizing_context.evaluation.tuning.trials import SessionScore, qualities
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import make_private_folder, write_private
from summarizing_context.summarizers.extractive.parameters import (
    SHIPPED,
    ExtractiveParameters,
    bounds_of,
    write_parameters,
)
from summarizing_context.summarizers.prompts import Prompt, write_prompt

FACTORS = ((4, 1), (2, 1), (3, 2), (5, 4))  # of the first rounds; the last one of all later rounds too
_LEAST_STEP = {"leaf": 5, "rollup": 5, "room": 25, "facts": 1, "ranks": 1, "lengths": 40}


class Axis(NamedTuple):
    """One figure, and one direction."""

    table: str
    name: str
    up: bool


def axes(parameters: ExtractiveParameters) -> list[Axis]:
    """All that can be changed, in a fixed order."""
    named = [(table, name) for table, figures in parameters.tables().items() for name in figures]
    return [Axis(table, name, up) for table, name in named for up in (True, False)]


def stepped(parameters: ExtractiveParameters, axis: Axis, round: int) -> ExtractiveParameters | None:
    """The figures one step along an axis; None where there is no room."""
    low, high = bounds_of(axis.table, axis.name)
    value: int = getattr(getattr(parameters, axis.table), axis.name)
    times, over = FACTORS[min(round, len(FACTORS) - 1)]
    above = value - low  # steps are measured from the least that a figure may be
    if axis.up:
        wanted = low + max(above * times // over, above + 1 if above else _LEAST_STEP[axis.table])
    else:
        wanted = low + min(above * over // times, above - 1)
        wanted = low if 0 < wanted - low < _LEAST_STEP[axis.table] // 2 else wanted
    wanted = max(low, min(high, wanted))
    return None if wanted == value else parameters.with_figures({(axis.table, axis.name): wanted})


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One candidate. What it does not name is as shipped."""

    name: str
    parameters: ExtractiveParameters = SHIPPED
    prompts: tuple[Prompt, ...] = ()  # one for each purpose that differs from what is shipped
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names what the variant does, whatever it is called."""
        prompts = [[prompt.name, prompt.hash] for prompt in self.prompts]
        content = [
            self.parameters.tables(),
            prompts,
            {name: str(self.settings[name]) for name in sorted(self.settings)},
        ]
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]

    def differences(self, other: Variant) -> list[str]:
        """What is otherwise than in another variant, a line for each thing."""
        mine, theirs = self.parameters.tables(), other.parameters.tables()
        lines = [
            f"{table}.{name}: {theirs[table][name]} → {value}"
            for table, figures in mine.items()
            for name, value in figures.items()
            if theirs[table][name] != value
        ]
        before = {prompt.name: prompt for prompt in other.prompts}
        lines += [
            f"prompt {prompt.name}: {prompt.hash[:12]}"
            for prompt in self.prompts
            if prompt.name not in before or before[prompt.name].hash != prompt.hash
        ]
        lines += [f"{name} = {value}" for name, value in self.settings.items() if other.settings.get(name) != value]
        return lines

    def placed(self, settings: Settings, folder: Path) -> Settings:
        """The settings of a session that uses this variant, its files written into `folder`."""
        changed: dict[str, Any] = dict(self.settings)
        make_private_folder(folder)
        if self.parameters != SHIPPED:
            file = folder / f"{self.key}.toml"
            write_private(file, write_parameters(self.parameters, about=f"A variant that was tried: {self.name}."))
            changed["extractive_parameters"] = file
        for prompt in self.prompts:
            place = folder / self.key / prompt.name
            make_private_folder(place)
            write_private(place / f"v{prompt.version}.md", write_prompt(prompt))
            changed["prompts"] = folder / self.key
        return replace(settings, **changed)


_LEAST_GAIN = 1e-9


class Trial(Protocol):
    """What an optimizer may ask: everything about the sessions that are tuned on."""

    @property
    def sessions(self) -> int: ...

    def quality_of(self, variant: Variant) -> float:
        """The quality of a variant over all of them."""

    def scores(self, variant: Variant) -> Sequence[SessionScore]:
        """What it came to in each."""

    def accept(self, variant: Variant) -> None:
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
            trial.quality_of(variant)


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
        rng = random.Random(f"tune/{self.seed}")
        best = start
        trial.accept(start)
        for round in range(self.rounds):
            ways = axes(best.parameters)
            rng.shuffle(ways)
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
        trial.accept(best)
    return best


def is_better(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Whether the sessions' mean gain is larger than its own standard error, and more than one session gains."""
    gains = [ours[session] - theirs[session] for session in ours if session in theirs]
    if len([gain for gain in gains if gain > _LEAST_GAIN]) < min(2, len(gains)):
        return False
    mean = sum(gains) / len(gains) if gains else 0.0
    variance = sum((gain - mean) ** 2 for gain in gains) / max(1, len(gains) - 1)
    return mean > _LEAST_GAIN and mean * mean * len(gains) > variance
