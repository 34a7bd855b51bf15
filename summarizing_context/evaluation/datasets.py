"""Sessions and questions of LoCoMo and LongMemEval: name your own copy, the package ships neither.

The licence of LoCoMo, CC BY-NC 4.0, excludes commercial use. Only answers that stand verbatim in their evidence become
probes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.probes import Message, Probe, Text, read_session

DATASETS = ("locomo", "longmemeval")
Wanted = list[tuple[str, list[str], list[int]]]  # question, parts of its answer, messages of its evidence


def dataset_numbers(dataset: str, path: Path) -> list[tuple[Path, int]]:
    """Return (file, number in it) of every session of a data set under a file or folder."""
    if dataset not in DATASETS:
        raise SettingsError(f"there is no data set {dataset!r}; known are {', '.join(DATASETS)}")
    if dataset == "longmemeval":
        questions = enumerate(_entries(dataset, path))
        return [(path, number) for number, one in questions if not str(one.get("question_id", "")).endswith("_abs")]
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TranscriptError(f"{path}: the folder holds no .json file; name the folder or file of LoCoMo")
    return [(file, number) for file in files for number in range(len(_entries(dataset, file)))]


def dataset_session(dataset: str, path: Path, number: int) -> tuple[list[Message], list[Probe]]:
    """Return the messages of one session of a data set, and its questions at the end. Raise `TranscriptError`."""
    entry = _entries(dataset, path)[number]
    try:
        messages, wanted = _locomo(entry) if dataset == "locomo" else _longmemeval(entry)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no session of {dataset} ({type(error).__name__}: {error})") from error
    reads = read_session(messages)
    probes = []
    for question, literals, evidence in wanted:
        found = Text(word for at in evidence for word in reads[at].words)
        answers = tuple(literal for literal in literals if found.holds(literal))
        if answers:
            probes.append(Probe(question, answers, tuple(dict.fromkeys(evidence))))
    return messages, probes


@lru_cache(maxsize=4)
def _entries(dataset: str, path: Path) -> list[Any]:
    """The conversations of a file of LoCoMo, the questions of one of LongMemEval."""
    expected = "the folder or file of LoCoMo" if dataset == "locomo" else "a file of LongMemEval"
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{path}:1: not JSON ({error}); name {expected}") from error
    if isinstance(found, list):
        return found
    if dataset == "longmemeval":
        raise TranscriptError(f"{path}:1: a LongMemEval file is a list of questions; name another file")
    return [found]


def _locomo(document: Mapping[str, Any]) -> tuple[list[Message], Wanted]:
    """One message a turn, the first speaker as user. Of the questions those of the categories 1 to 4 are asked."""
    if isinstance(document.get("sessions"), list):
        sessions = [(session["date_time"], session["turns"]) for session in document["sessions"]]
    else:
        talk = document["conversation"]
        numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
        sessions = [(talk[f"session_{number}_date_time"], talk[f"session_{number}"]) for number in numbers]
    first = sessions[0][1][0]["speaker"]
    messages: list[Message] = []
    places: dict[str, int] = {}  # of the turns, by id
    for date, turns in sessions:
        for number, turn in enumerate(turns):
            places[str(turn["dia_id"])] = len(messages)
            seen = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            role = "user" if turn["speaker"] == first else "assistant"
            messages.append(_message(role, f"{turn['speaker']}: {turn['text']}{seen}", date, number))
    wanted: Wanted = []
    for question in document["qa"]:
        if question.get("category") in (1, 2, 3, 4) and question.get("answer") not in (None, ""):
            ids = re.findall(r"D\d+:\d+", str(question.get("evidence")))
            evidence = [places[id] for id in ids if id in places]
            wanted.append((str(question["question"]), _literals(str(question["answer"])), evidence))
    return messages, wanted


def _longmemeval(document: Mapping[str, Any]) -> tuple[list[Message], Wanted]:
    """The chats of a question one after the other; its evidence are the turns, or the chats, that have the answer."""
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
    return messages, [(str(document["question"]), [str(document["answer"]).strip(" .")], evidence)]


def _message(role: str, text: str, date: str, number: int) -> Message:
    """A message of a chat; the first one begins with the date of the chat."""
    return {"role": role, "content": f"({date}) {text}" if number == 0 else text}


def _literals(answer: str) -> list[str]:
    """The parts of an answer, without small words at their beginning."""
    small = ["a", "an", "and", "at", "by", "for", "from", "her", "his", "in", "is", "it", "of", "on", "the", "to"]
    parts = []
    for part in re.split(r",| and |;", answer):
        words = part.strip(" .!?\"'").split()
        while words and words[0].lower() in small:
            words.pop(0)
        if words:
            parts.append(" ".join(words))
    return parts
