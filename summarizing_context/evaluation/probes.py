"""Probes: exact values of a session that a view should still hold, found without a model and without labels.

A hindsight probe is a value that was seen before a cut and that a short argument of a later tool call uses. It must not
stand in the newest part of the past, nor appear again between cut and use. A data set brings questions with answers
instead. Pure but for reading its file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.extraction.values import exact_values
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.tokens import MESSAGE_TOKENS, estimate_text

Message = dict[str, Any]

_MAX_PROBES = 200  # of one cut
_MAX_REFERENCE_CHARS = 400  # a longer argument is content rather than a reference


@dataclass(frozen=True, slots=True)
class Probe:
    """What a view is asked for: all these words, which stand in these messages (from 0)."""

    question: str
    literals: tuple[str, ...]
    evidence: tuple[int, ...]
    used_at: int | None = None  # the message whose tool call used it


@dataclass(frozen=True, slots=True)
class Read:
    """One message as probes see it. Tokens are those of the built-in estimate; images cost nothing."""

    role: str
    tokens: int
    words: tuple[str, ...]  # texts, names of called tools, arguments as plain values
    seen: frozenset[str]  # exact values of its texts
    used: tuple[str, ...]  # those that its calls use


def read_session(messages: Sequence[Message]) -> list[Read]:
    """Return every message as probes see it."""
    found = []
    for message in messages:
        reading = read_message(message)
        texts = tuple(text for part in reading.parts if part.kind != "call" for text in part.texts)
        calls = [part for part in reading.parts if part.kind == "call"]
        arguments = tuple(value for part in calls for value in _values("".join(part.texts[:1])))
        used: dict[str, None] = {}
        for text in arguments:
            if len(text) <= _MAX_REFERENCE_CHARS:
                bare = text.strip()
                if 4 <= len(bare) <= 40 and bare.isalnum() and any(map(str.isdigit, bare)) and not bare.isdigit():
                    used[bare] = None
                used |= dict.fromkeys(exact_values(text))
        tokens = MESSAGE_TOKENS + sum(map(estimate_text, reading.texts))
        words = (*texts, *(part.name for part in calls), *arguments)
        seen = frozenset(value for text in texts for value in exact_values(text))
        found.append(Read(reading.role, tokens, words, seen, tuple(used)))
    return found


def _values(arguments: str) -> Iterator[str]:
    """The strings and numbers in the arguments of a call."""
    try:
        left = [json.loads(arguments)]
    except (ValueError, RecursionError):
        left = [arguments]
    while left:
        value = left.pop(0)
        if isinstance(value, dict | list):
            left[:0] = value.values() if isinstance(value, dict) else value
        elif value is not None and not isinstance(value, bool):
            yield str(value)


class Text:
    """Texts ready to be searched for whole words, in any case and with any white space."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = re.sub(r"[^\S\n]+", " ", "\n".join(texts)).casefold()

    def place(self, literal: str) -> int:
        """Return where the literal stands as whole words first; -1 if nowhere."""
        wanted = " ".join(literal.casefold().split())
        at = self.text.find(wanted) if wanted else -1
        while at >= 0:
            before, after = self.text[at - 1 : at], self.text[at + len(wanted) : at + len(wanted) + 1]
            if not (wanted[0].isalnum() and before.isalnum()) and not (wanted[-1].isalnum() and after.isalnum()):
                break
            at = self.text.find(wanted, at + 1)
        return at

    def holds(self, *literals: str) -> bool:
        """Return whether all the literals stand here."""
        return all(self.place(literal) >= 0 for literal in literals)

    def excerpt(self, literal: str) -> str:
        """Return the words around a literal; empty where it does not stand."""
        place = self.place(literal)
        return "" if place < 0 else " ".join(self.text[max(0, place - 60) : place + 120].split())


def cuts_of(messages: Sequence[Message]) -> list[int]:
    """Return the assistant messages nearest to 40, 60 and 80 % of a session."""
    places = [at for at, message in enumerate(messages) if message.get("role") == "assistant" and at > 0]
    wanted = (share * len(messages) for share in (0.4, 0.6, 0.8))
    return sorted({min(places, key=lambda at: abs(at - place)) for place in wanted}) if places else []


def hindsight(reads: Sequence[Read], cut: int, budget: int) -> list[Probe]:
    """Return the values that were needed after a cut, those that were needed first before the others."""
    first, last = dict[str, int](), dict[str, int]()
    for at, read in enumerate(reads[:cut]):
        for value in (*read.seen, *read.used):
            first.setdefault(value, at)
            last[value] = at

    # The newest part, some 16 % of the budget and one message at least, is raw in every view.
    sums = list(accumulate((read.tokens for read in reads[:cut]), initial=0))
    kept = next((at for at in range(cut) if sums[cut] - sums[at] <= 0.16 * budget), max(0, cut - 1))
    tail = Text(text for read in reads[kept:cut] for text in read.words)
    shown = {value for read in reads[kept:cut] for value in (*read.seen, *read.used)}
    shown.update(value for read in reads if read.role in ("system", "developer") for value in read.seen)

    found: dict[str, Probe] = {}
    for at, read in enumerate(reads[cut:], cut):
        for value in read.used:
            if value in first and value not in shown and value not in found and not tail.holds(value):
                evidence = tuple(dict.fromkeys((first[value], last[value])))
                if any(Text(reads[place].words).holds(value) for place in evidence):
                    found[value] = Probe(f"what message {at} needs", (value,), evidence, at)
        shown.update(read.seen, read.used)
    return list(found.values())[:_MAX_PROBES]


def dataset_numbers(dataset: str, path: Path) -> list[tuple[Path, int]]:
    """Return (file, number in it) of every session of a data set under a file or folder."""
    if dataset != "locomo":
        raise SettingsError(f"there is no data set {dataset!r}; known is locomo")
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    if not files:
        raise TranscriptError(f"{path}: the folder holds no .json file; name the folder or file of LoCoMo")
    return [(file, number) for file in files for number in range(len(_conversations(file)))]


def dataset_session(path: Path, number: int) -> tuple[list[Message], list[Probe]]:
    """Return the messages of one conversation of LoCoMo, a message a turn with the first speaker as user, and its
    questions at the end: those of the categories 1 to 4 with answers that stand word for word in their evidence. Raise
    `TranscriptError`."""
    messages: list[Message] = []
    places: dict[str, int] = {}  # of the turns, by id
    probes = []
    try:
        document = _conversations(path)[number]
        talk = document["conversation"]
        numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
        asking = talk[f"session_{numbers[0]}"][0]["speaker"]
        for session in numbers:
            for at, turn in enumerate(talk[f"session_{session}"]):
                places[str(turn["dia_id"])] = len(messages)
                date = f"({talk[f'session_{session}_date_time']}) " if at == 0 else ""
                seen = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                role = "user" if turn["speaker"] == asking else "assistant"
                messages.append({"role": role, "content": f"{date}{turn['speaker']}: {turn['text']}{seen}"})
        reads = read_session(messages)
        for question in document["qa"]:
            if question.get("category") in (1, 2, 3, 4) and question.get("answer") not in (None, ""):
                ids = re.findall(r"D\d+:\d+", str(question.get("evidence")))
                evidence = tuple(dict.fromkeys(places[id] for id in ids if id in places))
                found = Text(word for at in evidence for word in reads[at].words)
                answers = tuple(one for one in _literals(str(question["answer"])) if found.holds(one))
                if answers:
                    probes.append(Probe(str(question["question"]), answers, evidence))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no session of locomo ({type(error).__name__}: {error})") from error
    return messages, probes


def _conversations(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{path}:1: not JSON ({error}); name the folder or file of LoCoMo") from error
    return found if isinstance(found, list) else [found]


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
