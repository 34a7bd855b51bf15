"""The exchange with models at hand: requests, views and questions as files, and what came back taken in.

A folder holds it all: `requests/` and `todo/` for one who writes summaries, `views/` and `ask/` for a reader, `judge/`
for a judge, who sees answers under shuffled letters; `keys/` says which arm a letter was. `replies/`, `compact/`,
`answers/` and `marks/` are theirs. Answers to a view that changed, and marks of answers that changed, go to `old/`.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple, TypeVar

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.real.arms import Built, compact_request
from summarizing_context.evaluation.real.recording import Answers, Case, Mark, Question, Recording, Reply, digest
from summarizing_context.evaluation.real.rendering import tokens_of
from summarizing_context.evaluation.real.views import Request

SEED = "letters"
_LAST = ("rules", "rollup", "brief", "compact", "compact_again")  # in `todo`, behind all other purposes

Value = TypeVar("Value")


class By(NamedTuple):
    """Who made the texts that are taken in."""

    model: str
    reading: str = "isolated"


def write_requests(folder: Path, missing: Iterable[Request]) -> int:
    """Write each request that has no reply in the folder yet, as JSON and as text; how many."""
    left = [request for request in missing if not _reply_file(folder, request).exists()]
    shutil.rmtree(folder / "todo", ignore_errors=True)
    numbers: dict[str, int] = {}
    for request in sorted(left, key=_place):
        number = numbers[request.case] = numbers.get(request.case, -1) + 1
        _put(folder / "requests" / f"{request.key}.json", _pretty(msgspec.to_builtins(request)))
        text = f"=== SYSTEM ===\n{request.system}\n\n=== USER ===\n{request.user}\n"
        _put(folder / "todo" / request.case / f"{number:03d}_{request.key}.txt", text)
    return len(left)


def write_views(folder: Path, case: Case, built: Built, questions: Sequence[Question]) -> None:
    """Write the views of a case for readers, and its questions without their answers."""
    for arm, view in built.views.items():
        path = folder / "views" / case.name / f"{arm}.txt"
        _set_aside(path, view.text, folder / "answers" / f"{case.name}.{arm}.json")
        _put(path, view.text)
    asked = [{"id": question.id, "question": question.question} for question in questions]
    _put(folder / "ask" / f"{case.name}.json", _pretty({"case": case.name, "questions": asked}))


def write_judging(folder: Path, recording: Recording, case: Case) -> None:
    """Write all answers of a case for a judge, under letters, and apart from it which arm each letter is."""
    document, letters = judging(recording, case)
    path = folder / "judge" / f"{case.name}.json"
    _set_aside(path, _pretty(document), folder / "marks" / path.name)
    _put(path, _pretty(document))
    _put(folder / "keys" / f"{case.name}.json", _pretty(letters))


def judging(recording: Recording, case: Case) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """What the judge of a case gets, and by question which arm each letter is."""
    answers = {arm: found for (name, arm), found in recording.answers.items() if name == case.name}
    letters = {question.id: shuffled(case.name, question.id, sorted(answers)) for question in recording.questions(case)}
    questions = [
        {
            "id": question.id,
            "category": question.category,
            "question": question.question,
            "gold": question.answer,
            "answers": {
                letter: answers[arm].answers.get(question.id, "") for letter, arm in letters[question.id].items()
            },
        }
        for question in recording.questions(case)
    ]
    return {"case": case.name, "questions": questions}, letters


def shuffled(case: str, question: str, arms: Sequence[str]) -> dict[str, str]:
    """Which arm each letter is, drawn anew for each question."""
    drawn = random.Random(f"{SEED}/{case}/{question}").sample(list(arms), len(arms))
    return dict(zip(ascii_uppercase, drawn, strict=False))


def take_replies(folder: Path, recording: Recording, by: By) -> int:
    """Take in `replies/<key>.txt` of exported requests, and `compact/<case>.txt`; how many."""
    found = []
    for path in sorted((folder / "replies").glob("*.txt")):
        request = _known(folder / "requests" / f"{path.stem}.json", Request)
        if request.key != path.stem:
            raise TranscriptError(f"{path}: its request was changed after it was written; export it again")
        found.append(Reply(path.stem, request.purpose, by.model, by.reading, path.read_bytes().decode().strip()))
    for case in recording.cases:
        path = folder / "compact" / f"{case.name}.txt"
        if path.exists():
            request = compact_request(case, recording.messages(case))
            text = path.read_bytes().decode().strip()
            found.append(Reply(request.key, "compact", by.model, by.reading, text))
    recording.add_replies(found)
    return len(found)


def take_answers(folder: Path, recording: Recording, by: By) -> int:
    """Take in `answers/<case>.<arm>.json`, each with the view in the folder that it was read from; how many."""
    known = {case.name for case in recording.cases}
    count = 0
    for path in sorted((folder / "answers").glob("*.json")):
        case, _, arm = path.stem.rpartition(".")
        if case not in known:
            raise TranscriptError(f"{path}: there is no case {case!r}; files are called <case>.<arm>.json")
        view = (folder / "views" / case / f"{arm}.txt").read_bytes().decode()
        answers = _known(path, dict[str, str])
        recording.add_answers(Answers(case, arm, digest(view), tokens_of(view), answers, by.model, by.reading))
        count += 1
    return count


def take_marks(folder: Path, recording: Recording, by: By) -> int:
    """Take in `marks/<case>.json`, a judge's marks by letters, with the letters of `keys/`; how many."""
    count = 0
    for path in sorted((folder / "marks").glob("*.json")):
        given = _known(path, dict[str, dict[str, int]])
        letters = _known(folder / "keys" / path.name, dict[str, dict[str, str]])
        marks = marks_of(path.stem, given, letters, by.model)
        recording.add_marks(marks)
        count += len(marks)
    return count


def marks_of(
    case: str, given: Mapping[str, Mapping[str, int]], letters: Mapping[str, Mapping[str, str]], model: str
) -> list[Mark]:
    """Marks by letters as marks by arms. Raises `TranscriptError` for a letter or a mark that there is not, or where
    an answer has none."""
    if {question: sorted(row) for question, row in given.items()} != {q: sorted(row) for q, row in letters.items()}:
        raise TranscriptError(f"marks of {case}: not the questions and letters that the judge was given")
    rows = [
        {"case": case, "question": question, "arm": letters[question][letter], "mark": mark, "model": model}
        for question, row in given.items()
        for letter, mark in row.items()
    ]
    try:
        return msgspec.convert(rows, list[Mark])
    except msgspec.ValidationError as error:
        raise TranscriptError(f"marks of {case}: {error}; a mark is 2, 1, 0 or -1") from error


def take_questions(folder: Path, recording: Recording) -> int:
    """Copy `questions/<case>.json` of the cases; how many."""
    count = 0
    for case in recording.cases:
        path = folder / "questions" / f"{case.name}.json"
        if path.exists():
            _put(recording.folder / "questions" / path.name, path.read_bytes().decode())
            count += 1
    recording.read_questions()
    return count


def _set_aside(path: Path, text: str, made_from_it: Path) -> None:
    """Move what was made from another text of a file to `old/`, before the text is replaced."""
    if made_from_it.exists() and (not path.exists() or path.read_bytes() != _bytes(text)):
        old = made_from_it.parent.parent / "old"
        old.mkdir(exist_ok=True)
        made_from_it.replace(old / f"{len(list(old.iterdir())):04d}-{made_from_it.name}")


def _bytes(text: str) -> bytes:
    return text.encode("utf8", "replace")


def _place(request: Request) -> tuple[str, int, int, int]:
    rank = _LAST.index(request.purpose) + 1 if request.purpose in _LAST else 0
    return request.case, rank, request.start, request.stop


def _reply_file(folder: Path, request: Request) -> Path:
    if request.purpose == "compact":
        return folder / "compact" / f"{request.case}.txt"
    return folder / "replies" / f"{request.key}.txt"


def _known(path: Path, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror}); export it into this folder again") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise TranscriptError(f"{path}: holds something else than it should ({error})") from error


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_bytes(text))


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
