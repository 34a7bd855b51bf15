"""A run of tuning: split the sessions, run the optimizer on one half, judge its result on the other.

All budgets of a session stay in the same half. Each evaluation is a line of JSON in the run's folder, so an
interrupted run continues. The held-out half is read after the search, and nothing is chosen by it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.sources import CaseSource, Generated, Imported
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.outcomes import Interval, changed_settings, difference, recovered
from summarizing_context.evaluation.tuning.trials import (
    FIGURES,
    MODEL_COST,
    VIEW_COST,
    Pair,
    SessionScore,
    TrialPool,
    cost,
    most_changed,
    qualities,
    quality,
)
from summarizing_context.evaluation.tuning.variants import Optimizer, Variant
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import make_private_folder, open_private, write_private

Side = Literal["train", "validation"]


class Split(NamedTuple):
    """The two sides."""

    train: list[CaseSource]
    validation: list[CaseSource]

    def side(self, name: Side) -> list[CaseSource]:
        return self.train if name == "train" else self.validation


def split_sessions(sources: Sequence[CaseSource], seed: int) -> Split:
    """Half of the sessions of each kind to either side, by the hash of their names and the seed."""
    kinds: dict[str, set[str]] = {}
    for source in sources:
        kind, name = identity(source)
        kinds.setdefault(kind, set()).add(name)
    held_out: set[tuple[str, str]] = set()
    odd = 0  # of kinds with an odd number of sessions, every second one gives the larger half
    for kind in sorted(kinds):
        dealt = sorted(kinds[kind], key=lambda name: hashlib.sha256(f"{seed}/{kind}/{name}".encode()).hexdigest())
        half = (len(dealt) + odd) // 2
        odd ^= len(dealt) % 2
        held_out.update((kind, name) for name in dealt[:half])
    split = Split(
        [source for source in sources if identity(source) not in held_out],
        [source for source in sources if identity(source) in held_out],
    )
    if not split.train or not split.validation:
        raise SettingsError("tuning needs at least two sessions: one half to tune on, the other to judge by; give more")
    return split


def identity(source: CaseSource) -> tuple[str, str]:
    """The kind of a session, and its name within the kind, whatever its budget."""
    if isinstance(source, Generated):
        return source.recipe.domain, f"{source.recipe.seed}/{source.recipe.tokens}"
    if isinstance(source, Imported):
        return source.dataset, str(source.number)
    return source.path.parent.name, source.path.name


FILE = "evaluations.jsonl"
FORMAT = 1


class Header(msgspec.Struct, frozen=True):
    """The first line: whose evaluations follow."""

    task: str  # names sessions, split and settings
    format: int = FORMAT


class Evaluation(msgspec.Struct, frozen=True):
    """One variant on one side."""

    variant: str  # its key
    side: Side
    scores: list[SessionScore]


class Ledger:
    """The evaluations of one run, read from its folder and written there."""

    def __init__(self, folder: Path, task: str) -> None:
        self._path = folder / FILE
        self._known: dict[tuple[str, Side], list[SessionScore]] = {}
        make_private_folder(folder)
        whole = self._read(Header(task))
        write_private(self._path, whole)  # without a line that was cut off

    @property
    def evaluations(self) -> int:
        return len(self._known)

    def find(self, variant: str, side: Side) -> list[SessionScore] | None:
        return self._known.get((variant, side))

    def add(self, variant: str, side: Side, scores: list[SessionScore]) -> None:
        self._known[variant, side] = scores
        with open_private(self._path, append=True) as file:
            file.write(msgspec.json.encode(Evaluation(variant, side, scores)) + b"\n")

    def _read(self, header: Header) -> bytes:
        """The lines that are whole, and what they say."""
        content = self._path.read_bytes() if self._path.exists() else b""
        lines = content.split(b"\n")[:-1]
        if not lines:
            return msgspec.json.encode(header) + b"\n"
        try:
            found = msgspec.json.decode(lines[0], type=Header)
            read = [msgspec.json.decode(line, type=Evaluation) for line in lines[1:]]
        except msgspec.DecodeError as error:
            raise SettingsError(
                f"{self._path}: is not a run of tune ({error}); name another folder with --out"
            ) from error
        if found != header:
            raise SettingsError(
                f"{self._path.parent} holds a run with other sessions or settings; name another folder with --out, or "
                "delete it"
            )
        self._known = {(one.variant, one.side): one.scores for one in read}
        return b"\n".join(lines) + b"\n"


OUTCOME_FORMAT = 1
LEAST_SESSIONS = 5  # held-out ones, from which on an interval says something


class Figures(msgspec.Struct, frozen=True):
    """What one variant came to on one side."""

    quality: Interval
    figures: dict[str, float]  # means over sessions of its parts
    cost: float  # in what the run says
    view_tokens: float  # a view


class Tried(msgspec.Struct, frozen=True):
    """One variant."""

    number: int  # in the order in which they were tried, from 0
    name: str
    key: str
    train: Figures
    validation: Figures | None  # only of those that the report is about
    changes: list[str]  # against the start


class Verdict(msgspec.Struct, frozen=True):
    """What the held-out sessions say about the winner."""

    gain: Interval | None  # over the start
    gap: Interval | None  # of the shipped over the start
    recovered: Interval | None  # share of that gap
    wanted: float  # of it; 0 where nothing was asked

    @property
    def is_sure(self) -> bool:
        """Whether the winner is better than the start, by enough sessions and outside of the interval."""
        return self.gain is not None and self.gain.low > 0 and self.gain.sessions >= LEAST_SESSIONS

    @property
    def failed(self) -> bool:
        if not self.wanted:
            return False
        return not self.is_sure or self.recovered is None or self.recovered.mean < self.wanted


class TuneOutcome(msgspec.Struct, frozen=True):
    """A whole run."""

    suite: str
    claim: str
    optimizer: str
    seed: int
    stopped: str  # why it ended
    cost: str  # what the variants' cost is counted in
    sessions: dict[str, list[str]]  # by side
    tried: list[Tried]
    start: int  # numbers of variants
    winner: int
    shipped: int
    verdict: Verdict
    winner_tables: dict[str, dict[str, int]]  # its figures
    winner_prompts: dict[str, str]  # hashes by purpose
    settings: dict[str, Any]
    pairs: list[Pair] = []  # summaries of held-out sessions, by the start and by another variant
    paired: int = 0  # number of that variant: the winner, or where the start has won, the next best
    format: int = OUTCOME_FORMAT

    def at(self, number: int) -> Tried:
        return self.tried[number]


_SHOWN = 8  # variants besides start, shipped and winner that the held-out sessions judge


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneTask:
    """What to tune, on what, and how far."""

    name: str
    claim: str
    sources: Sequence[CaseSource]
    settings: Settings
    start: Variant
    optimizer: Optimizer
    folder: Path
    seed: int = 0
    evaluations: int = 120  # variants tried on the sessions that are tuned on
    seconds: float | None = None
    wanted: float = 0.0  # share of the gap to the shipped figures that must be regained
    jobs: int = 1
    cassette: Cassette | None = None  # where a model summarizes: what it has said, or says now


class _BudgetSpent(Exception):
    """The budget is spent. Never leaves this module."""


@dataclass(slots=True)
class _Run:
    task: TuneTask
    split: Split
    ledger: Ledger
    pool: TrialPool
    watch: Callable[[int, Variant, float], None]
    started: float = field(default_factory=time.monotonic)
    order: dict[str, Variant] = field(default_factory=dict)  # by key, as they were asked for
    qualities: dict[str, float] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)  # keys of what was the best, one after the other

    @property
    def sessions(self) -> int:
        return len(self.split.train)

    def accept(self, variant: Variant) -> None:
        self.quality_of(variant)
        self.accepted.append(variant.key)

    def best(self) -> Variant:
        """What the optimizer took last; where it took none, the best mean, of equals the first."""
        if self.accepted:
            return self.order[self.accepted[-1]]
        return self.order[max(self.qualities, key=lambda key: self.qualities[key])]

    def scores(self, variant: Variant) -> list[SessionScore]:
        self.quality_of(variant)
        return self.of(variant, "train")

    def quality_of(self, variant: Variant) -> float:
        """What a variant is worth on the sessions that are tuned on."""
        if variant.key in self.qualities:
            return self.qualities[variant.key]
        if len(self.order) >= self.task.evaluations:
            raise _BudgetSpent(f"the {self.task.evaluations:,} evaluations were spent")
        if self.order and self.ledger.find(variant.key, "train") is None:
            self._check_time()
        found = quality(self.of(variant, "train"))
        if found is None:
            raise SettingsError("the sessions that are tuned on ask for nothing: no value in them is used later")
        self.order[variant.key] = variant
        self.qualities[variant.key] = found.mean
        self.watch(len(self.order), variant, found.mean)
        return found.mean

    def _check_time(self) -> None:
        most = self.task.seconds
        if most is not None and time.monotonic() - self.started > most:
            raise _BudgetSpent(f"the {most:g} seconds were spent; run it again to go on")

    def of(self, variant: Variant, side: Side) -> list[SessionScore]:
        known = self.ledger.find(variant.key, side)
        if known is None:
            settings = variant.placed(self.task.settings, self.task.folder / "variants")
            known = list(self.pool.scores(self.split.side(side), settings))
            self.ledger.add(variant.key, side, known)
        return known

    def add_shipped(self) -> Variant:
        """The shipped figures and prompts, tried whatever the budget says; never a candidate."""
        return self.order.setdefault((shipped := Variant(name="shipped")).key, shipped)


def tune(task: TuneTask, watch: Callable[[int, Variant, float], None] = lambda *_: None) -> tuple[TuneOutcome, Variant]:
    """The whole run, and the variant that won; goes on where the folder's earlier run was interrupted.

    `watch` is told of each variant that is tried, by number, with its worth.
    """
    split = split_sessions(task.sources, task.seed)
    with TrialPool(task.jobs, task.cassette) as pool:
        run = _Run(task, split, Ledger(task.folder, _fingerprint(task, split)), pool, watch)
        stopped = "it found nothing better" if task.optimizer.name != "grid" else "all were tried"
        try:
            task.optimizer.run(task.start, run)
        except _BudgetSpent as reason:
            stopped = str(reason)
        return _outcome(run, stopped), run.best()


def _outcome(run: _Run, stopped: str) -> TuneOutcome:
    task, start = run.task, run.task.start
    best = run.best()
    shipped = run.add_shipped()
    judged = {variant.key for variant in (start, best, shipped)} | _shown(run)
    numbers = {key: number for number, key in enumerate(run.order)}
    tried = [_tried(run, variant, numbers[key], judged=key in judged) for key, variant in run.order.items()]
    held_out = {key: qualities(run.of(run.order[key], "validation")) for key in (start.key, best.key, shipped.key)}
    other = _other(run, best)
    verdict = Verdict(
        gain=difference(held_out[best.key], held_out[start.key]),
        gap=difference(held_out[shipped.key], held_out[start.key]),
        recovered=recovered(held_out[best.key], held_out[start.key], held_out[shipped.key]),
        wanted=task.wanted,
    )
    return TuneOutcome(
        suite=task.name,
        claim=task.claim,
        optimizer=task.optimizer.name,
        seed=task.seed,
        stopped=stopped,
        cost=MODEL_COST if any(score.model_tokens for score in run.of(best, "validation")) else VIEW_COST,
        sessions={side: _names(run.split.side(side)) for side in ("train", "validation")},
        tried=tried,
        start=numbers[start.key],
        winner=numbers[best.key],
        shipped=numbers[shipped.key],
        verdict=verdict,
        winner_tables=best.parameters.tables(),
        winner_prompts={prompt.name: prompt.hash for prompt in best.prompts},
        settings=_reported_settings(task),
        pairs=_pairs(run, other),
        paired=numbers[other.key],
    )


def _other(run: _Run, best: Variant) -> Variant:
    """The variant whose summaries are shown beside those of the start."""
    if best.key != run.task.start.key:
        return best
    others = [key for key in run.qualities if key != best.key]
    return run.order[max(others, key=lambda key: run.qualities[key])] if others else best


def _pairs(run: _Run, other: Variant) -> list[Pair]:
    task = run.task
    if other.key == task.start.key or (task.cassette is not None and task.cassette.mode == "forecast"):
        return []
    old, new = (variant.placed(task.settings, task.folder / "variants") for variant in (task.start, other))
    return most_changed(run.split.validation, old, new, task.cassette)


def _shown(run: _Run) -> set[str]:
    """What the held-out sessions judge besides: all of a few, else the last steps of the way that was taken."""
    few = len(run.qualities) <= 2 * _SHOWN
    return set(run.qualities) if few else set(run.accepted[-_SHOWN:])


def _tried(run: _Run, variant: Variant, number: int, *, judged: bool) -> Tried:
    return Tried(
        number=number,
        name=variant.name,
        key=variant.key,
        train=_figures(run.of(variant, "train")),
        validation=_figures(run.of(variant, "validation")) if judged else None,
        changes=variant.differences(run.task.start),
    )


def _figures(scores: Sequence[SessionScore]) -> Figures:
    found = quality(scores)
    views = max(1, sum(score.views for score in scores))
    parts = {}
    for figure in FIGURES:
        shares = [of / out_of for score in scores for of, out_of in [score.sums.get(figure, (0, 0))] if out_of]
        if shares:
            parts[figure] = sum(shares) / len(shares)
    if found is None:
        raise SettingsError("the held-out sessions ask for nothing: no value in them is used later; give more sessions")
    return Figures(found, parts, cost(scores), sum(score.view_tokens for score in scores) / views)


def _names(sources: Sequence[CaseSource]) -> list[str]:
    return sorted({"/".join(identity(source)) for source in sources})


def _fingerprint(task: TuneTask, split: Split) -> str:
    """Hash of sessions, split and settings. Evaluations of another hash are not used."""
    sources = [[repr(source) for source in side] for side in split]
    content = [sources, _reported_settings(task)]
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


def _reported_settings(task: TuneTask) -> dict[str, str]:
    return {name: str(value) for name, value in changed_settings(task.settings).items()}
