"""The recording: cases, questions, and what models wrote, answered and marked; files of one folder.

`cases.toml` names the cases, `logs/` holds their messages before the cut, `questions/` what is asked.
`replies.jsonl.gz`, `answers.jsonl.gz` and `marks.jsonl.gz` hold what models said, sorted: equal recordings are equal
bytes. `settings.json` and `prompts/` hold what shapes views otherwise than shipped.

Scores come from the judge's marks alone. Right counts one, partly right half, an abstention and a wrong answer nothing.
Questions about what was never said are counted apart. Intervals are of sessions; differences between arms are paired.

A suite is a TOML file in `evals/suites` of a checkout that names a recording and bounds on its scores, or a folder of
`eval ask`. The package ships none.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import anyio
import msgspec

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.outcomes import (
    Interval,
    changed_settings,
    difference,
    for_each,
    indented,
    mean_of,
    ratios,
)
from summarizing_context.evaluation.real.arms import (
    ARMS,
    COMPACT,
    OURS,
    Case,
    Message,
    Reply,
    build,
    digest,
    parts_of,
    text_of,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import replace_private
from summarizing_context.summarizers.prompts import names
from summarizing_context.transcripts import read_session

Category = Literal["rule", "decision", "error", "artifact", "fact", "absent"]
CATEGORIES: tuple[Category, ...] = ("rule", "decision", "error", "artifact", "fact")  # that have an answer
ABSENT: Category = "absent"
SCALE = {"right": 2, "partly": 1, "abstained": 0, "wrong": -1}  # of a judge's marks

CASES, REPLIES, ANSWERS, MARKS = "cases.toml", "replies.jsonl.gz", "answers.jsonl.gz", "marks.jsonl.gz"
_SETTINGS, _PROMPTS = "settings.json", "prompts"
_DAMAGED = (
    "holds something else than it should ({}); bring the file back, or delete it and record again: replies that are "
    "kept in the cassettes are not sent again"
)
_SHAPE_NO_VIEW = (  # settings of places, the session, the machine and the model; the budget is that of the case
    *("prompts", "prices", "session_id", "project", "max_tokens", "summarizer", "model", "token_counter", "max_wait"),
    *("allow_download", "idle_after", "concurrency", "call_timeout", "attempts", "breaker_failures"),
    *("breaker_cooldown", "max_calls_per_hour", "max_input_tokens_per_hour", "max_calls_per_session"),
    *("max_input_tokens_per_session", "embedding", "embedding_model", "vector_store", "similarity_threshold"),
    *("checkpoint_interval_messages", "memory_include", "memory_extract"),
)


class Question(msgspec.Struct, frozen=True):
    """A question about what stands before the cut, and its answer by a reader of the whole log."""

    id: str
    category: Category
    question: str
    answer: str
    evidence: list[int] = []  # messages
    needed_after_cut: bool = False


class Answers(msgspec.Struct, frozen=True):
    """One reader's answers from one view."""

    case: str
    arm: str
    view: str  # SHA-256, hex, of the view's text
    tokens: int
    answers: dict[str, str]  # by question
    model: str
    reading: str


class Mark(msgspec.Struct, frozen=True):
    """A judge's mark for one answer: right, partly right, abstained or wrong."""

    case: str
    question: str
    arm: str
    mark: Literal[2, 1, 0, -1]
    model: str


Line = TypeVar("Line", Reply, Answers, Mark)
Value = TypeVar("Value")


class _Questions(msgspec.Struct, frozen=True):
    questions: list[Question]


@dataclass
class Recording:
    """All that is known of the cases of one folder."""

    folder: Path
    cases: list[Case]
    asked: dict[str, list[Question]] = field(default_factory=dict)  # by case
    replies: dict[str, Reply] = field(default_factory=dict)  # by key
    answers: dict[tuple[str, str], Answers] = field(default_factory=dict)  # by case and arm
    marks: dict[tuple[str, str, str], Mark] = field(default_factory=dict)  # by case, question and arm
    settings: Settings | None = None  # of views, if they are not as shipped

    @classmethod
    def open(cls, folder: Path) -> Recording:
        """Read a folder. Raise `TranscriptError` naming the file that cannot be read."""
        kind = dict[Literal["case"], list[Case]]
        listed = _read(folder / CASES, lambda data: msgspec.convert(tomllib.loads(data.decode()), kind))
        found = cls(folder, listed.get("case", []))
        if (folder / _SETTINGS).exists():
            values = _read(folder / _SETTINGS, lambda data: msgspec.json.decode(data, type=dict[str, Any]))
            prompts = folder / _PROMPTS if (folder / _PROMPTS).is_dir() else None
            found.settings = replace(Settings.from_mapping(values), prompts=prompts)
        for case in found.cases:
            path = folder / "questions" / f"{case.name}.json"
            if path.exists():
                found.asked[case.name] = _read(path, lambda data: msgspec.json.decode(data, type=_Questions)).questions
        found.replies = {line.key: line for line in _lines(folder / REPLIES, Reply)}
        found.answers = {(line.case, line.arm): line for line in _lines(folder / ANSWERS, Answers)}
        found.add_marks(_lines(folder / MARKS, Mark))
        return found

    def messages(self, case: Case) -> list[Message]:
        """Return the messages before the cut."""
        path = self.folder / "logs" / case.log
        try:
            messages = list(read_session(path).messages)
            if len(messages) < case.cut:
                raise TranscriptError(f"{path}:1: {len(messages)} messages, but {case.name} is cut at {case.cut}")
        except TranscriptError as error:
            raise TranscriptError(f"{error}; bring the file back, or ask again into a new folder") from error
        return messages[: case.cut]

    def questions(self, case: Case) -> list[Question]:
        """Return what is asked at the cut; nothing where no questions were written."""
        return self.asked.get(case.name, [])

    def write_questions(self, case: Case, questions: Sequence[Question]) -> None:
        """Write the questions of a case into its file."""
        document = {"transcript": case.name, "cut": case.cut, "questions": questions}
        replace_private(self.folder / "questions" / f"{case.name}.json", indented(document))
        self.asked[case.name] = list(questions)

    def add_answers(self, answers: Answers) -> None:
        """Take one reader's answers in. Marks of other answers from this arm are dropped with them."""
        known = self.answers.get((answers.case, answers.arm))
        if known is not None and known.answers != answers.answers:
            stale = (answers.case, answers.arm)
            self.marks = {key: mark for key, mark in self.marks.items() if (mark.case, mark.arm) != stale}
        self.answers[answers.case, answers.arm] = answers

    def add_marks(self, marks: Iterable[Mark]) -> None:
        """Take a judge's marks in."""
        self.marks.update({(mark.case, mark.question, mark.arm): mark for mark in marks})

    def save(self) -> None:
        """Write replies, answers and marks."""
        kept: dict[str, dict[Any, Any]] = {REPLIES: self.replies, ANSWERS: self.answers, MARKS: self.marks}
        for name, lines in kept.items():
            data = b"".join(msgspec.json.encode(lines[key]) + b"\n" for key in sorted(lines))
            replace_private(self.folder / name, _gzipped(data))


def _gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the same bytes on any day


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    found: list[Line] = []
    try:
        with gzip.open(path) as file:
            found.extend(msgspec.json.decode(line, type=kind) for line in file)
    except FileNotFoundError:
        return []
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise TranscriptError(f"{path}:{len(found) + 1}: {_DAMAGED.format(error)}") from error
    return found


def _read(path: Path, decode: Callable[[bytes], Value]) -> Value:
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror}); name a folder with a {CASES}") from error
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))  # of TOML; else it is one JSON value
        raise TranscriptError(f"{path}:{line[1] if line else 1}: {_DAMAGED.format(error)}") from error


def add_case(
    folder: Path,
    log: Path,
    *,
    name: str | None,
    cut: int | float,
    budget: int,
    source: str,
    licence: str,
    session: str = "",
    messages: Sequence[Message] | None = None,
) -> Case:
    """Add a case. Raise `TranscriptError` for a log that cannot be cut there, or a name that is taken.

    `cut` are the messages before the view, or the share of the characters that stand before it; `messages` are those of
    the log, where they were read already. Cases of one `session` count as one.
    """
    if messages is None:
        messages = read_session(log).messages
    quoted = partial(json.dumps, ensure_ascii=False)  # as TOML has it: JSON's escapes beyond U+FFFF are none of TOML's
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = name or _stem(log)
    listed = folder / CASES
    known = listed.read_text(encoding="utf8") if listed.exists() else ""
    case = Case(name, f"{name}.jsonl.gz", at, budget, source, licence, session)
    if not 0 < at <= len(messages) or f"name = {quoted(name)}\n" in known:
        raise TranscriptError(f"{log}: {name!r} cannot be cut at {at} of {len(messages)}, or is a case already")
    lines = (json.dumps(message, ensure_ascii=False) + "\n" for message in messages[:at])
    replace_private(folder / "logs" / case.log, _gzipped("".join(lines).encode("utf8", "surrogatepass")))
    rows = [f"{key} = {quoted(value)}\n" for key, value in msgspec.structs.asdict(case).items() if value]
    replace_private(listed, f"{known}{chr(10) if known else ''}[[case]]\n{''.join(rows)}".encode())
    return case


def with_own_case(
    folder: Path, log: Path, messages: Sequence[Message], *, cut: float, budget: int, own: Settings, to: Path
) -> Recording:
    """Return what a folder holds, with a log of the user's as its only case; if it has none, the case is added to
    `to`.

    Raise `TranscriptError` for a log that was asked about otherwise, or that needs no summary.
    """
    at, files = cut_at(messages, cut), _files_of(own)
    name = f"{_stem(log)}-{at}"
    if (folder / CASES).exists():
        recording = Recording.open(folder)
        if _files_of(recording.settings or Settings()) != files:
            raise TranscriptError(f"{folder}: holds views with other settings or prompts; take a new folder with --out")
        for case in recording.cases:
            if case.name == name:
                if case.budget != budget or recording.messages(case) != messages[:at]:
                    raise TranscriptError(
                        f"{folder}: holds {name} with another budget ({case.budget}) or another log; take a new folder"
                    )
                return replace(recording, cases=[case])
    if (size := estimate_text(text_of(messages[:at]))) <= budget:
        raise TranscriptError(
            f"{log}: the {at} messages before the cut have {size} tokens, so all views hold them all; "
            f"take a budget below {size}, or a later cut"
        )
    for file, content in files.items():  # first: a folder with a case and without its settings would be another one
        replace_private(to / file, content)
    about = {"source": "a log of the user's", "licence": "not to be published", "session": _stem(log)}
    case = add_case(to, log, name=name, cut=at, budget=budget, messages=messages, **about)
    return replace(Recording.open(to), cases=[case])


def _files_of(settings: Settings) -> dict[str, bytes]:
    """Return what is kept of settings, by file; nothing where all are as shipped."""
    root = settings.prompts and Path(settings.prompts)
    files = {f"{_PROMPTS}/{name}.md": (root / f"{name}.md").read_bytes() for name in names(root)} if root else {}
    changed = {name: value for name, value in changed_settings(settings).items() if name not in _SHAPE_NO_VIEW}
    if changed or files:
        files[_SETTINGS] = indented(dict(sorted(changed.items())))
    return files


def _stem(log: Path) -> str:
    return log.name.removesuffix(".gz").removesuffix(".jsonl")


def cut_at(messages: Sequence[Message], share: float) -> int:
    """Return the last message of the assistant before which at most this share of the characters stands."""
    sizes = [sum(len(part.text) for part in parts_of(message)) for message in messages]
    total, before, cut = sum(sizes), 0, 0
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and before <= share * total:
            cut = at
        before += sizes[at]
    return cut


# Scores


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


class Shown(msgspec.Struct, frozen=True):
    """One question with the answers of all arms, for a person to look at."""

    case: str
    question: Question
    answers: dict[str, tuple[str, int | None]]  # by arm: words and mark


class RealOutcome(msgspec.Struct, frozen=True):
    """The suite's outcome. A view has its case, arm and tokens (None where a reply is missing that it needs), and
    says whether the recorded answers were read from it: this view, an earlier view, not read, no view."""

    arms: list[ArmScore]
    views: list[dict[str, str | int | None]]
    questions: list[Shown]
    made_by: dict[str, list[str]]  # models, by what they did
    missing: int  # requests without a reply


def replay(
    recording: Recording, arms: Sequence[str], *, jobs: int = 1, watch: Callable[[str], None] = lambda _: None
) -> RealOutcome:
    """Rebuild every view, offline, and add up the marks. `watch` is told of each case."""
    views, missing = [], 0
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


def _rebuild(folder: Path, arms: Sequence[str], name: str) -> tuple[list[dict[str, str | int | None]], int]:
    """Return the views of one case as they are now, and how many requests have no reply."""
    recording = Recording.open(folder)
    case = next(case for case in recording.cases if case.name == name)
    built = anyio.run(build, case, recording.messages(case), recording.replies, arms, recording.settings)
    found = []
    for arm in arms:
        view, answers, reading = built.views.get(arm), recording.answers.get((name, arm)), "no view"
        if view is not None and answers is not None:
            reading = "this view" if answers.view == digest(view) else "an earlier view"
        elif view is not None:
            reading = "not read"
        tokens = None if view is None else estimate_text(view)
        found.append({"case": name, "arm": arm, "tokens": tokens, "reading": reading})
    return found, len(built.missing) + built.waiting


def scores(recording: Recording, arms: Iterable[str]) -> list[ArmScore]:
    """Return the scores of the arms that have marks, in their order."""

    def marks(arm: str, categories: Sequence[str]) -> list[tuple[str, int]]:
        """Session and mark of each question of these categories."""
        return [
            (case.drawn_as, mark.mark)
            for case in recording.cases
            for question in recording.questions(case)
            if question.category in categories and (mark := recording.marks.get((case.name, question.id, arm)))
        ]

    def count(arm: str, *categories: str) -> Count:
        ours, theirs = (
            [(session, ({2: 1.0, 1: 0.5}.get(mark, 0.0), 1.0)) for session, mark in marks(one, categories)]
            for one in (arm, COMPACT)
        )
        ahead = difference(ratios(ours), ratios(theirs)) if arm != COMPACT else None
        return Count(sum(points for _, (points, _) in ours), len(ours), mean_of(ratios(ours)), ahead)

    cases = {arm: {case for case, _, name in recording.marks if name == arm} for arm in arms}
    return [
        ArmScore(
            arm=arm,
            about=ARMS[arm],
            cases=len(of),
            score=count(arm, *CATEGORIES),
            categories={category: count(arm, category) for category in CATEGORIES},
            wrong=sum(mark == -1 for _, mark in marks(arm, CATEGORIES)),
            absent=count(arm, ABSENT),
        )
        for arm, of in cases.items()
        if of
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
    places = (folder / "evals" / "suites" / f"{name}.toml" for folder in (start, *start.parents))
    path = next((path for path in places if path.is_file()), None)
    if path is None:
        raise SettingsError(
            f"there is no suite {name!r}: named suites stand in evals/suites of a checkout; take --cases or --dataset "
            "with data of your own, or a folder that `eval ask` has recorded"
        )
    try:
        suite = msgspec.convert(tomllib.loads(path.read_text(encoding="utf8")), Suite)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    root = path.parents[2]
    cassette = root / (suite.cassette or f"evals/cassettes/{suite.name}.jsonl")
    return msgspec.structs.replace(suite, recording=str(root / suite.recording), cassette=str(cassette))


def recorded_folder(folder: Path) -> Suite | None:
    """Return a folder of recorded answers as a suite; None if it is none."""
    claim = "Answers of a model to questions about these sessions, from views with equal tokens."
    return Suite(folder.resolve().name, claim, str(folder)) if (folder / CASES).is_file() else None
