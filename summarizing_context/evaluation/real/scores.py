"""Scores of the arms, from the judge's marks alone; which views the answers were read from; and bounds on scores.

Right counts one, partly right half, an abstention and a wrong answer nothing. Questions about what was never said are
counted apart. Intervals are of sessions; differences between arms are paired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from summarizing_context.evaluation.outcomes import GateOutcome, Interval, difference, mean_of
from summarizing_context.evaluation.real.arms import ARMS, COMPACT, OPTIONAL, OURS, build
from summarizing_context.evaluation.real.recording import (
    ABSENT,
    CATEGORIES,
    PARTLY,
    RIGHT,
    WRONG,
    Case,
    Question,
    Recording,
)

POINTS = {RIGHT: 1.0, PARTLY: 0.5}
Reading = Literal["this view", "an earlier view", "not read", "no view"]


class Count(msgspec.Struct, frozen=True):
    """Points out of questions, and the interval of the mean over sessions."""

    points: float
    questions: int
    mean: Interval | None
    ahead: Interval | None  # of the same from one-shot compaction


class ArmScore(msgspec.Struct, frozen=True):
    """The score of one arm."""

    arm: str
    about: str
    cases: int
    score: Count  # of all questions that have an answer
    categories: dict[str, Count]
    wrong: int  # answers that contradict the record
    absent: Count  # abstentions where nothing was said


class ViewRead(msgspec.Struct, frozen=True):
    """One view as it is now, and whether the recorded answers were read from it."""

    case: str
    arm: str
    tokens: int | None  # None where a reply is missing that the view needs
    reading: Reading


class Shown(msgspec.Struct, frozen=True):
    """One question with the answers of all arms, for a person to look at."""

    case: str
    question: Question
    answers: dict[str, tuple[str, int | None]]  # by arm: words and mark


class RealOutcome(msgspec.Struct, frozen=True):
    """The suite's outcome."""

    arms: list[ArmScore]
    views: list[ViewRead]
    questions: list[Shown]
    made_by: dict[str, list[str]]  # models, by what they did
    missing: int  # requests without a reply


def replay(
    recording: Recording, arms: Sequence[str], *, jobs: int = 1, watch: Callable[[str], None] = lambda _: None
) -> RealOutcome:
    """Rebuild every view, offline, and add up the marks. `watch` is told of each case."""
    views: list[ViewRead] = []
    missing = 0
    for case, (found, left) in zip(recording.cases, _rebuilt(recording, arms, jobs), strict=True):
        views += found
        missing += left
        watch(case.name)
    return RealOutcome(scores(recording, arms), views, list(_shown(recording, arms)), _makers(recording), missing)


def scores(recording: Recording, arms: Iterable[str]) -> list[ArmScore]:
    """The scores of the arms that have marks, in their order."""
    marked = {arm for _, _, arm in recording.marks}
    return [_score(recording, arm) for arm in arms if arm in marked]


def _score(recording: Recording, arm: str) -> ArmScore:
    marks = _marks(recording, arm)
    answered = [mark for categories in marks.values() for category in CATEGORIES for mark in categories[category]]
    return ArmScore(
        arm=arm,
        about=ARMS[arm],
        cases=len({case for case, _, name in recording.marks if name == arm}),
        score=_count(recording, arm, CATEGORIES),
        categories={category: _count(recording, arm, (category,)) for category in CATEGORIES},
        wrong=answered.count(WRONG),
        absent=_count(recording, arm, (ABSENT,)),
    )


def _count(recording: Recording, arm: str, categories: Sequence[str]) -> Count:
    values = _shares(_marks(recording, arm), categories)
    theirs = _shares(_marks(recording, COMPACT), categories)
    marks = [mark for found in _marks(recording, arm).values() for category in categories for mark in found[category]]
    ahead = difference(values, theirs) if arm != COMPACT else None
    return Count(sum(POINTS.get(mark, 0.0) for mark in marks), len(marks), mean_of(values), ahead)


def _marks(recording: Recording, arm: str) -> dict[str, dict[str, list[int]]]:
    """Marks by session and category."""
    found: dict[str, dict[str, list[int]]] = {}
    for case in recording.cases:
        for question in recording.questions(case):
            mark = recording.marks.get((case.name, question.id, arm))
            if mark is not None:
                mine = found.setdefault(case.drawn_as, {category: [] for category in (*CATEGORIES, ABSENT)})
                mine[question.category].append(mark.mark)
    return found


def _shares(marks: Mapping[str, Mapping[str, Sequence[int]]], categories: Sequence[str]) -> dict[str, float]:
    """The share of the points in each session that has such a question."""
    shares = {}
    for session, found in marks.items():
        if listed := [mark for category in categories for mark in found[category]]:
            shares[session] = sum(POINTS.get(mark, 0.0) for mark in listed) / len(listed)
    return shares


def _rebuilt(recording: Recording, arms: Sequence[str], jobs: int) -> Iterator[tuple[list[ViewRead], int]]:
    work = partial(_views, recording.folder, arms=tuple(arms))
    names = [case.name for case in recording.cases]
    if min(jobs, len(names)) <= 1:
        yield from map(work, names)
        return
    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, names)


def _views(folder: Path, name: str, *, arms: Sequence[str]) -> tuple[list[ViewRead], int]:
    """The views of one case as they are now, and how many requests have no reply. An optional arm that nobody has read
    here is left out."""
    recording = Recording.open(folder)
    case = next(case for case in recording.cases if case.name == name)
    arms = [arm for arm in arms if arm not in OPTIONAL or (name, arm) in recording.answers]
    built = anyio.run(build, case, recording.messages(case), recording.replies, arms, recording.settings)
    found = []
    for arm in arms:
        view, answers = built.views.get(arm), recording.answers.get((name, arm))
        reading: Reading = "this view"
        if view is None:
            reading = "no view"
        elif answers is None:
            reading = "not read"
        elif answers.view != view.digest:
            reading = "an earlier view"
        found.append(ViewRead(name, arm, view.tokens if view is not None else None, reading))
    return found, len(built.missing) + built.waiting


def _shown(recording: Recording, arms: Sequence[str]) -> Iterator[Shown]:
    for case in recording.cases:
        for question in recording.questions(case):
            answers = {
                arm: (answers.answers.get(question.id, ""), _mark(recording, case, question, arm))
                for arm in arms
                if (answers := recording.answers.get((case.name, arm))) is not None
            }
            if answers:
                yield Shown(case.name, question, answers)


def _mark(recording: Recording, case: Case, question: Question, arm: str) -> int | None:
    mark = recording.marks.get((case.name, question.id, arm))
    return mark.mark if mark is not None else None


def _makers(recording: Recording) -> dict[str, list[str]]:
    """Who wrote, read and judged, each with how often."""
    found = {
        "summaries": Counter(f"{one.model}, {one.reading}" for one in recording.replies.values()),
        "answers": Counter(f"{one.model}, {one.reading}" for one in recording.answers.values()),
        "marks": Counter(one.model for one in recording.marks.values()),
    }
    return {name: [f"{maker} ({count:,})" for maker, count in counts.most_common()] for name, counts in found.items()}


ALL = "all"  # every question that has an answer


class Bound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the score of an arm must reach: a share, a lead over one-shot compaction, or no certain lag behind it."""

    category: str = ALL  # or `absent`
    arm: str = OURS
    at_least: float | None = None
    ahead_by: float | None = None  # of the mean difference
    not_behind: bool = False  # the interval of the difference does not lie wholly below zero

    @property
    def name(self) -> str:
        words = f"{self.arm}, {self.category}"
        words += f", at least {self.at_least:.0%}" if self.at_least is not None else ""
        words += f", {100 * self.ahead_by:g} points ahead of {COMPACT}" if self.ahead_by is not None else ""
        return words + (f", not behind {COMPACT}" if self.not_behind else "")


def check_bounds(scores: Sequence[ArmScore], bounds: Sequence[Bound]) -> list[GateOutcome]:
    """What became of the bounds, in their order."""
    by_arm = {score.arm: score for score in scores}
    return [_check(by_arm.get(bound.arm), bound) for bound in bounds]


def _check(score: ArmScore | None, bound: Bound) -> GateOutcome:
    count = _counted(score, bound.category) if score is not None else None
    lead = count.ahead if count is not None else None
    compared = bound.ahead_by is not None or bound.not_behind
    if count is None or count.mean is None or (compared and lead is None):
        return GateOutcome(bound.name, "nothing to look at", "no marks are recorded for it")
    words = f"{count.mean.mean:.1%} [{count.mean.low:.1%}, {count.mean.high:.1%}]"
    kept = bound.at_least is None or count.mean.mean >= bound.at_least
    if lead is not None and compared:
        words += f", {100 * lead.mean:+.1f} points [{100 * lead.low:+.1f}, {100 * lead.high:+.1f}] from {COMPACT}"
        kept = kept and (bound.ahead_by is None or lead.mean >= bound.ahead_by)
        kept = kept and not (bound.not_behind and lead.high < 0)
    return GateOutcome(bound.name, "passed" if kept else "failed", words)


def _counted(score: ArmScore, category: str) -> Count | None:
    if category == ALL:
        return score.score
    return score.absent if category == "absent" else score.categories.get(category)
