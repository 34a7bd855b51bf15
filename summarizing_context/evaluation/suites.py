"""Suites: TOML files that name cases, budgets, gates and models; and the run of a suite.

Suites are in `evals/suites` of a checkout. The package ships none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.arms import ARMS
from summarizing_context.evaluation.cases.generator.facts import domain_names
from summarizing_context.evaluation.cases.generator.sessions import Recipe
from summarizing_context.evaluation.cases.sources import CaseSource, Generated, folder_sources
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.gates import (
    Gate,
    baseline_of,
    check_baseline,
    check_gates,
    read_baseline,
    write_baseline,
)
from summarizing_context.evaluation.models import Tape, summarizes_by_model
from summarizing_context.evaluation.outcomes import RunOutcome, SessionOutcome, changed_settings
from summarizing_context.evaluation.real.bounds import Bound
from summarizing_context.evaluation.real.recording import CASES
from summarizing_context.evaluation.runner import Plan, run_sources
from summarizing_context.evaluation.scoring.figures import FIGURES
from summarizing_context.settings.values import Settings

FOLDER = Path("evals") / "suites"
BASELINES = Path("evals") / "baselines"
CASSETTES = Path("evals") / "cassettes"


class Generate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sessions that the generator writes: every domain with every seed."""

    seeds: list[int]
    tokens: int
    budgets: list[int]  # each session is run at every one
    domains: list[str] = []  # all of them if none is named
    cuts: tuple[float, ...] = (0.5, 0.75, 0.95)


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Transcripts of a folder, seen from the checkout."""

    folder: str
    budget: int = 8_000


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite file says."""

    name: str
    claim: str
    generate: list[Generate] = []
    read: list[Read] = []
    gates: list[Gate] = []
    settings: dict[str, Any] = {}
    start: dict[str, dict[str, int]] = {}  # for `tune`: figures of the extractive summarizer to begin with
    recording: str = ""  # folder of recorded answers, seen from the checkout; then `bounds` are its gates
    bounds: list[Bound] = []
    recovers: float = 0.0  # for `tune`: share of the way from the start to the shipped figures that must be regained


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite, and the checkout that it stands in."""

    suite: Suite
    root: Path

    @property
    def baseline(self) -> Path:
        return self.root / BASELINES / f"{self.suite.name}.json"

    @property
    def cassette(self) -> Path:
        return self.root / CASSETTES / f"{self.suite.name}.jsonl"

    @property
    def tape(self) -> Tape | None:
        """Where the suite's summarizer speaks; None if it is no model."""
        return Tape(self.cassette) if summarizes_by_model(self.settings()) else None

    def settings(self) -> Settings:
        return Settings.from_mapping(self.suite.settings)

    def sources(self) -> list[CaseSource]:
        """All cases, in the order of the file."""
        found: list[CaseSource] = []
        for wanted in self.suite.generate:
            for domain, seed, budget in product(wanted.domains or domain_names(), wanted.seeds, wanted.budgets):
                recipe = Recipe(domain=domain, seed=seed, tokens=wanted.tokens, budget=budget, cuts=wanted.cuts)
                found.append(Generated(recipe))
        for read in self.suite.read:
            found += folder_sources([self.root / read.folder], budget=read.budget)
        return found


def load_suite(name: str, start: Path) -> LoadedSuite:
    """A suite by its name, from the checkout that `start` is in."""
    root = next((folder for folder in (start, *start.parents) if (folder / FOLDER).is_dir()), None)
    if root is None:
        raise SettingsError(
            f"suite {name!r}: named suites stand in {FOLDER.as_posix()} of a checkout, and this is none; "
            "take --cases or --dataset with data of your own"
        )
    path = root / FOLDER / f"{name}.toml"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in (root / FOLDER).glob("*.toml"))) or "none"
        raise SettingsError(f"there is no suite {name!r} in {FOLDER.as_posix()}; there are: {there}")
    try:
        suite = msgspec.convert(tomllib.loads(path.read_text(encoding="utf8")), Suite)
        _check_gates(suite)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{FOLDER.as_posix()}/{path.name}: {error}") from error
    return LoadedSuite(suite, root)


def recorded_folder(folder: Path) -> LoadedSuite | None:
    """A folder of recorded answers as a suite; None if it is none."""
    if not (folder / CASES).is_file():
        return None
    claim = "Answers of a model to questions about these sessions, from views with equal tokens."
    return LoadedSuite(Suite(name=folder.resolve().name, claim=claim, recording="."), folder)


def _check_gates(suite: Suite) -> None:
    known, figures = {arm.name for arm in ARMS}, FIGURES.keys()
    listed = ", ".join(sorted(known))
    for gate in suite.gates:
        if gate.figure not in figures:
            raise msgspec.ValidationError(f"a gate names the figure {gate.figure!r}; known are {', '.join(figures)}")
        if strange := {gate.arm, *gate.beats} - known:
            raise msgspec.ValidationError(f"a gate names the arms {sorted(strange)}; known are {listed}")
        if gate.at_least is None and gate.at_most is None and not gate.beats:
            raise msgspec.ValidationError(f"the gate on {gate.figure!r} asks for nothing; give `at_least` or `beats`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to run, and what decides about it."""

    name: str
    claim: str
    sources: Sequence[CaseSource]
    plan: Plan
    gates: Sequence[Gate] = ()
    baseline: Path | None = None
    jobs: int = 1


def run_task(
    task: Task, watch: Callable[[SessionOutcome], None] | None = None, *, cassette: Cassette | None = None
) -> RunOutcome:
    """Run everything; `watch` is told of each session. An open cassette may record; else what is there is replayed."""
    sessions: list[SessionOutcome] = []
    for session in run_sources(task.sources, task.plan, jobs=task.jobs, cassette=cassette):
        sessions.append(session)
        if watch is not None:
            watch(session)
    run = RunOutcome(
        suite=task.name,
        claim=task.claim,
        arms=[arm.name for arm in task.plan.chosen()],
        settings=_reported_settings(task.plan),
        sessions=sessions,
    )
    return with_gates(run, task)


def _reported_settings(plan: Plan) -> dict[str, Any]:
    """The changed settings of the strategies."""
    changed = changed_settings(plan.settings).items()
    return {name: str(value) if isinstance(value, Path) else value for name, value in changed}


def with_gates(run: RunOutcome, task: Task) -> RunOutcome:
    """The run, judged by the suite's gates and by its baseline if one was accepted."""
    checked = check_gates(run, task.gates)
    if task.baseline is not None and (accepted := read_baseline(task.baseline)) is not None:
        checked += check_baseline(run, accepted)
    return msgspec.structs.replace(run, gates=checked)


def accept(run: RunOutcome, task: Task) -> RunOutcome:
    """Make the scores of a run the baseline; the run judged by it."""
    if task.baseline is not None:
        write_baseline(task.baseline, baseline_of(run))
    return with_gates(run, task)
