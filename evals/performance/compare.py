"""Everything beside everybody: make the environments, tune, run, and write the report. `make bench-peers` is this.

    python -m evals.performance.compare [--out FOLDER] [--only NAME,NAME] [--parts main,cold] [--small] [--table PATH]

Each run is a process of its own, one at a time where small times matter. Rows that are already in `runs.jsonl` are not
made again, so that an interrupted comparison goes on where it was (on another day, name its folder with --out); rows
that failed are tried once more with --retry.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evals.performance import bench, report
from evals.performance.environments import ensure
from evals.performance.launch import launch
from evals.performance.machine import machine
from evals.performance.managers import MANAGERS
from evals.performance.plan import FULL, SMALL, TUNABLE, Keeps, Sizes, parts, tuning_run
from evals.performance.runs import Ask, Results, Row

RESULTS = Path(__file__).parent / "results"
TUNING_AT_ONCE = 2  # only sizes matter there


class Comparison:
    """The runs of one folder of results."""

    def __init__(self, results: Results, sizes: Sizes, only: set[str], progress: Progress) -> None:
        self.results, self.sizes, self.only, self.progress = results, sizes, only, progress
        self.bar = progress.add_task("environments", total=None)

    def make_environments(self) -> None:
        for name in sorted({MANAGERS[manager].environment for manager in self.only} - {""}):
            self.progress.update(self.bar, description=f"environment of {name}")
            ensure(name)

    def tune(self) -> Keeps:
        """The parameter of each peer at which its mean view is as large as ours."""
        ours = self.row(tuning_run("ours", None, self.sizes))
        target: float = ours.figures.get("steady_view_tokens") or 0.0
        names = sorted(self.only & set(TUNABLE)) if target else []
        self.progress.update(self.bar, total=len(names), completed=0, description="tuning to our mean view")
        with ThreadPoolExecutor(TUNING_AT_ONCE) as pool:
            found = list(pool.map(partial(self._tuned, target), names))
        return {name: keep for name, keep in zip(names, found, strict=True) if keep is not None}

    def run(self, chosen: list[str], keeps: Keeps) -> None:
        """The chosen parts of the plan, for the managers that are asked for."""
        plan = {name: part for name, part in parts(keeps, self.sizes).items() if name in chosen}
        wanted = {name: [ask for ask in part.runs if ask.manager in self.only] for name, part in plan.items()}
        self.progress.update(self.bar, total=sum(map(len, wanted.values())), completed=0)
        for name, asks in wanted.items():
            with ThreadPoolExecutor(plan[name].at_once) as pool:
                list(pool.map(self._step, asks))

    def row(self, ask: Ask) -> Row:
        """From the file, or made now."""
        return self.results.get(ask) or self.results.keep(launch(ask))

    def _step(self, ask: Ask) -> None:
        said = (ask.manager, "" if ask.kind == "live" else ask.kind, "tuned" if ask.tuned else "", f"N={ask.turns}")
        self.progress.update(self.bar, description=" ".join(filter(None, said)))
        self.row(ask)
        self.progress.advance(self.bar)

    def _tuned(self, target: float, name: str) -> float | None:
        knob = MANAGERS[name].knob
        found = knob and search(partial(self._mean_view, name), target, knob.low, knob.high)
        self.progress.advance(self.bar)
        return rounded(found.keep) if found else None

    def _mean_view(self, name: str, keep: float) -> float | None:
        row = self.row(tuning_run(name, rounded(keep), self.sizes))
        tokens: float | None = row.figures.get("steady_view_tokens")
        return tokens


def rounded(keep: float) -> float:
    """A parameter as it is passed on: whole tokens, or a share with three places."""
    return float(round(keep)) if keep > 1 else round(keep, 3)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    parser.add_argument("--out", type=Path, default=RESULTS / today, help="folder for rows and report")
    parser.add_argument("--only", type=_names_of(MANAGERS), default=[*MANAGERS], help="managers, separated by commas")
    parser.add_argument("--parts", type=_names_of(parts({})), default=[*parts({})], help="of the plan, likewise")
    parser.add_argument("--small", action="store_true", help="tiny sessions, to try the whole out")
    parser.add_argument("--retry", action="store_true", help="forget the rows that failed, and make them again")
    parser.add_argument("--table", type=Path, action="append", default=[], help="a further table for the report (JSON)")
    return parser.parse_args()


def _names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        strangers = [name for name in text.split(",") if name not in known]
        if strangers:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(strangers)}; there are {', '.join(known)}")
        return text.split(",")

    return names


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


def main() -> None:
    asked = _arguments()
    results = Results(asked.out / "runs.jsonl", retry=asked.retry)
    columns = (TextColumn("{task.description:44}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        comparison = Comparison(results, SMALL if asked.small else FULL, set(asked.only), progress)
        comparison.make_environments()
        comparison.run(asked.parts, comparison.tune() if "main" in asked.parts else {})
        if not asked.small and not (asked.out / "ours.json").exists():
            bench.write(asked.out / "ours.json", bench.measure(progress))
    (asked.out / "machine.json").write_text(json.dumps(machine(), indent=2) + "\n")
    report.write(asked.out, asked.table)


if __name__ == "__main__":
    main()
