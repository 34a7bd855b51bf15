"""Suites of recorded answers, and the scores of their arms, from the judge's marks alone.

Right counts one, partly right half, an abstention and a wrong answer nothing. Questions about what was never said are
counted apart. Intervals are of sessions; differences between arms are paired.

A suite is a TOML file in `evals/suites` of a checkout that names a recording and bounds on its scores, or a folder of
`eval ask`. The package ships none.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.outcomes import Interval, difference, for_each, mean_of
from summarizing_context.evaluation.real.arms import ARMS, COMPACT, OURS, build
from summarizing_context.evaluation.real.recording import (
    ABSENT,
    CASES,
    CATEGORIES,
    PARTLY,
    RIGHT,
    WRONG,
    Question,
    Recording,
)


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
    reading: Literal["this view", "an earlier view", "not read", "no view"]


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
    work, names = partial(_rebuild, recording.folder, tuple(arms)), [case.name for case in recording.cases]
    for name, (found, left) in zip(names, for_each(names, work, jobs), strict=True):
        views += found
        missing += left
        watch(name)
    shown = []
    for case in recording.cases:
        read = {arm: recording.answers[case.name, arm] for arm in arms if (case.name, arm) in recording.answers}
        for question in recording.questions(case) if read else ():
            answers: dict[str, tuple[str, int | None]] = {}
            for arm, said in read.items():
                mark = recording.marks.get((case.name, question.id, arm))
                answers[arm] = said.answers.get(question.id, ""), None if mark is None else mark.mark
            shown.append(Shown(case.name, question, answers))
    makers = {
        "summaries": Counter(f"{one.model}, {one.reading}" for one in recording.replies.values()),
        "answers": Counter(f"{one.model}, {one.reading}" for one in recording.answers.values()),
        "marks": Counter(one.model for one in recording.marks.values()),
    }
    made_by = {what: [f"{maker} ({n:,})" for maker, n in counts.most_common()] for what, counts in makers.items()}
    return RealOutcome(scores(recording, arms), views, shown, made_by, missing)


def _rebuild(folder: Path, arms: Sequence[str], name: str) -> tuple[list[ViewRead], int]:
    """Return the views of one case as they are now, and how many requests have no reply."""
    recording = Recording.open(folder)
    case = next(case for case in recording.cases if case.name == name)
    built = anyio.run(build, case, recording.messages(case), recording.replies, arms, recording.settings)
    found = []
    for arm in arms:
        view, answers = built.views.get(arm), recording.answers.get((name, arm))
        reading: Literal["this view", "an earlier view", "not read", "no view"] = "no view"
        if view is not None:
            reading = "not read"
            if answers is not None:
                reading = "this view" if answers.view == view.digest else "an earlier view"
        found.append(ViewRead(name, arm, None if view is None else view.tokens, reading))
    return found, len(built.missing) + built.waiting


def scores(recording: Recording, arms: Iterable[str]) -> list[ArmScore]:
    """Return the scores of the arms that have marks, in their order."""
    marks: dict[str, dict[str, list[tuple[str, int]]]] = {}  # by arm and category: session and mark
    for case in recording.cases:
        for question in recording.questions(case):
            for arm in ARMS:
                if (mark := recording.marks.get((case.name, question.id, arm))) is not None:
                    by_category = marks.setdefault(arm, {})
                    by_category.setdefault(question.category, []).append((case.drawn_as, mark.mark))

    def sessions(arm: str, categories: Sequence[str]) -> dict[str, list[float]]:
        """The points of an arm, by session."""
        found: dict[str, list[float]] = {}
        for session, mark in (one for category in categories for one in marks.get(arm, {}).get(category, ())):
            found.setdefault(session, []).append({RIGHT: 1.0, PARTLY: 0.5}.get(mark, 0.0))
        return found

    def count(arm: str, *categories: str) -> Count:
        ours, theirs = sessions(arm, categories), sessions(COMPACT, categories)
        shares, others = ({key: sum(of) / len(of) for key, of in found.items()} for found in (ours, theirs))
        ahead = difference(shares, others) if arm != COMPACT else None
        return Count(sum(map(sum, ours.values())), sum(map(len, ours.values())), mean_of(shares), ahead)

    return [
        ArmScore(
            arm=arm,
            about=ARMS[arm],
            cases=len({case for case, _, name in recording.marks if name == arm}),
            score=count(arm, *CATEGORIES),
            categories={category: count(arm, category) for category in CATEGORIES},
            wrong=sum(mark == WRONG for category in CATEGORIES for _, mark in marks[arm].get(category, ())),
            absent=count(arm, ABSENT),
        )
        for arm in arms
        if arm in marks
    ]


class Bound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the score of an arm must reach: a share, or no certain lag behind one-shot compaction."""

    category: str = "all"  # every question that has an answer; or one of the categories
    arm: str = OURS
    at_least: float | None = None
    not_behind: bool = False  # the interval of the difference does not lie wholly below zero


class GateOutcome(msgspec.Struct, frozen=True):
    """What became of one bound on a score."""

    name: str
    result: Literal["passed", "failed", "nothing to look at"]
    words: str

    @property
    def failed(self) -> bool:
        """Whether the run fails by it."""
        return self.result != "passed"


def check_bounds(scores: Sequence[ArmScore], bounds: Sequence[Bound]) -> list[GateOutcome]:
    """Return what became of the bounds, in their order."""
    found = []
    for bound in bounds:
        name = f"{bound.arm}, {bound.category}"
        name += f", at least {bound.at_least:.0%}" if bound.at_least is not None else ""
        name += f", not behind {COMPACT}" if bound.not_behind else ""
        score = next((score for score in scores if score.arm == bound.arm), None)
        known = {} if score is None else {"all": score.score, ABSENT: score.absent, **score.categories}
        count = known.get(bound.category)
        if count is None or count.mean is None or (bound.not_behind and count.ahead is None):
            found.append(GateOutcome(name, "nothing to look at", "no marks are recorded for it"))
            continue
        words = f"{count.mean.mean:.1%} [{count.mean.low:.1%}, {count.mean.high:.1%}]"
        kept = bound.at_least is None or count.mean.mean >= bound.at_least
        if bound.not_behind and (lead := count.ahead) is not None:
            words += f", {100 * lead.mean:+.1f} points [{100 * lead.low:+.1f}, {100 * lead.high:+.1f}] from {COMPACT}"
            kept = kept and lead.high >= 0
        found.append(GateOutcome(name, "passed" if kept else "failed", words))
    return found


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite file says; `recording` is a folder, and `cassette` the file of what is recorded for it, seen from
    the checkout."""

    name: str
    claim: str
    recording: str
    bounds: list[Bound] = []
    cassette: str = ""  # else evals/cassettes/<name>.jsonl


def load_suite(name: str, start: Path) -> Suite:
    """Return a suite by its name, or the recorded answers of a folder. Raise `SettingsError`."""
    if (own := recorded_folder(Path(name))) is not None:
        return own
    suites = Path("evals") / "suites"
    root = next((folder for folder in (start, *start.parents) if (folder / suites).is_dir()), None)
    if root is None:
        raise SettingsError(
            f"suite {name!r}: named suites stand in {suites.as_posix()} of a checkout, and this is none; "
            "take --cases or --dataset with data of your own, or a folder that `eval ask` has recorded"
        )
    path = root / suites / f"{name}.toml"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in path.parent.glob("*.toml"))) or "none"
        raise SettingsError(f"there is no suite {name!r} in {suites.as_posix()}; there are: {there}")
    try:
        suite = msgspec.convert(tomllib.loads(path.read_text(encoding="utf8")), Suite)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{suites.as_posix()}/{path.name}: {error}") from error
    cassette = root / (suite.cassette or f"evals/cassettes/{suite.name}.jsonl")
    return msgspec.structs.replace(suite, recording=str(root / suite.recording), cassette=str(cassette))


def recorded_folder(folder: Path) -> Suite | None:
    """Return a folder of recorded answers as a suite; None if it is none."""
    if not (folder / CASES).is_file():
        return None
    claim = "Answers of a model to questions about these sessions, from views with equal tokens."
    return Suite(name=folder.resolve().name, claim=claim, recording=str(folder))
