"""The recording: cases, questions, and what models wrote, answered and marked; files of one folder.

`cases.toml` names the cases, `logs/` holds their messages before the cut, `questions/` what is asked.
`replies.jsonl.gz`, `answers.jsonl.gz` and `marks.jsonl.gz` hold what models said, sorted: equal recordings are equal
bytes. `settings.json`, `prompts/` and `extractive.toml` hold what shapes views otherwise than shipped.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.outcomes import changed_settings, indented
from summarizing_context.evaluation.real.rendering import Message, parts_of, text_of, tokens_of
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import replace_private
from summarizing_context.summarizers.prompts import names
from summarizing_context.transcripts import AUTO, read_session
from summarizing_context.transcripts.formats import unpacked_lines

Category = Literal["rule", "decision", "error", "artifact", "fact", "absent"]
CATEGORIES: tuple[Category, ...] = ("rule", "decision", "error", "artifact", "fact")  # that have an answer
ABSENT: Category = "absent"
RIGHT, PARTLY, ABSTAINED, WRONG = 2, 1, 0, -1

CASES, REPLIES, ANSWERS, MARKS = "cases.toml", "replies.jsonl.gz", "answers.jsonl.gz", "marks.jsonl.gz"
_KEY_LENGTH = 20


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One log, and the message before which its views are taken."""

    name: str
    log: str  # file of `logs/`
    cut: int  # messages before the view
    budget: int  # tokens of our view
    source: str
    licence: str
    session: str = ""  # cases of one session count as one in intervals; else each case is one
    tokens: int = 0  # of the other arms' views, which then stay as they were read; 0 for as many as ours has

    @property
    def drawn_as(self) -> str:
        return self.session or self.name


class Question(msgspec.Struct, frozen=True):
    """A question about what stands before the cut, and its answer by a reader of the whole log."""

    id: str
    category: Category
    question: str
    answer: str
    evidence: list[int] = []  # messages
    needed_after_cut: bool = False


class Reply(msgspec.Struct, frozen=True):
    """What a model wrote for one request."""

    key: str
    purpose: str  # the kind of a job of this package; `compact` or `brief`
    model: str
    reading: str  # `isolated`: without sight of other requests of the same log
    reply: str


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


class _Cases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: list[Case] = []


class _Questions(msgspec.Struct, frozen=True):
    questions: list[Question]


Line = TypeVar("Line", Reply, Answers, Mark)
Value = TypeVar("Value")


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
        """Read a folder. Raises `TranscriptError` naming the file that cannot be read."""
        listed = _read(folder / CASES, lambda data: msgspec.convert(tomllib.loads(data.decode()), _Cases))
        found = cls(folder, listed.case, settings=read_settings(folder))
        found.read_questions()
        found.add_replies(_lines(folder / REPLIES, Reply))
        found.answers = {(line.case, line.arm): line for line in _lines(folder / ANSWERS, Answers)}
        found.marks = {(line.case, line.question, line.arm): line for line in _lines(folder / MARKS, Mark)}
        return found

    def messages(self, case: Case) -> list[dict[str, Any]]:
        """The messages before the cut."""
        path = self.folder / "logs" / case.log
        messages = list(read_session(path).messages)
        if len(messages) < case.cut:
            raise TranscriptError(
                f"{path}:1: {len(messages)} messages, but {case.name} is cut at {case.cut}; bring the file back, or "
                "ask again into a new folder"
            )
        return messages[: case.cut]

    def read_questions(self) -> None:
        """Read the questions of each case that has some."""
        for case in self.cases:
            path = self.folder / "questions" / f"{case.name}.json"
            if path.exists():
                self.asked[case.name] = _read(path, lambda data: msgspec.json.decode(data, type=_Questions)).questions

    def questions(self, case: Case) -> list[Question]:
        """What is asked at the cut; nothing where no questions were written."""
        return self.asked.get(case.name, [])

    def write_questions(self, case: Case, questions: Sequence[Question]) -> None:
        """Write the questions of a case into its file."""
        path = self.folder / "questions" / f"{case.name}.json"
        document = {"transcript": case.name, "cut": case.cut, "questions": questions}
        replace_private(path, indented(document))
        self.asked[case.name] = list(questions)

    def copy(self) -> Recording:
        """The same, to be added to without a change to this one."""
        return replace(
            self,
            asked=dict(self.asked),
            replies=dict(self.replies),
            answers=dict(self.answers),
            marks=dict(self.marks),
        )

    def add_replies(self, replies: Iterable[Reply]) -> None:
        """Take replies in; a later one replaces an earlier one to the same request."""
        self.replies.update({reply.key: reply for reply in replies})

    def add_answers(self, answers: Answers) -> None:
        """Take one reader's answers in. Marks of other answers from this arm are dropped with them."""
        known = self.answers.get((answers.case, answers.arm))
        if known is not None and known.answers != answers.answers:
            stale = [key for key in self.marks if (key[0], key[2]) == (answers.case, answers.arm)]
            for key in stale:
                del self.marks[key]
        self.answers[answers.case, answers.arm] = answers

    def add_marks(self, marks: Iterable[Mark]) -> None:
        """Take a judge's marks in."""
        self.marks.update({(mark.case, mark.question, mark.arm): mark for mark in marks})

    def save(self) -> None:
        """Write replies, answers and marks."""
        _write(self.folder / REPLIES, [self.replies[key] for key in sorted(self.replies)])
        _write(self.folder / ANSWERS, [self.answers[key] for key in sorted(self.answers)])
        _write(self.folder / MARKS, [self.marks[key] for key in sorted(self.marks)])


def key_of(system: str, user: str) -> str:
    """The name of a request: the first characters of the SHA-256 of both texts."""
    return digest(f"{system}\0{user}")[:_KEY_LENGTH]


def digest(text: str) -> str:
    """SHA-256, hex, of a text; half characters count as they are."""
    return hashlib.sha256(text.encode("utf8", "surrogatepass")).hexdigest()


def gzipped(data: bytes) -> bytes:
    """The same bytes for the same data, on any day."""
    return gzip.compress(data, mtime=0)


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    if not path.exists():
        return []

    found: list[Line] = []
    at = 0
    try:
        with gzip.open(path) as file:
            for line in unpacked_lines(path, file):
                at += 1
                if line.strip():
                    found.append(msgspec.json.decode(line, type=kind))
    except TranscriptError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, at + 1, error) from error
    except ValueError as error:
        raise _damaged(path, at, error) from error
    return found


def _write(path: Path, lines: Iterable[Reply | Answers | Mark]) -> None:
    replace_private(path, gzipped(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)))


def _read(path: Path, decode: Callable[[bytes], Value]) -> Value:
    try:
        return decode(path.read_bytes())
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror}); name a folder with a {CASES}") from error
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))  # of TOML; else it is one JSON value
        raise _damaged(path, int(line[1]) if line else 1, error) from error


def _damaged(path: Path, line: int, error: Exception) -> TranscriptError:
    return TranscriptError(
        f"{path}:{line}: holds something else than it should ({error}); bring the file back, or delete it and record "
        "again: replies that are kept in the cassettes are not sent again"
    )


SETTINGS, PROMPTS = "settings.json", "prompts"
_PATHS = ("prompts", "prices")
_SHAPE_NO_VIEW = (  # of the session, the machine and the model; the budget is that of the case
    *("session_id", "project", "max_tokens", "summarizer", "model", "token_counter", "allow_download", "idle_after"),
    *("concurrency", "call_timeout", "attempts", "breaker_failures", "breaker_cooldown"),
    *("max_calls_per_hour", "max_input_tokens_per_hour", "max_calls_per_session", "max_input_tokens_per_session"),
    *("embedding", "embedding_model", "vector_store", "similarity_threshold", "checkpoint_interval_messages"),
    *("memory_include", "memory_extract", "max_wait"),
)


def settle(own: Settings, folder: Path, *, is_new: bool) -> Settings | None:
    """The settings of a folder's views, written into it if it is new; None where all are as shipped.

    Raises `TranscriptError` for a folder whose views were built otherwise.
    """
    files = _files(own)
    if is_new:
        for name, content in files.items():
            replace_private(folder / name, content)
    found = read_settings(folder)
    if (_files(found) if found is not None else {}) != files:
        raise TranscriptError(f"{folder}: holds views with other settings or prompts; take a new folder with --out")
    return found


def read_settings(folder: Path) -> Settings | None:
    """The settings that a folder keeps; None where it keeps none."""
    path = folder / SETTINGS
    if not path.exists():
        return None
    try:
        values: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error}); ask again into a new folder") from error
    settings = Settings.from_mapping(values)
    prompts = folder / PROMPTS
    return replace(settings, prompts=prompts if prompts.is_dir() else None)


def _files(settings: Settings) -> dict[str, bytes]:
    """What is kept of settings, by file; nothing where all are as shipped."""
    changed = {
        name: value
        for name, value in changed_settings(settings).items()
        if name not in _PATHS and name not in _SHAPE_NO_VIEW
    }
    files: dict[str, bytes] = {}
    if settings.prompts is not None:
        root = Path(settings.prompts)
        files = {f"{PROMPTS}/{name}.md": (root / f"{name}.md").read_bytes() for name in names(root)}
    if changed or files:
        files[SETTINGS] = msgspec.json.format(msgspec.json.encode(changed, order="sorted"), indent=1) + b"\n"
    return files


_OWN, _UNPUBLISHED = "a log of the user's", "not to be published"


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
    clean: Callable[[Message], Message] = lambda message: message,
    messages: Sequence[Message] | None = None,
) -> Case:
    """Add a case. Raises `TranscriptError` for a log that cannot be cut there, or a name that is taken.

    Args:
        folder: Of the recording.
        log: A transcript.
        name: Of the case; else that of the file.
        cut: Messages before the view, or the share of the characters that stand before it.
        budget: Tokens of our view.
        source: Where the log comes from.
        licence: What it may be used for.
        session: Its session, where it has other cases.
        clean: Takes out of each message what must not be kept.
        messages: Of the log, cleaned, where they were read already: the standard input is read once.
    """
    if messages is None:
        messages = [clean(message) for message in read_session(log).messages]
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = name or _stem(log)
    listed = folder / CASES
    known = listed.read_text(encoding="utf8") if listed.exists() else ""
    case = Case(name, f"{name}.jsonl.gz", at, budget, source, licence, session)
    if not 0 < at <= len(messages) or f"name = {json.dumps(name)}\n" in known:
        raise TranscriptError(f"{log}: {name!r} cannot be cut at {at} of {len(messages)}, or is a case already")
    path = folder / "logs" / case.log
    lines = (json.dumps(message, ensure_ascii=False) + "\n" for message in messages[:at])
    replace_private(path, gzipped("".join(lines).encode("utf8", "surrogatepass")))
    rows = [
        f"{field} = {json.dumps(getattr(case, field))}\n" for field in case.__struct_fields__ if getattr(case, field)
    ]
    replace_private(listed, f"{known}{chr(10) if known else ''}[[case]]\n{''.join(rows)}".encode())
    return case


def with_own_case(
    folder: Path,
    log: Path,
    *,
    cut: int | float,
    budget: int,
    own: Settings,
    clean: Callable[[Message], Message],
    to: Path,
    format: str = AUTO,
) -> Recording:
    """What a folder holds, with a log of the user's as its only case; if it has none, the case is added to `to`.

    Raises `TranscriptError` for a log that was asked about otherwise, or that needs no summary.
    """
    messages = [clean(message) for message in read_session(log, format=format).messages]
    if not messages:
        raise TranscriptError(f"{log}:1: holds no message; name another transcript")
    at = cut if isinstance(cut, int) else cut_at(messages, cut)
    name = f"{_stem(log)}-{at}"
    is_new = not (folder / CASES).exists()
    if not is_new:
        settle(own, folder, is_new=False)
        recording = Recording.open(folder)
        for case in recording.cases:
            if case.name == name:
                if case.budget != budget or recording.messages(case) != messages[:at]:
                    raise TranscriptError(
                        f"{folder}: holds {name} with another budget ({case.budget}) or another log; take a new folder"
                    )
                return replace(recording, cases=[case])
    if (size := tokens_of(text_of(messages[:at]))) <= budget:
        raise TranscriptError(
            f"{log}: the {at} messages before the cut have {size} tokens, so all views hold them all; "
            f"take a budget below {size}, or a later cut"
        )
    if is_new or to != folder:  # first: a folder with a case and without its settings would be another one
        settle(own, to, is_new=True)
    case = add_case(
        to, log, name=name, cut=at, budget=budget, source=_OWN, licence=_UNPUBLISHED, session=_stem(log),
        messages=messages,
    )  # fmt: skip
    return replace(Recording.open(to), cases=[case])


def _stem(log: Path) -> str:
    return log.name.removesuffix(".gz").removesuffix(".jsonl")


def cut_at(messages: Sequence[Message], share: float) -> int:
    """The last message of the assistant before which at most this share of the characters stands."""
    sizes = [sum(len(part.text) for part in parts_of(message)) for message in messages]
    total, before, cut = sum(sizes), 0, 0
    for at, message in enumerate(messages):
        if message.get("role") == "assistant" and before <= share * total:
            cut = at
        before += sizes[at]
    return cut
