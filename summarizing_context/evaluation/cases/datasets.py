"""Cases from the datasets LoCoMo and LongMemEval.

The package ships neither: name your own copy. The licence of LoCoMo, CC BY-NC 4.0, excludes commercial use. Only
answers that stand verbatim in their evidence become probes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.cases.model import Case, Cut, Message, Probe, read_session, tail_start
from summarizing_context.evaluation.cases.verdicts import text_of

_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}  # of LoCoMo; others are not asked
_TURN_ID = re.compile(r"D\d+:\d+")
_PARTS = re.compile(r",| and |;")
_SMALL_WORDS = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "her", "his", "in", "is", "it", "of", "on", "the", "to")
)


class _Turn(NamedTuple):
    id: str
    speaker: str
    text: str


def locomo_files(path: Path) -> list[tuple[Path, int]]:
    """(file, number of the conversation in it) of every conversation under a file or folder."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TranscriptError(f"{path}: the folder holds no .json file; name the folder or file of LoCoMo")
    return [(file, number) for file in files for number in range(len(_conversations(file)))]


def locomo_case(file: Path, number: int, *, budget: int) -> Case:
    """One conversation, cut at its end, with a probe for each answer that stands in its evidence."""
    document = _conversations(file)[number]
    try:
        id = str(document.get("id", document.get("sample_id", f"{file.stem}-{number}")))
        messages, places = _turn_messages(list(_sessions(document)))
        cut = Cut(at=len(messages), budget=budget)
        probes = tuple(_locomo_probes(document["qa"], messages, places, cut))
    except (KeyError, TypeError, AttributeError) as error:
        raise TranscriptError(f"{file}:1: not a LoCoMo conversation ({type(error).__name__}: {error})") from error
    return Case(
        id=f"locomo-{id}",
        messages=tuple(messages),
        cuts=(cut,),
        probes=probes,
        title=f"LoCoMo {id}",
        domain="conversation",
        source="locomo",
        licence="CC-BY-NC-4.0",
    )


def longmemeval_numbers(path: Path) -> list[int]:
    """The numbers of the questions in a file that have an answer to look for."""
    questions = enumerate(_questions(path))
    return [
        number
        for number, document in questions
        if isinstance(document, dict) and not str(document.get("question_id", "")).endswith("_abs")
    ]


def longmemeval_case(path: Path, number: int, *, budget: int) -> Case:
    """The session of one question; without a probe where its answer stands in the newest part."""
    document = _questions(path)[number]
    try:
        id = str(document["question_id"])
        messages, evidence = _chat_messages(document)
        cut = Cut(at=len(messages), budget=budget)
        probes = tuple(_longmemeval_probes(document, messages, evidence, cut))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TranscriptError(f"{path}:1: not a LongMemEval question ({type(error).__name__}: {error})") from error
    return Case(
        id=f"longmemeval-{id}",
        messages=tuple(messages),
        cuts=(cut,),
        probes=probes,
        title=f"LongMemEval {id}",
        domain=str(document.get("question_type", "")),
        source="longmemeval",
        licence="MIT",
    )


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


def _locomo_probes(
    questions: Sequence[Mapping[str, Any]], messages: Sequence[Message], places: Mapping[str, int], cut: Cut
) -> Iterator[Probe]:
    reads = read_session(messages)
    tail = text_of(reads[tail_start(reads, cut) :])
    for number, question in enumerate(questions):
        if question.get("category") not in _CATEGORIES or question.get("answer") in (None, ""):
            continue
        evidence = tuple(dict.fromkeys(places[id] for id in _turn_ids(question.get("evidence")) if id in places))
        found = text_of(reads[at] for at in evidence)
        literals = tuple(part for part in _literals(str(question["answer"])) if found.holds(part))
        if literals and not any(tail.holds(literal) for literal in literals):
            id = f"{_CATEGORIES[question['category']]}-{number}"
            yield _recall_probe(id, question, literals, evidence, cut)


def _longmemeval_probes(
    document: Mapping[str, Any], messages: Sequence[Message], evidence: Sequence[int], cut: Cut
) -> Iterator[Probe]:
    reads = read_session(messages)
    literal = str(document["answer"]).strip(" .")
    holding = tuple(at for at in evidence if text_of([reads[at]]).holds(literal))
    if literal and holding and not text_of(reads[tail_start(reads, cut) :]).holds(literal):
        yield _recall_probe("answer", document, (literal,), holding, cut)


def _recall_probe(
    id: str, question: Mapping[str, Any], literals: tuple[str, ...], evidence: tuple[int, ...], cut: Cut
) -> Probe:
    text = str(question["question"])
    return Probe(id=id, kind="recall", cut=cut.at, question=text, literals=literals, evidence=evidence)


def _turn_ids(evidence: object) -> list[str]:
    """The turns that an evidence names; some entries name several."""
    return _TURN_ID.findall(" ".join(map(str, evidence))) if isinstance(evidence, list) else []


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
