"""Simulates sessions of 4.4M and 44M tokens and prints what a step costs; `make simulate`.

Claims checked: cost per step within 5 % between the two sizes, no view that waits for a summary, no fact summarized
more often than floor(log16 segments) + 2 times, `economy` near the cheapest of a grid of `high_water`. Exit status 1
where one does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress

from evals.performance.machine import machine
from evals.performance.simulation.baselines import Baseline, Kind
from evals.performance.simulation.ours import WINDOW, Outcome, Plan, simulate
from evals.performance.simulation.report import NOTE, TITLE, Row, brief, compared, row_of_baseline, row_of_ours, show
from evals.performance.simulation.workload import SYSTEM_TOKENS, steps

NEAR = 5.0  # percent


def _rows(wanted: Sequence[Plan], outcomes: Sequence[Outcome], sizes: Sequence[tuple[int, int]]) -> list[Row]:
    ours: dict[tuple[str, int], list[Outcome]] = defaultdict(list)
    for plan, outcome in zip(wanted, outcomes, strict=True):
        ours[plan.name, plan.length].append(outcome)
    rows: list[Row] = []
    for count, seeds in sizes:
        rows += [row_of_ours(band.name, band.tail.kept, ours[band.name, count]) for band in BANDS]
        log = sum(run.log_tokens for run in ours[BANDS[0].name, count])
        others = baselines(count, range(1, seeds + 1))
        rows += [row_of_baseline(name, tail.kept, runs, log) for (name, tail), runs in others.items()]
    return rows


def _best_of_grid(tried: Sequence[Plan], outcomes: Sequence[Outcome]) -> Row:
    """The cheapest high water of the grid, over the seeds that it was tried with."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for plan, outcome in zip(tried, outcomes, strict=True):
        found[plan.name].append(outcome)
    rows = [row_of_ours(name, TAILS[0].kept, runs) for name, runs in found.items()]
    best = min(rows, key=lambda row: float(row["cost_per_step"]))
    return {
        **best,
        "manager": f"ours, best of {len(GRID)} high waters",
        "high_water": best["manager"].split()[-1],
    }


def problems(rows: Sequence[Row]) -> list[str]:
    """Claims that the figures do not bear out."""
    ours = [row for row in rows if row["manager"].startswith("ours")]
    found = [f"{row['manager']}: {row['blocking_calls']} views waited" for row in ours if row["blocking_calls"]]
    found += [
        f"{row['manager']}: {row['max_passes']} passes, {row['passes_bound']} are the most"
        for row in ours
        if row["max_passes"] > row["passes_bound"]
    ]
    found += [
        f"{row['manager']}: a step costs {row['cost_change_with_size_percent']} % more in the large session"
        for row in ours
        if abs(row.get("cost_change_with_size_percent", 0)) > NEAR
    ]
    economy, best = next(row for row in ours if row["manager"] == "ours, economy"), ours[-1]
    if economy["cost_per_step"] > (1 + NEAR / 100) * best["cost_per_step"]:
        found.append(f"economy costs {economy['cost_per_step']} a step, the best of the grid {best['cost_per_step']}")
    return found


def _run_all(plans: Sequence[Plan], jobs: int) -> list[Outcome]:
    """Each in a process of its own, so that none finds the memory of another."""
    outcomes: list[Outcome] = []
    with Progress(transient=True) as progress, ProcessPoolExecutor(jobs) as pool:
        bar = progress.add_task("steps", total=sum(plan.length for plan in plans))
        for plan, outcome in zip(plans, pool.map(run, plans), strict=True):
            outcomes.append(outcome)
            progress.advance(bar, plan.length)
    return outcomes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals.performance.simulation", description=__doc__)
    parser.add_argument("--steps", type=_numbers, default=[3_000, 30_000], help="sizes, smallest first: 3000,30000")
    parser.add_argument("--seeds", type=_numbers, default=[8, 3], help="sessions of each size: 8,3")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--json", type=Path, default=None, help="write the figures here as well")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


ROOM = WINDOW - SYSTEM_TOKENS
GRID = (0.38, 0.42, 0.46, 0.50, 0.55, 0.60, 0.70)  # values of `high_water`


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
    """The values of `high_water` among which `economy` has to find the cheapest."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    sizes = list(zip(asked.steps, asked.seeds, strict=True))
    wanted = [plan for count, seeds in sizes for plan in plans(count, seeds)]
    tried = grid(asked.steps[0], min(3, asked.seeds[0]))
    outcomes = _run_all([*wanted, *tried], asked.jobs)
    rows = _rows(wanted, outcomes[: len(wanted)], sizes)
    rows = compared([*rows, _best_of_grid(tried, outcomes[len(wanted) :])])
    show(rows)
    if asked.json is not None:
        told = {"title": TITLE, "note": NOTE, "machine": machine(), "rows": brief(rows), "details": rows}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    missed = problems(rows)
    for problem in missed:
        Console(stderr=True).print(f"missed: {problem}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
