"""Which sessions are simulated, and with what: our bands, a grid of high waters, and the baselines beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from evals.performance.simulation.baselines import Baseline, Kind
from evals.performance.simulation.ours import WINDOW, Outcome, Plan, simulate
from evals.performance.simulation.workload import SYSTEM_TOKENS, steps

ROOM = WINDOW - SYSTEM_TOKENS
GRID = (0.38, 0.42, 0.46, 0.50, 0.55, 0.60, 0.70)  # high waters


class Tail(NamedTuple):
    """What is kept raw at least, and what the summaries of segments may take; one summary of all has its own size."""

    kept: int  # tokens
    header: int  # tokens


class Band(NamedTuple):
    """One of our ways."""

    name: str
    tail: Tail
    settings: dict[str, Any]


TAILS = (Tail(28_800, 21_600), Tail(20_000, 7_000))  # what our defaults ask for; a small one
SMALL = {"low_water": TAILS[1].kept / ROOM, "header_target": TAILS[1].header / ROOM}
BANDS = (
    Band("fidelity", TAILS[0], {"band": "fidelity"}),
    Band("economy", TAILS[0], {"band": "economy"}),
    Band("economy, small", TAILS[1], {"band": "economy", **SMALL}),
)
BASELINES: tuple[tuple[Kind, bool], ...] = (
    ("single shot", False),
    ("single shot", True),
    ("anchored summary", True),
    ("frozen", True),
)


def plans(count: int, seeds: int) -> list[Plan]:
    """Our bands at one size, a plan for each seed."""
    return [Plan(band.name, count, seed, settings=band.settings) for band in BANDS for seed in range(1, seeds + 1)]


def grid(count: int, seeds: int) -> list[Plan]:
    """The high waters among which `economy` has to find the cheapest."""
    each = [(high, seed) for high in GRID for seed in range(1, seeds + 1)]
    return [Plan(f"high_water {high}", count, seed, settings={"high_water": high}) for high, seed in each]


def run(plan: Plan) -> Outcome:
    """In a process of its own."""
    return asyncio.run(simulate(plan))


def baselines(count: int, seeds: Sequence[int]) -> dict[tuple[str, Tail], list[Baseline]]:
    """Every baseline at one size, by its name and tail, a run for each seed."""
    found: dict[tuple[str, Tail], list[Baseline]] = {}
    for tail in TAILS:
        for kind, idle in BASELINES:
            found[f"{kind} + idle" if idle else kind, tail] = [
                Baseline(kind, WINDOW, tail.kept, tail.header, idle).run(steps(count, seed)) for seed in seeds
            ]
    return found
