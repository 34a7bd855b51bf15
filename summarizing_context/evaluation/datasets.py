"""Sessions and questions of LoCoMo and LongMemEval: name your own copy, the package ships neither.

The licence of LoCoMo, CC BY-NC 4.0, excludes commercial use. Only answers that stand verbatim in their evidence become
probes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.probes import Message, Probe, Text, read_session

DATASETS = ("locomo", "longmemeval")
_CATEGORIES = (1, 2, 3, 4)  # of LoCoMo; others are not asked
_TURN_ID = re.compile(r"D\d+:\d+")
_PARTS = re.compile(r",| and |;")
_SMALL_WORDS = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "her", "his", "in", "is", "it", "of", "on", "the", "to")
)


class _Turn(NamedTuple):
    id: str
    speaker: str
    text: str


def dataset_numbers(dataset: str, path: Path) -> list[tuple[Path, int]]:
    """Return (file, number in it) of every session of a data set under a file or folder."""
    if dataset not in DATASETS:
        raise SettingsError(f"there is no data set {dataset!r}; known are {', '.join(DATASETS)}")
    if dataset == "longmemeval":
        questions = enumerate(_questions(path))
        return [(path, number) for number, one in questions if not str(one.get("question_id", "")).endswith("_abs")]
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TranscriptError(f"{path}: the folder holds no .json file; name the folder or file of LoCoMo")
    return [(file, number) for file in files for number in range(len(_conversations(file)))]


def dataset_session(dataset: str, path: Path, number: int) -> tuple[list[Message], list[Probe]]:
    """Return the messages of one session of a data set, and its questions at the end. Raise `TranscriptError`."""
    try:
        if dataset == "longmemeval":
            document = _questions(path)[number]
            messages, evidence = _chat_messages(document)
            wanted = [(str(document["question"]), [str(document["answer"]).strip(" .")], evidence)]
        else:
            document = _conversations(path)[number]
            messages, places = _turn_messages(list(_sessions(document)))
            wanted = [
                (
                    str(question["question"]),
                    _literals(str(question["answer"])),
                    [places[id] for id in _TURN_ID.findall(str(question.get("evidence"))) if id in places],
                )
                for question in document["qa"]
                if question.get("category") in _CATEGORIES and question.get("answer") not in (None, "")
            ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no session of {dataset} ({type(error).__name__}: {error})") from error
    reads = read_session(messages)
    probes = []
    for question, literals, evidence in wanted:
        found = Text(word for at in evidence for word in reads[at].words)
        answers = tuple(literal for literal in literals if found.holds(literal))
        if answers:
            probes.append(Probe(question, answers, tuple(dict.fromkeys(evidence))))
    return messages, probes


def _conversations(file: Path) -> list[Any]:
    found = _load(file, "the folder or file of LoCoMo")
    return found if isinstance(found, list) else [found]


def _questions(path: Path) -> list[Any]:
    found = _load(path, "a file of LongMemEval")
    if not isinstance(found, list):
        raise TranscriptError(f"{path}:1: a LongMemEval file is a list of questions; name another file")
    return found


@lru_cache(maxsize=4)
def _load(path: Path, expected: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{path}:1: not JSON ({error}); name {expected}") from error


def _sessions(document: Mapping[str, Any]) -> Iterator[tuple[str, list[_Turn]]]:
    """The sessions of a LoCoMo conversation in order, each with its date."""
    if isinstance(document.get("sessions"), list):
        for session in document["sessions"]:
            yield str(session["date_time"]), [_turn(turn) for turn in session["turns"]]
        return
    talk = document["conversation"]
    numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        yield str(talk[f"session_{number}_date_time"]), [_turn(turn) for turn in talk[f"session_{number}"]]


def _turn(turn: Mapping[str, Any]) -> _Turn:
    seen = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return _Turn(str(turn["dia_id"]), str(turn["speaker"]), f"{turn['text']}{seen}")


def _turn_messages(sessions: Sequence[tuple[str, list[_Turn]]]) -> tuple[list[Message], dict[str, int]]:
    """One message a turn, the first speaker as user; and the message of each turn's id."""
    first = sessions[0][1][0].speaker
    messages: list[Message] = []
    places: dict[str, int] = {}
    for date, turns in sessions:
        for number, turn in enumerate(turns):
            places[turn.id] = len(messages)
            role = "user" if turn.speaker == first else "assistant"
            messages.append(_message(role, f"{turn.speaker}: {turn.text}", date, number))
    return messages, places


def _chat_messages(document: Mapping[str, Any]) -> tuple[list[Message], list[int]]:
    """The chats of a LongMemEval question one after the other, and the messages that hold the answer."""
    messages: list[Message] = []
    evidence: list[int] = []
    answer_sessions = set(map(str, document.get("answer_session_ids", ())))
    ids = document.get("haystack_session_ids", [""] * len(document["haystack_sessions"]))
    for id, date, chat in zip(ids, document["haystack_dates"], document["haystack_sessions"], strict=True):
        is_marked = any("has_answer" in turn for turn in chat)
        for number, turn in enumerate(chat):
            if turn.get("has_answer") if is_marked else str(id) in answer_sessions:
                evidence.append(len(messages))
            messages.append(_message(str(turn["role"]), str(turn["content"]), date, number))
    return messages, evidence


def _message(role: str, text: str, date: str, number: int) -> Message:
    """A message of a session; the first one begins with the session's date."""
    return {"role": role, "content": f"({date}) {text}" if number == 0 else text}


def _literals(answer: str) -> list[str]:
    """The parts of an answer, without small words at their beginning."""
    parts = []
    for part in _PARTS.split(answer):
        words = part.strip(" .!?\"'").split()
        while words and words[0].lower() in _SMALL_WORDS:
            words.pop(0)
        if words:
            parts.append(" ".join(words))
    return parts
