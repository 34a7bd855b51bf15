"""Suites: TOML files that name cases, budgets, gates and models; the run of a suite, and the verdict of its gates.

Suites are in `evals/suites` of a checkout. The package ships none. A hard gate compares a figure with a bound or with
other arms. A baseline gate compares each figure of the reference arm with accepted scores. A gate that every arm
passes is reported as vacuous.
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
from summarizing_context.evaluation.arms import ARMS, REFERENCE
from summarizing_context.evaluation.cases.facts import domain_names
from summarizing_context.evaluation.cases.sessions import Recipe
from summarizing_context.evaluation.cases.sources import CaseSource, Generated, folder_sources
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.figures import FIGURES
from summarizing_context.evaluation.models import CassetteFile, summarizes_by_model
from summarizing_context.evaluation.outcomes import (
    BASELINE,
    GateOutcome,
    Interval,
    RunOutcome,
    SessionOutcome,
    changed_settings,
    difference,
    indented,
    mean_of,
    session_values,
)
from summarizing_context.evaluation.real.recording import CASES
from summarizing_context.evaluation.real.scores import Bound
from summarizing_context.evaluation.runner import Plan, run_sources
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
    def cassette_file(self) -> CassetteFile | None:
        """Where the suite's summarizer speaks; None if it is no model."""
        return CassetteFile(self.cassette) if summarizes_by_model(self.settings()) else None

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


_DIGITS = 6
_ROUNDING = 10.0 ** (1 - _DIGITS)
_FREE = ("everything", "evidence")  # references that may pass any gate without making it vacuous


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on a figure of one arm: a bound, or a comparison with other arms."""

    figure: str
    arm: str = "hierarchical"
    at_least: float | None = None
    at_most: float | None = None
    beats: list[str] = []  # outside of the interval of the difference
    times: float = 1.0  # so many times what the others have
    source: str = ""  # only sessions of this source


class Baseline(msgspec.Struct, frozen=True):
    """Accepted scores: the figures of one arm in each session."""

    suite: str
    arm: str
    scores: dict[str, dict[str, float]]  # by figure, by session


def check_gates(run: RunOutcome, gates: Sequence[Gate]) -> list[GateOutcome]:
    """The hard gates of a suite."""
    return [_check(run, gate) for gate in gates]


def check_baseline(run: RunOutcome, baseline: Baseline) -> list[GateOutcome]:
    """No figure is worse than accepted by more than its interval. Figures that neither way is better are left out."""
    checked = []
    for figure, accepted in baseline.scores.items():
        if figure not in FIGURES or not (better := FIGURES[figure].better):
            continue
        change = difference(session_values(run.sessions, baseline.arm, figure), accepted)
        name = f"{BASELINE} {figure}"
        if change is None:
            checked.append(GateOutcome(name, "nothing to look at", "no session of the baseline has this figure now"))
            continue
        worse = change.high < -_ROUNDING if better > 0 else change.low > _ROUNDING
        mean, low, high = (round(value, 4) + 0.0 for value in change[:3])  # no minus before a zero
        words = f"{mean:+.4f} [{low:+.4f}, {high:+.4f}] against the accepted scores"
        checked.append(GateOutcome(name, "failed" if worse else "passed", words))
    return checked


def baseline_of(run: RunOutcome, arm: str = REFERENCE) -> Baseline:
    """The scores of a run, to be accepted."""
    scores = {}
    for figure, definition in FIGURES.items():
        if definition.better and (values := session_values(run.sessions, arm, figure)):
            scores[figure] = {key: round(value, _DIGITS) for key, value in values.items()}
    return Baseline(run.suite, arm, scores)


def read_baseline(path: Path) -> Baseline | None:
    """The accepted scores of a suite; None where none were accepted yet."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Baseline)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path.name}: no baseline ({error}); accept one anew with `eval run --accept`") from error


def write_baseline(path: Path, baseline: Baseline) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(indented(baseline))


def _check(run: RunOutcome, gate: Gate) -> GateOutcome:
    sessions = [session for session in run.sessions if not gate.source or session.source == gate.source]
    name = _name(gate)
    ours = mean_of(session_values(sessions, gate.arm, gate.figure))
    if ours is None:
        return GateOutcome(name, "nothing to look at", f"no session gives {gate.arm} this figure")
    if gate.beats:
        return _check_against(sessions, gate, name)
    passed = _within(gate, ours)
    others = [arm for arm in run.arms if arm not in (gate.arm, *_FREE)]
    means = {arm: mean for arm in others if (mean := mean_of(session_values(sessions, arm, gate.figure)))}
    words = f"{ours.mean:.4f} over {ours.sessions} sessions"
    if passed and means and all(_within(gate, mean) for mean in means.values()):
        return GateOutcome(name, "vacuous", f"{words}; but so do {', '.join(means)}")
    return GateOutcome(name, "passed" if passed else "failed", words)


def _check_against(sessions: Sequence[SessionOutcome], gate: Gate, name: str) -> GateOutcome:
    """Whether our arm is better than each of the others, by a margin outside of the interval."""
    comparisons, failed = [], False
    sign = FIGURES[gate.figure].better or 1
    ours = session_values(sessions, gate.arm, gate.figure)
    for arm in gate.beats:
        theirs = session_values(sessions, arm, gate.figure)
        margin = difference(ours, {key: gate.times * value for key, value in theirs.items()})
        if margin is None:
            return GateOutcome(name, "nothing to look at", f"no session gives both {gate.arm} and {arm} this figure")
        failed |= (margin.low if sign > 0 else -margin.high) <= 0
        comparisons.append(f"{arm} {margin.mean:+.4f} [{margin.low:+.4f}, {margin.high:+.4f}]")
    return GateOutcome(name, "failed" if failed else "passed", "; ".join(comparisons))


def _within(gate: Gate, found: Interval) -> bool:
    low = gate.at_least is None or found.mean >= gate.at_least - 1e-9
    return low and (gate.at_most is None or found.mean <= gate.at_most + 1e-9)


def _name(gate: Gate) -> str:
    words: list[Any] = [f"{gate.arm}: {FIGURES[gate.figure].title if gate.figure in FIGURES else gate.figure}"]
    words += [f"at least {gate.at_least:g}"] if gate.at_least is not None else []
    words += [f"at most {gate.at_most:g}"] if gate.at_most is not None else []
    times = f"{gate.times:g} times " if gate.times != 1 else ""
    words += [f"better than {times}{', '.join(gate.beats)}"] if gate.beats else []
    words += [f"on {gate.source} sessions"] if gate.source else []
    return ", ".join(words)


def has_failed(run: RunOutcome) -> bool:
    return any(gate.failed for gate in run.gates)
