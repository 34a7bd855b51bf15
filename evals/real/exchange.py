"""Recording by hand, with models that read and write files: requests, views and questions go out, replies come in.

    python -m evals.real.exchange add | export | import

A folder holds it all: `requests/` and `todo/` for one who writes summaries, `views/` and `ask/` for a reader, `judge/`
for a judge, who sees answers under shuffled letters; `keys/` says which arm a letter was. `replies/`, `compact/`,
`answers/` and `marks/` are theirs. Answers to a view that changed, and marks of answers that changed, go to `old/`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.real.arms import ARMS, USUAL, Built, Request, build, compact_request
from summarizing_context.evaluation.real.recorder import judging, marks_of
from summarizing_context.evaluation.real.recording import Answers, Case, Question, Recording, Reply, add_case, digest
from summarizing_context.evaluation.real.rendering import tokens_of

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


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(prog="python -m evals.real.exchange", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("evals/real"), help="the folder of the recording")
    commands = parser.add_subparsers(required=True)

    add = commands.add_parser("add", help="add a log, as far as its cut, to the cases")
    add.add_argument("log", type=Path)
    add.add_argument("--name", help="of the case; else that of the file")
    add.add_argument("--budget", type=int, required=True, help="tokens of a view")
    where = add.add_mutually_exclusive_group(required=True)
    where.add_argument("--cut", type=int, help="messages before the view")
    where.add_argument("--share", type=float, help="of the characters before the view")
    add.add_argument("--source", required=True)
    add.add_argument("--licence", required=True)
    add.add_argument("--session", default="", help="cases of one session count as one in intervals")
    add.set_defaults(run=_add)

    export = commands.add_parser(
        "export", help="write what is missing: requests, views and questions, answers to judge"
    )
    export.add_argument("--to", type=Path, required=True, help="the folder of the exchange")
    export.add_argument("--arms", default=",".join(USUAL), help=f"of {', '.join(ARMS)}")
    export.add_argument("--cases", default="", help="names; all if none is given")
    export.set_defaults(run=_export)

    take = commands.add_parser("import", help="take in replies, questions, answers and marks")
    take.add_argument("--from", dest="source", type=Path, required=True, help="the folder of the exchange")
    take.add_argument("--model", required=True, help="what kind of model wrote them, and when")
    take.add_argument("--reading", default="isolated", help="how requests were read")
    take.set_defaults(run=_import)

    given = parser.parse_args()
    given.run(given)


def _add(given: argparse.Namespace) -> None:
    case = add_case(
        given.data,
        given.log,
        name=given.name,
        cut=given.cut if given.cut is not None else given.share,
        budget=given.budget,
        source=given.source,
        licence=given.licence,
        session=given.session,
    )
    print(f"{case.name}: cut before message {case.cut}")


def _export(given: argparse.Namespace) -> None:
    recording = Recording.open(given.data)
    wanted = [name for name in given.cases.split(",") if name]
    missing = []
    for case in recording.cases:
        if wanted and case.name not in wanted:
            continue
        messages, arms = recording.messages(case), given.arms.split(",")
        built = anyio.run(build, case, messages, recording.replies, arms, recording.settings)
        missing += built.missing
        write_views(given.to, case, built, recording.questions(case))
        if any(name == case.name for name, _ in recording.answers):
            write_judging(given.to, recording, case)
        sizes = ", ".join(f"{arm} {view.tokens:,}" for arm, view in built.views.items()) or "no views yet"
        print(f"{case.name}: {len(built.missing)} requests missing, {built.waiting} wait for them; {sizes}")
    print(f"{write_requests(given.to, missing)} requests without a reply are in {given.to / 'todo'}")


def _import(given: argparse.Namespace) -> None:
    recording, by = Recording.open(given.data), By(given.model, given.reading)
    questions = take_questions(given.source, recording)
    replies = take_replies(given.source, recording, by)
    answers = take_answers(given.source, recording, by)
    marks = take_marks(given.source, recording, by)
    recording.save()
    print(f"{questions} files of questions, {replies} replies, answers from {answers} views, {marks} marks")


if __name__ == "__main__":
    main()
