"""The report of a run: every question with what each arm's view said, scores with intervals, a verdict, and gates.

A score is a mean over sessions. Intervals hold 95 % of 1,000 seeded draws of sessions, for the questions of one session
stand and fall together; differences are paired by question. Equal runs write equal bytes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Self
from xml.etree import ElementTree as xml

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.datasets import ABSENT, indented
from summarizing_context.evaluation.views import OTHERS
from summarizing_context.messages.text import inert
from summarizing_context.models import dollars
from summarizing_context.stores.private_files import replace_private, write_private

RIGHT, EVIDENCE, HELD = "right", "evidence", "held"
AT_MOST = ("laws", "tokens", "cost", "wrong")  # figures that a gate bounds from above
DRAWS = 1_000
MIN_SESSIONS = 5  # from which on an interval says something

Bounds = Mapping[str, float | str] | str  # as `read_bounds` takes them
Points = Mapping[tuple[str, str, str], float]  # by session, case and question
Cell = tuple[str, str]  # of a table: a text, and what may stand behind it or below, such as the ends of an interval


class Interval(NamedTuple):
    """A mean over sessions, and where it lies in 95 % of the draws."""

    mean: float
    low: float
    high: float
    sessions: int
    questions: int = 0
    changed: int | None = None  # questions, of a difference

    @property
    def has_ends(self) -> bool:
        """Whether there are enough sessions for its ends to say something."""
        return self.sessions >= MIN_SESSIONS

    @property
    def document(self) -> dict[str, Any]:
        """Its fields as JSON values, and whether the ends say something."""
        return {**self._asdict(), "has_ends": self.has_ends}

    def words(self, form: str = ".1f", unit: str = "%") -> Cell:
        """Return its mean and, where they say something, its ends, as terminal, page and verdict show them."""
        mean, low, high = (f"{100 * one:{form}}" for one in self[:3])
        return f"{mean}{unit}", f"{low} to {high}" if self.has_ends else ""


def by_session(points: Points) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for (session, _, _), value in points.items():
        found.setdefault(session, []).append(value)
    return {session: sum(values) / len(values) for session, values in found.items()}


@lru_cache(maxsize=64)
def _draws(count: int) -> list[list[int]]:  # of sessions, with replacement, the same for every figure
    rng = random.Random(f"sessions/{count}")
    return [rng.choices(range(count), k=count) for _ in range(DRAWS)]


def mean_of(points: Points) -> Interval | None:
    """Return the mean over sessions with its interval, by a bootstrap of sessions; None of nothing."""
    if not points:
        return None
    listed = [value for _, value in sorted(by_session(points).items())]
    means = sorted(sum(map(listed.__getitem__, draw)) / len(listed) for draw in _draws(len(listed)))
    low, high = (means[round(share * (DRAWS - 1))] for share in (0.025, 0.975))
    return Interval(sum(listed) / len(listed), low, high, len(listed), len(points))


def paired(ours: Points, theirs: Points) -> Interval | None:
    """Return by how much ours are more than theirs, over the questions that both have."""
    change = {key: ours[key] - theirs[key] for key in ours if key in theirs}
    return (found := mean_of(change)) and found._replace(changed=sum(value != 0 for value in change.values()))


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the view of one arm said to a question, and the points from 0 to 1 of each metric."""

    said: str = ""
    points: dict[str, float] = {}
    mark: int | None = None  # of a judge: 2 right, 1 partly, 0 abstained, -1 wrong


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question about one place of a session."""

    session: str
    case: str
    id: str
    question: str
    answers: dict[str, Answer]  # by arm
    category: str = ""
    gold: str = ""
    values: list[str] = []  # that a view has to hold word for word
    evidence: list[tuple[int, str]] = []  # message, and its words around the answer


class Viewed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One view. `reading` says of recorded answers whether they were read from it."""

    case: str
    arm: str
    tokens: int | None
    reading: str = ""


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one arm took for one session: tokens that models read and wrote for summaries, and broken laws."""

    session: str
    arm: str
    history_tokens: int
    input_tokens: int = 0
    output_tokens: int = 0
    laws: dict[str, int] | None = None  # that were broken, with how often; None where no view was judged
    summaries: list[tuple[int, int, str]] = []  # first message, one past the last, text
    dropped: int = 0  # lines that were taken out of replies, for their source does not hold them
    stand_ins: int = 0  # segments of which no reply can serve, so that an extract stands for them


class Pair(msgspec.Struct, frozen=True):
    """Two summaries of the same messages, the messages, and what is needed of them later."""

    session: str
    start: int
    stop: int  # one past the last message
    source: str
    old: str
    new: str
    needed: list[str]
    old_keeps: list[str]
    new_keeps: list[str]


class Tuning(msgspec.Struct, frozen=True):
    """What `tune` adds: the difference of prompts, and summaries side by side."""

    old: str  # arm
    new: str  # arm that is compared with it
    diff: list[str]  # lines
    pairs: list[Pair]
    chosen_on: list[str]  # sessions that chose; none where nothing had to be chosen
    judged_on: list[str]
    tried: dict[str, Interval | None]  # arms by their score on the sessions that chose, or on all
    dollars: dict[str, float | None]  # price of the summaries of 1,000,000 tokens of history, by arm
    winner: str
    why: str = ""  # the new arm is not the winner


class Gate(msgspec.Struct, frozen=True):
    """What became of one bound. What nothing was measured for has failed."""

    name: str
    passed: bool
    words: str


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that a run has measured. `baseline` is the arm that the others are compared with."""

    name: str
    arms: dict[str, str]  # what each one is, the measured one first
    metric: str  # the one that counts
    baseline: str
    asked: list[Asked]
    views: list[Viewed]
    spent: list[Spent]
    settings: dict[str, dict[str, Any]] = {}  # by arm, what is not default
    made_by: dict[str, list[str]] = {}  # models, by what they did
    missing: int = 0  # requests without a recorded reply
    left_out: list[str] = []  # lines and places that were not measured, with the reason
    notes: list[str] = []  # on what was measured all the same
    tuning: Tuning | None = None

    # Scores

    @property
    def first(self) -> str:
        """The arm that the run is about."""
        return next(iter(self.arms))

    @property
    def best(self) -> str:
        """The best of the other arms, which the first is compared with; the first itself where there is no other."""
        scores = {name: score for name in self.arms if name != self.first and (score := self.score(name))}
        return max(scores, key=scores.__getitem__, default=self.first)

    @property
    def categories(self) -> list[str]:
        """The categories of all questions that have an answer."""
        return list(dict.fromkeys(one.category for one in self.asked if one.category not in ("", ABSENT)))

    @property
    def metrics(self) -> list[str]:
        """All metrics that questions were scored by, the one that counts first."""
        answers = (answer for one in self.asked for answer in one.answers.values())
        return list(dict.fromkeys([self.metric, *(name for answer in answers for name in answer.points)]))

    def points(self, arm: str, metric: str = "", category: str = "all") -> dict[tuple[str, str, str], float]:
        """Return the points of an arm by session, case and question."""
        metric = metric or self.metric
        if arm not in self.arms:
            raise SettingsError(f"there is no arm {arm!r} in this report; there are {', '.join(self.arms)}")
        return {
            (one.session, one.case, one.id): answer.points[metric]
            for one in self.asked
            if (answer := one.answers.get(arm)) is not None and metric in answer.points
            if (category == one.category if category != "all" else one.category != ABSENT)
        }

    def score(self, arm: str, metric: str = "", category: str = "all") -> Interval | None:
        """Return the mean over sessions; None where nothing was asked."""
        return mean_of(self.points(arm, metric, category))

    def ahead(self, arm: str, other: str = "", category: str = "all") -> Interval | None:
        """Return how far an arm is ahead of another, the baseline if none is named, over questions that both have."""
        return paired(self.points(arm, "", category), self.points(other or self.baseline, "", category))

    def figure(self, arm: str, name: str) -> float | None:
        """Return a figure of an arm that is no score: `tokens` of a view, `cost` (tokens of models for 1,000 tokens of
        history), broken `laws`, `wrong` answers, lines `dropped` from replies. None where it is not known."""
        spent = [one for one in self.spent if one.arm == arm]
        if name == "tokens":
            sizes = [one.tokens for one in self.views if one.arm == arm and one.tokens is not None]
            return sum(sizes) / len(sizes) if sizes else None
        if name == "wrong":
            said = [one.answers[arm].mark for one in self.asked if arm in one.answers and one.category != ABSENT]
            return said.count(-1) if any(mark is not None for mark in said) else None
        if name == "dropped":
            return sum(one.dropped for one in spent) if spent else None
        if name == "cost":
            history = sum(one.history_tokens for one in spent)
            return 1_000 * sum(one.input_tokens + one.output_tokens for one in spent) / history if history else None
        judged = [sum(one.laws.values()) for one in spent if one.laws is not None]
        return sum(judged) if judged else None

    @property
    def verdict(self) -> str:
        """What the run says, in a sentence or two."""
        if self.tuning is not None:  # how far it is ahead, at what price, and on what
            arm, other = self.tuning.new, self.tuning.old
            if arm == other:
                return "Nothing was tried: no proposal keeps the rules for prompts."
            said = f"{arm}: {in_words(self.ahead(arm, other))}"
            for name, what in (("tokens", "tokens in a view"), ("cost", "tokens for summaries")):
                ours, theirs = self.figure(arm, name), self.figure(other, name)
                if ours and theirs and abs(change := ours / theirs - 1) >= 0.005:
                    said += f", at {abs(change):.0%} {'more' if change > 0 else 'fewer'} {what}"
            if (useless := self.useless(arm)) > self.useless(other):
                said += f"; of {useless:.0%} of its segments no reply can serve, and extracts stand for them"
            return f"{said}{self._by_category(arm, other)}."
        arm, score = self.first, self.score(self.first)
        if score is None:
            return "Nothing was measured; each session is named with the reason."
        mean, ends = score.words()
        said = f"{arm}: {mean} {self.metric}" + (f", interval {ends}" if ends else "")
        other = self.baseline or self.best
        if other != arm:
            said += f". Against {other}: {in_words(self.ahead(arm, other))}{self._by_category(arm, other)}"
        broken = self.figure(arm, "laws")
        return f"{said}. " + (f"{broken:,.0f} broken laws." if broken else "No law was broken." if broken == 0 else "")

    def _by_category(self, arm: str, other: str) -> str:
        """Say on which categories an arm is ahead of another and on which it is not."""
        leads = {name: lead for name in self.categories if (lead := self.ahead(arm, other, category=name))}
        words = {name: in_words(lead) for name, lead in leads.items()}
        sides = {side: [name for name in words if words[name].startswith(side)] for side in ("better", "worse")}
        is_better = in_words(self.ahead(arm, other)).startswith("better by ")  # then also where the means are equal
        below = [name for name, lead in leads.items() if lead.mean < 0 or (is_better and lead.mean == 0)]
        sides["not better" if is_better else "lower"] = [name for name in below if name not in sides["worse"]]
        return "".join(f"; {side} on {', '.join(names)}" for side, names in sides.items() if names)

    def useless(self, arm: str) -> float:
        """Return the share of segments of which no reply can serve."""
        rows = [one for one in self.spent if one.arm == arm]
        missing = sum(one.stand_ins for one in rows)
        return missing / max(1, missing + sum(len(one.summaries) for one in rows))

    # Gates

    def check(self, bounds: Bounds) -> list[Gate]:
        """Return what became of bounds for figures of the first arm: `{"right": 0.9, "laws": 0}`, or as `read_bounds`
        takes them. Raise `SettingsError` as it does."""
        arm, gates, is_marked = self.first, list[Gate](), HELD not in self.metrics
        for metric, bound in read_bounds(bounds, is_marked=is_marked, own=self.metrics).items():
            passed, words = False, "nothing to look at"
            name = f"{arm}, {metric}, " + (f"at most {bound:g}" if metric in AT_MOST else f"at least {bound:.1%}")
            if metric in AT_MOST and (figure := self.figure(arm, metric)) is not None:
                passed, words = figure <= bound, f"{figure:,.6g}"
            elif (score := self.score(arm, metric)) is not None:
                mean, ends = score.words()
                passed, words = score.mean >= bound, mean + (f" [{ends}]" if ends else "")
            gates.append(Gate(name, passed, words))
        return gates

    def compare(self, old: Report) -> list[tuple[str, str, Interval, bool]]:
        """Return for arms with this package what is compared, the change since an older run, and if that is surely
        worse. Raise `SettingsError` where the runs share no question."""
        found: list[tuple[str, str, Interval, bool]] = []
        for arm in (name for name in self.arms if name in old.arms and name not in OTHERS):
            scores = [(metric, metric, "all") for metric in self.metrics]
            for said, metric, name in scores + [(name, self.metric, name) for name in (*self.categories, ABSENT)]:
                change = paired(self.points(arm, metric, name), old.points(arm, metric, name))
                if change is not None:
                    found.append((arm, said, change, change.has_ends and change.high < 0))
            before, after = old.figure(arm, "laws"), self.figure(arm, "laws")
            if before is not None and after is not None:
                rise = after - before
                found.append((arm, "laws", Interval(rise, rise, rise, 1), rise > 0))
        if all(what == "laws" for _, what, _, _ in found):
            raise SettingsError("the runs share no question and arm; compare runs on the same logs and budget")
        return found

    def differences(self, old: Report) -> list[str]:
        """Return in words what else is not as in an older run: questions, tokens of views, settings."""
        asked, found = [{(one.session, one.case, one.id) for one in run.asked} for run in (old, self)], list[str]()
        for run, only in (("old", asked[0] - asked[1]), ("new", asked[1] - asked[0])):
            found += [f"only the {run} run has {len(only):,} question{'s' * (len(only) > 1)}"] if only else []
        for arm in self.arms:  # shares say little where the views had more room
            old_size, size = (run.figure(arm, "tokens") or 0.0 for run in (old, self))
            if old_size and abs(size - old_size) > 0.02 * old_size:
                found.append(f"{arm}: its views have {size:,.0f} tokens, in the old run {old_size:,.0f}")
        for arm, now in self.settings.items():
            was = old.settings.get(arm, now)
            for name in sorted(name for name in {*was, *now} if was.get(name) != now.get(name)):
                one, other = (each.get(name, "as shipped") for each in (was, now))
                found.append(f"{arm}: {name} was {one} in the old run, {other} in the new one")
        return found

    # Tables and files

    def tables(self, gates: Sequence[Gate] = ()) -> dict[str, tuple[list[str], list[list[Cell]]]]:
        """Return the heads and rows of all tables by their titles, for the terminal and the page."""

        def told(score: Interval | None, *form: str) -> Cell:
            return ("–", "") if score is None else score.words(*form)

        (metric, *others), tuning = self.metrics, self.tuning
        names = [name for name in ("wrong", "tokens", "cost", "laws") if name != "wrong" or metric == RIGHT]
        names += [] if tuning is None else ["dropped"]
        heads, rows = ["arm", metric, f"ahead of {self.baseline}", *others, *names], list[list[Cell]]()
        for arm, about in self.arms.items():
            ahead = ("", "") if arm == self.baseline else told(self.ahead(arm), "+.1f", "")
            row = [(arm, about), told(self.score(arm)), ahead, *(told(self.score(arm, name)) for name in others)]
            figures = (self.figure(arm, name) for name in names)
            rows.append([*row, *(("–" if one is None else f"{one:,.0f}", "") for one in figures)])
        found = {"Arms": (heads, rows)}
        if tuning is not None:
            heads.append("$ for 1M")
            for row in rows:
                row.append((dollars(tuning.dollars.get(row[0][0])), ""))
            if len(tuning.tried) > 2 or tuning.chosen_on:
                where = "on choosing sessions" if tuning.chosen_on else "score"
                found["Tried"] = ["prompt", where], [[(name, ""), told(one)] for name, one in tuning.tried.items()]
        if kinds := self.categories:
            kinds += [ABSENT] if self.points(self.first, "", ABSENT) else []
            asked = Counter(one.category for one in self.asked)
            first = ((kind, f"{asked[kind]} asked") for kind in kinds)
            scores = [[head, *(told(self.score(arm, "", head[0])) for arm in self.arms)] for head in first]
            found["By category"] = ["category", *self.arms], scores
        if gates:
            cells = ((one.name, "passed" if one.passed else "failed", one.words) for one in gates)
            found["Gates"] = ["gate", "result", "figures"], [[(cell, "") for cell in row] for row in cells]
        return found

    def document(self, gates: Sequence[Gate] = ()) -> dict[str, Any]:
        """Return the figures as JSON values; what they were worked out of is in `report.json`."""
        own = ("name", "verdict", "metric", "metrics", "baseline", "missing", "left_out", "notes")
        document = {**{name: getattr(self, name) for name in own}, "arms": {}, "questions": len(self.asked)}
        for arm, about in self.arms.items():
            scores = {**{name: self.score(arm, name) for name in self.metrics}, "ahead": self.ahead(arm)}
            categories = (*self.categories, *([ABSENT] if self.points(arm, "", ABSENT) else []))
            by_category = {name: self.score(arm, "", name) for name in categories}
            document["arms"][arm] = {
                "about": about,
                **{name: one and one.document for name, one in scores.items()},
                "categories": {name: one and one.document for name, one in by_category.items()},
                "points": sum(self.points(arm).values()),
                "questions": len(self.points(arm)),
                **{name: self.figure(arm, name) for name in (*AT_MOST, "dropped")},
            }
        tuning = {} if self.tuning is None else {"tuning": msgspec.to_builtins(self.tuning)}
        return {**document, "gates": msgspec.to_builtins(gates), **tuning}

    def write(self, folder: Path | str, gates: Sequence[Gate] = ()) -> Path:
        """Write `report.json` and the page `report.html` into a folder; return the page."""
        folder, whole = Path(folder), msgspec.to_builtins(self)
        page = (files("summarizing_context.evaluation") / "report.html").read_text(encoding="utf8")
        # Nothing in a text ends the element, and control characters become dots, as on a terminal.
        shown = {**whole, "figures": self.document(gates), "tables": self.tables(gates)}
        data = inert(json.dumps(shown, ensure_ascii=False)).replace("<", "\\u003c")
        replace_private(folder / "report.json", indented({"figures": shown["figures"], **whole}))
        page = page.replace("{{verdict}}", escape(inert(self.verdict))).replace("{{data}}", data)
        replace_private(folder / "report.html", page.encode("utf8", "replace"))
        return folder / "report.html"

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a report of a folder, or a `report.json`. Raise `SettingsError` where there is none."""
        file = Path(path) / "report.json" if Path(path).is_dir() else Path(path)
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError) as error:
            why = f"is not the report of a run ({type(error).__name__}); name its folder"
            why = why if Path(path).exists() else "there is no such folder or file; name the folder of a run"
            raise SettingsError(f"{file}: {why}") from error


def in_words(change: Interval | None) -> str:
    """Return a difference as a person says it."""
    if change is None:
        return "nothing was measured"
    if change.mean == change.low == change.high == 0:
        same = "equal on every question"
        if change.changed:
            same = f"no difference on average, {change.changed} of {change.questions} questions changed"
        return f"{same}, {change.sessions} session{'' if change.sessions == 1 else 's'}"
    points, ends = change.words("+.1f", " points")
    if not change.has_ends:
        return f"too few sessions to tell ({change.sessions}, at least {MIN_SESSIONS}): {points}"
    if change.low > 0 or change.high < 0:
        return f"{'better' if change.low > 0 else 'worse'} by {points[1:]}, interval {ends}"
    return f"no sure difference: {points}, interval {ends}"


def read_bounds(bounds: Bounds, *, is_marked: bool, own: Sequence[str] = (), where: str = "bounds") -> dict[str, float]:
    """Return the bounds in a mapping, or in a text such as `held=0.6,tokens=10k`, of one's `own` metrics too. Raise
    `SettingsError`, also for what only marks say."""
    found = dict[str, float]()
    figures = (RIGHT, EVIDENCE, *AT_MOST) if is_marked else (HELD, EVIDENCE, *AT_MOST[:-1])  # what is wrong is marked
    known = [*dict.fromkeys([*own, *figures])]
    listed = str(bounds).split(",") if not isinstance(bounds, Mapping) else [f"{k}={v}" for k, v in bounds.items()]
    for part in filter(None, map(str.strip, listed)):
        name, _, value = map(str.strip, part.partition("="))
        if name not in known:
            asked = "; right answers are those of a folder that `eval ask` has recorded" if name == "right" else ""
            raise SettingsError(f"{where}: no {name[:60]!r} is measured here; there are {', '.join(known)}{asked}")
        try:
            bound = float(value.removesuffix("k" if name in AT_MOST else "%"))
            bound = bound * 1_000 if value.endswith("k") else bound / 100 if value.endswith("%") else bound
        except ValueError as error:
            raise SettingsError(f"{where}: {part[:60]!r}; write it like {known[0]}=0.6,tokens=10k,laws=0") from error
        if name not in AT_MOST and 1 < bound <= 100 and "%" not in value:
            raise SettingsError(f"{where}: {name} is a share; for {bound:g} % write {name}={bound / 100:g}")
        if not 0 <= bound <= (inf if name in AT_MOST else 1):
            raise SettingsError(f"{where}: {part[:60]!r}; a share is from 0 to 1, other figures from 0 on")
        found[name] = bound
    return found


def write_junit(file: Path | None, name: str, results: Sequence[tuple[str, str, str, bool | None]]) -> None:
    """Write results as JUnit XML where a file is named: class, test, words, if it failed (None: it was skipped)."""
    if file is None:
        return
    bad = Counter(each for *_, each in results)
    counts = {"tests": len(results), "failures": bad[True], "errors": 0, "skipped": bad[None]}
    suite = xml.Element("testsuite", {"name": name, **{what: str(count) for what, count in counts.items()}})
    for group, test, words, is_bad in results:
        case = xml.SubElement(suite, "testcase", classname=f"{name}.{group}", name=test, time="0")
        kind = {True: "failure", None: "skipped", False: "system-out"}[is_bad]
        xml.SubElement(case, kind, {} if is_bad is False else {"message": f"{test}: {words}"}).text = words
    xml.indent(suite)
    write_private(file, xml.tostring(suite, encoding="utf-8", xml_declaration=True))
