"""Recorded answers: a folder with cases, what is asked at each, and one cassette with all that models said.

`cases.toml` names the cases, `logs/` holds their messages before the cut, `questions/` what is asked there, which arms
were read and by which models. `cassette.jsonl`, or packed `cassette.jsonl.gz`, holds the replies: summaries, answers
from views, and marks. `settings.json` and `prompts/` hold what shapes views otherwise than shipped. All calls of models
go through a cassette; a forecast goes the same way with assumed replies.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.cassettes import RecordedModel, Reply, Request
from summarizing_context.evaluation.views import Case, Message, compaction, parts_of, text_of
from summarizing_context.messages.fences import fence
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings import PLACES, Settings
from summarizing_context.stores.private_files import replace_private
from summarizing_context.summarizers.prompts import latest, names
from summarizing_context.transcripts import read_session

CATEGORIES = ("rule", "decision", "error", "artifact", "fact")  # that have an answer
ABSENT = "absent"  # the category of questions that the record does not answer; they are scored apart
SCALE = {"right": 2, "partly": 1, "abstained": 0, "wrong": -1}  # of a judge's marks
ABSTENTION = "not in the record"
_TRIES = 3  # for a reply that can be read

Mark = Literal[2, 1, 0, -1]  # of a judge, by `SCALE`
Value = TypeVar("Value")

CASES = "cases.toml"
_SETTINGS, _PROMPTS = "settings.json", "prompts"
_SHAPE_NO_VIEW = (  # settings of places, the session, the machine and the model; the budget is that of the case
    *("prompts", "prices", "session_id", "project", "max_tokens", "summarizer", "model", "token_counter", "max_wait"),
    *("allow_download", "idle_after", "concurrency", "call_timeout", "attempts", "breaker_failures"),
    *("breaker_cooldown", "max_calls_per_hour", "max_input_tokens_per_hour", "max_calls_per_session"),
    *("max_input_tokens_per_session", "max_cost_per_session", "embedding", "embedding_model", "vector_store"),
    *("similarity_threshold", "checkpoint_interval_messages", "memory_include", "memory_extract"),
)

logger = logging.getLogger(__name__)


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question about what stands before a cut, with its answer by a reader of the whole log, or `values`."""

    id: str
    category: str
    question: str
    answer: str = ""
    evidence: list[int] = []  # messages, from 0
    values: list[str] = []  # that a view has to hold word for word


class WrittenQuestion(msgspec.Struct):
    """A question as a model writes it."""

    category: Literal["rule", "decision", "error", "artifact", "fact", "absent"]
    question: Annotated[str, msgspec.Meta(pattern=r"\S")]
    answer: Annotated[str, msgspec.Meta(pattern=r"\S")]
    evidence: list[Annotated[int, msgspec.Meta(ge=0)]] = []


class AskedCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked at a cut, the arms whose views are read, and the models, as their requests name them."""

    questions: list[Question] = []
    arms: list[str] = []
    writer: str = ""  # of summaries
    judge: str = ""  # who reads views, and marks the answers


@dataclass
class Recording:
    """The cases of one folder."""

    folder: Path
    cases: list[Case]
    asked: dict[str, AskedCase] = field(default_factory=dict)  # by case
    settings: Settings = Settings()  # noqa: RUF009 - it is frozen

    @classmethod
    def open(cls, folder: Path) -> Recording:
        """Read a folder. Raise `TranscriptError` naming the file that cannot be read."""
        found = cls(folder, read_file(folder / CASES, dict[Literal["case"], list[Case]]).get("case", []))
        if (folder / _SETTINGS).exists():
            prompts = folder / _PROMPTS if (folder / _PROMPTS).is_dir() else None
            values = read_file(folder / _SETTINGS, dict[str, Any])
            found.settings = replace(Settings.from_mapping(values), prompts=prompts)
        for case in found.cases:
            if (path := folder / "questions" / f"{case.name}.json").exists():
                found.asked[case.name] = read_file(path, AskedCase)
        return found

    @property
    def cassette(self) -> Path:
        """The file of all replies."""
        packed = self.folder / "cassette.jsonl.gz"
        return packed if packed.exists() else self.folder / "cassette.jsonl"

    def messages(self, case: Case) -> list[Message]:
        """Return the messages before the cut."""
        path = self.folder / "logs" / case.log
        try:
            messages = list(read_session(path).messages)
            if len(messages) >= case.cut:
                return messages[: case.cut]
            raise TranscriptError(f"{path}:1: {len(messages)} messages, but {case.name} is cut at {case.cut}")
        except TranscriptError as error:
            raise TranscriptError(f"{error}; bring the file back, or ask again into a new folder") from error

    def at(self, case: Case) -> AskedCase:
        """Return what is asked at the cut; nothing where no questions were written."""
        return self.asked.get(case.name, AskedCase())

    def write(self, case: Case, asked: AskedCase) -> None:
        """Write what is asked at a cut into its file."""
        document = {"transcript": case.name, "cut": case.cut, **msgspec.to_builtins(asked)}
        replace_private(self.folder / "questions" / f"{case.name}.json", indented(document))
        self.asked[case.name] = asked


def read_file(path: Path, kind: Any) -> Any:
    """Return what a file of TOML or JSON holds. Raise `TranscriptError`."""
    try:
        return (msgspec.toml if path.suffix == ".toml" else msgspec.json).decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror}); name a folder with a {CASES}") from error
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))  # of TOML; else it is one JSON value
        raise TranscriptError(
            f"{path}:{line[1] if line else 1}: holds something else than it should ({error}); bring the file back, or "
            "delete it and record again: replies that are kept in the cassette are not sent again"
        ) from error


def add_case(
    folder: Path, log: Path, messages: Sequence[Message] = (), *, name: str | None, cut: int | float, **about: Any
) -> Case:
    """Add a case. `cut` are the messages before the view, or the share of the characters that stand before it; `about`
    are other fields. Raise `TranscriptError` for a log that cannot be cut there, or a name that is taken."""
    messages, listed = messages or read_session(log).messages, folder / CASES
    name = name or log.name.removesuffix(".gz").removesuffix(".jsonl")
    quoted = partial(json.dumps, ensure_ascii=False)  # as TOML has it: JSON's escapes beyond U+FFFF are none of TOML's
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    known = listed.read_text(encoding="utf8") if listed.exists() else ""
    case = Case(name, f"{name}.jsonl.gz", at, **about)
    if not 0 < at <= len(messages) or f"name = {quoted(name)}\n" in known:
        raise TranscriptError(f"{log}: {name!r} cannot be cut at {at} of {len(messages)}, or is a case already")
    lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in messages[:at])
    replace_private(folder / "logs" / case.log, gzip.compress(lines.encode("utf8", "surrogatepass"), mtime=0))
    rows = [f"{key} = {quoted(value)}\n" for key, value in msgspec.structs.asdict(case).items() if value]
    replace_private(listed, f"{known}{chr(10) if known else ''}[[case]]\n{''.join(rows)}".encode())
    return case


def with_own_case(
    folder: Path, log: Path, messages: Sequence[Message], *, cut: float, budget: int, own: Settings, to: Path
) -> Recording:
    """Return a folder with a log of the user's as its only case, added to `to` if new. Raise `TranscriptError`."""
    at, files = cut_at(messages, cut), _files_of(own)
    session = log.name.removesuffix(".gz").removesuffix(".jsonl")
    name = f"{session}-{at}"
    if (folder / CASES).exists():
        recording = Recording.open(folder)
        if _files_of(recording.settings) != files:
            raise TranscriptError(f"{folder}: holds views with other settings or prompts; take a new folder with --out")
        for case in (case for case in recording.cases if case.name == name):
            if case.budget != budget or recording.messages(case) != messages[:at]:
                held = f"{name} with another budget ({case.budget}) or another log"
                raise TranscriptError(f"{folder}: holds {held}; take a new folder")
            return replace(recording, cases=[case])
    if (size := estimate_text(text_of(messages[:at]))) <= budget:
        held = f"the {at} messages before the cut have {size} tokens, so all views hold them all"
        raise TranscriptError(f"{log}: {held}; take a budget below {size}, or a later cut")
    for file, content in files.items():  # first: a folder with a case and without its settings would be another one
        replace_private(to / file, content)
    about = {"source": "a log of the user's", "licence": "not to be published", "session": session}
    case = add_case(to, log, messages, name=name, cut=at, budget=budget, **about)
    return replace(Recording.open(to), cases=[case])


def _files_of(settings: Settings) -> dict[str, bytes]:
    """Return what is kept of settings, by file; nothing where all are as shipped."""
    root = settings.prompts and Path(settings.prompts)
    files = {f"{_PROMPTS}/{name}.md": (root / f"{name}.md").read_bytes() for name in names(root)} if root else {}
    changed = {name: value for name, value in changed_settings(settings).items() if name not in _SHAPE_NO_VIEW}
    if changed or files:
        files[_SETTINGS] = indented(dict(sorted(changed.items())))
    return files


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without those that name a place."""
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: one for name in names if (one := getattr(settings, name)) != getattr(Settings(), name)}


def indented(document: Any) -> bytes:
    """Return a document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def cut_at(messages: Sequence[Message], share: float) -> int:
    """Return the last message of the assistant before which at most this share of the characters stands."""
    sums = list(accumulate((sum(len(part.text) for part in parts_of(each)) for each in messages), initial=0))
    places = (at for at, message in enumerate(messages) if message.get("role") == "assistant")
    return max((at for at in places if sums[at] <= share * sums[-1]), default=0)


# What models are asked: questions about a log, answers from views, and marks


async def write_questions(
    case: Case, messages: Sequence[Message], number: int, writer: RecordedModel
) -> list[Question]:
    """Return so many questions about a log, written by a model."""
    log = fence("session_record", compaction(messages).content)
    system, some = latest("questions").render(number=number), "word " * 20
    assumed = {"questions": [{"category": "fact", "question": some, "answer": some, "evidence": [0]}] * number}
    asked = Request("questions", writer.maker, system, (log,), 500 + 120 * number)

    def read(text: str) -> list[Question]:  # the error says what is wrong with the first bad one
        written = _object(text, dict[str, list[WrittenQuestion]]).get("questions", [])
        found = [Question(f"q{at}", **msgspec.structs.asdict(one)) for at, one in enumerate(written, 1)]
        if not found:
            raise ValueError("no question at all")
        for one in found:
            if one.category != ABSENT and not one.evidence:
                raise ValueError(f"{one.id} ({one.category}) names no message that holds its answer")
            if beyond := [message for message in one.evidence if message >= case.cut]:
                raise ValueError(f"{one.id} names message {beyond[0]}, but there are 0 to {case.cut - 1}")
        return found[:number]

    return await _readable(writer, case, asked, read, assumed)


async def read_answers(
    case: Case, questions: Sequence[Question], views: Mapping[str, str], reader: RecordedModel
) -> dict[str, dict[str, str]]:
    """Return a reader's answers from each view, by arm and question."""
    listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)
    system, assumed = latest("answers").render(abstention=ABSTENTION), {one.id: "word " * 15 for one in questions}

    def read(text: str) -> dict[str, str]:
        found = _object(text, dict[str, str])
        if not any(question.id in found for question in questions):
            raise ValueError("an answer to none of the questions")
        return found

    async def ask(arm: str) -> None:
        parts = fence("session_record", views[arm]), f"Questions: {listed}"
        found = await _readable(reader, case, Request("reader", reader.maker, system, parts, 4_000), read, assumed)
        answers[arm] = {question.id: found.get(question.id, ABSTENTION) for question in questions}

    answers: dict[str, dict[str, str]] = {}
    done = await asyncio.gather(*map(ask, views), return_exceptions=True) if questions else []
    for failure in filter(None, done):
        raise failure
    return answers


async def mark_answers(
    case: Case, questions: Sequence[Question], answers: Mapping[str, Mapping[str, str]], judge: RecordedModel
) -> dict[tuple[str, str], int]:
    """Return a judge's marks by question and arm. All are marked at once, under letters drawn for each question."""
    if not (questions and answers):
        return {}
    shown, arms = [], dict[str, dict[str, str]]()  # arms by question and letter
    for one in questions:
        drawn = random.Random(f"letters/{case.name}/{one.id}").sample(sorted(answers), len(answers))
        arms[one.id] = dict(zip(ascii_uppercase, drawn, strict=False))
        said = {letter: answers[arm].get(one.id, "") for letter, arm in arms[one.id].items()}
        asked_for = {"id": one.id, "category": one.category, "question": one.question, "gold": one.answer}
        shown.append({**asked_for, "answers": said})
    document = json.dumps({"case": case.name, "questions": shown}, ensure_ascii=False)

    def read(text: str) -> dict[tuple[str, str], int]:
        given = _object(text, dict[str, dict[str, Mark]])
        if {id: sorted(row) for id, row in given.items()} != {id: sorted(row) for id, row in arms.items()}:
            raise ValueError("not the questions and letters that the judge was given")
        return {(id, arms[id][letter]): mark for id, row in given.items() for letter, mark in row.items()}

    asked = Request("judge", judge.maker, latest("marks").render(**SCALE), (fence("session_record", document),), 4_000)
    assumed = {id: dict.fromkeys(row, SCALE["abstained"]) for id, row in arms.items()}
    return await _readable(judge, case, asked, read, assumed)


async def _readable(
    model: RecordedModel, case: Case, asked: Request, read: Callable[[str], Value], assumed: Mapping[str, object]
) -> Value:
    """Return what `read` finds in a reply; one that it refuses by `ValueError` is asked for again, also a kept one."""

    def is_usable(reply: Reply) -> bool:
        with suppress(ValueError):
            read(reply.text)
            return True
        return False

    for _ in range(_TRIES):
        reply = await model.ask(asked, assumed=json.dumps(assumed), is_usable=is_usable)
        try:
            return read(reply.text)
        except ValueError as error:
            complaint = reply.fault or str(error)
            logger.warning("%s: the %s reply of %s cannot be used: %s", case.name, asked.kind, model.where, complaint)
    last = f"in the last one {complaint}; the same command asks again, or take another model"
    raise TranscriptError(f"{case.name}: no usable {asked.kind} reply in {_TRIES} of {model.where}, {last}")


def _object(text: str, of: type[Value]) -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    try:
        return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not a JSON object as asked for ({error})") from error
