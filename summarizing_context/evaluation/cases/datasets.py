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
from summarizing_context.evaluation.cases.model import (
    KEPT_SHARE,
    Case,
    Cut,
    Message,
    Probe,
    kept_from,
    read_session,
    tokens_before,
)
from summarizing_context.evaluation.scoring.verdicts import Text

_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}

_TURN_ID = re.compile(r"D\d+:\d+")

_PARTS = re.compile(r",| and |;")

_SMALL = frozenset(
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
    return [(file, number) for file in files for number in range(len(_load(file)))]


def locomo_case(file: Path, number: int, *, budget: int) -> Case:
    """One conversation, cut at its end, with a probe for each answer that stands in its evidence."""
    told = _load(file)[number]
    try:
        sessions = list(_sessions(told))
        questions = told["qa"]
        id = str(told.get("id", told.get("sample_id", f"{file.stem}-{number}")))
        messages, places = _as_messages(sessions)
        cut = Cut(at=len(messages), budget=budget)
        probes = tuple(_probes(questions, messages, places, cut))
    except (KeyError, TypeError, AttributeError) as error:
        raise TranscriptError(f"{file}:1: no LoCoMo conversation ({type(error).__name__}: {error})") from error
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


@lru_cache(maxsize=4)
def _load(file: Path) -> list[Any]:
    try:
        found = json.loads(file.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{file}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{file}:1: not JSON ({error}); name the folder or file of LoCoMo") from error
    return found if isinstance(found, list) else [found]


def _sessions(told: Mapping[str, Any]) -> Iterator[tuple[str, list[_Turn]]]:
    """The sessions in order: when, and what was said."""
    if isinstance(told.get("sessions"), list):
        for session in told["sessions"]:
            yield str(session["date_time"]), [_turn(turn) for turn in session["turns"]]
        return
    talk = told["conversation"]
    numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        yield str(talk[f"session_{number}_date_time"]), [_turn(turn) for turn in talk[f"session_{number}"]]


def _turn(turn: Mapping[str, Any]) -> _Turn:
    seen = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return _Turn(str(turn["dia_id"]), str(turn["speaker"]), f"{turn['text']}{seen}")


def _as_messages(sessions: Sequence[tuple[str, list[_Turn]]]) -> tuple[list[Message], dict[str, int]]:
    """One message a turn, the first speaker as user; the message of each turn's id."""
    first = sessions[0][1][0].speaker
    messages: list[Message] = []
    places: dict[str, int] = {}
    for when, turns in sessions:
        for number, turn in enumerate(turns):
            places[turn.id] = len(messages)
            stamp = f"({when}) " if number == 0 else ""
            role = "user" if turn.speaker == first else "assistant"
            messages.append({"role": role, "content": f"{stamp}{turn.speaker}: {turn.text}"})
    return messages, places


def _probes(
    questions: Sequence[Mapping[str, Any]], messages: Sequence[Message], places: Mapping[str, int], cut: Cut
) -> Iterator[Probe]:
    reads = read_session(messages)
    start = kept_from(tokens_before(reads), cut.at, KEPT_SHARE * cut.budget)
    tail = Text(text for read in reads[start:] for text in read.texts)
    for number, asked in enumerate(questions):
        if asked.get("category") not in _CATEGORIES or asked.get("answer") in (None, ""):
            continue
        evidence = tuple(dict.fromkeys(places[id] for id in _ids(asked.get("evidence")) if id in places))
        found = Text(text for at in evidence for text in reads[at].texts)
        literals = tuple(part for part in _literals(str(asked["answer"])) if found.holds(part))
        if literals and not any(tail.holds(literal) for literal in literals):
            yield Probe(
                id=f"{_CATEGORIES[asked['category']]}-{number}",
                kind="recall",
                cut=cut.at,
                question=str(asked["question"]),
                literals=literals,
                evidence=evidence,
            )


def _ids(evidence: object) -> list[str]:
    """The turns that an evidence names; some entries name several."""
    return _TURN_ID.findall(" ".join(map(str, evidence))) if isinstance(evidence, list) else []


def _literals(answer: str) -> list[str]:
    """The parts of an answer without small words around them."""
    parts = []
    for part in _PARTS.split(answer):
        words = part.strip(" .!?\"'").split()
        while words and words[0].lower() in _SMALL:
            words.pop(0)
        if words:
            parts.append(" ".join(words))
    return parts


def longmemeval_numbers(path: Path) -> list[int]:
    """The numbers of the questions in a file whose answers can be looked for without a model."""
    return [number for number, told in enumerate(_longmemeval_load(path)) if _is_asked(told)]


def longmemeval_case(path: Path, number: int, *, budget: int) -> Case:
    """The session of one question; without a probe where its answer stands in the newest part."""
    told = _longmemeval_load(path)[number]
    try:
        messages, evidence = _longmemeval_as_messages(told)
        id, answer = str(told["question_id"]), str(told["answer"])
        cut = Cut(at=len(messages), budget=budget)
        probes = tuple(_longmemeval_probes(told, answer, messages, evidence, cut))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no LongMemEval question ({type(error).__name__}: {error})") from error
    return Case(
        id=f"longmemeval-{id}",
        messages=tuple(messages),
        cuts=(cut,),
        probes=probes,
        title=f"LongMemEval {id}",
        domain=str(told.get("question_type", "")),
        source="longmemeval",
        licence="MIT",
    )


@lru_cache(maxsize=1)
def _longmemeval_load(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{path}:1: not JSON ({error}); name a file of LongMemEval") from error
    if not isinstance(found, list):
        raise TranscriptError(f"{path}:1: a LongMemEval file is a list of questions; name another file")
    return found


def _is_asked(told: object) -> bool:
    """Whether a question has an answer to look for: those about what was never said have none."""
    return isinstance(told, dict) and not str(told.get("question_id", "")).endswith("_abs")


def _longmemeval_as_messages(told: Mapping[str, Any]) -> tuple[list[Message], list[int]]:
    """The chats one after the other, each begun with its date; and the messages that hold the answer."""
    messages: list[Message] = []
    evidence: list[int] = []
    answering = set(map(str, told.get("answer_session_ids", ())))
    ids = told.get("haystack_session_ids", [""] * len(told["haystack_sessions"]))
    for id, when, chat in zip(ids, told["haystack_dates"], told["haystack_sessions"], strict=True):
        marked = any("has_answer" in turn for turn in chat)
        for number, turn in enumerate(chat):
            if turn.get("has_answer") if marked else str(id) in answering:
                evidence.append(len(messages))
            stamp = f"({when}) " if number == 0 else ""
            messages.append({"role": str(turn["role"]), "content": f"{stamp}{turn['content']}"})
    return messages, evidence


def _longmemeval_probes(
    told: Mapping[str, Any], answer: str, messages: list[Message], evidence: list[int], cut: Cut
) -> Iterator[Probe]:
    reads = read_session(messages)
    start = kept_from(tokens_before(reads), cut.at, KEPT_SHARE * cut.budget)
    literal = answer.strip(" .")
    holding = tuple(at for at in evidence if Text(reads[at].texts).holds(literal))
    tail = Text(text for read in reads[start:] for text in read.texts)
    if literal and holding and not tail.holds(literal):
        yield Probe(
            id="answer",
            kind="recall",
            cut=cut.at,
            question=str(told["question"]),
            literals=(literal,),
            evidence=holding,
        )
