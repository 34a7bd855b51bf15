"""Probes: exact values of a session that a view should still hold, found without a model and without labels.

A hindsight probe is a value that was seen before a cut and that a short argument of a later tool call uses. It must not
stand in the newest part of the past, nor appear again between cut and use. Line numbers of listings do not count: in a
long listing every small number occurs. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
_LINE_NUMBER = re.compile(r"^[ ]*(\d{1,9})(?=[\t→:|])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Probe:
    """What a view is asked for: all these words, which stand in these messages (from 0)."""

    question: str
    literals: tuple[str, ...]
    evidence: tuple[int, ...]
    used_at: int | None = None  # the message whose tool call used it


@dataclass(frozen=True, slots=True)
class Read:
    """The words of one message: texts apart from calls, names of called tools, arguments as plain values."""

    role: str
    texts: tuple[str, ...]
    tools: tuple[str, ...]
    arguments: tuple[str, ...]
    is_result: bool
    tokens: int

    @property
    def words(self) -> tuple[str, ...]:
        """All its texts."""
        return (*self.texts, *self.tools, *self.arguments)


def read_session(messages: Sequence[Message]) -> list[Read]:
    """Return the words of every message. Tokens are those of the built-in estimate; images cost nothing."""
    found = []
    for message in messages:
        reading = read_message(message)
        texts = tuple(text for part in reading.parts if part.kind != "call" for text in part.texts)
        calls = [part for part in reading.parts if part.kind == "call"]
        arguments = tuple(value for part in calls for value in _values("".join(part.texts[:1])))
        tokens = MESSAGE_TOKENS + sum(map(estimate_text, reading.texts))
        tools = tuple(part.name for part in calls)
        found.append(Read(reading.role, texts, tools, arguments, bool(reading.answers), tokens))
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


class Hindsight:
    """The exact values of a session, read once for all cuts."""

    def __init__(self, reads: Sequence[Read]) -> None:
        self._reads = reads
        self._seen = [
            frozenset(v for text in read.texts for v in exact_values(_without_line_numbers(text))) for read in reads
        ]
        self._used = [dict.fromkeys(_references(read)) for read in reads]

    def probes(self, cut: int, budget: int) -> list[Probe]:
        """Return the values that were needed after a cut, those that were needed first before the others."""
        first, last = dict[str, int](), dict[str, int]()
        for at in range(cut):
            for value in (*self._seen[at], *self._used[at]):
                first.setdefault(value, at)
                last[value] = at

        # The newest part, some 16 % of the budget and one message at least, is raw in every view.
        sums = list(accumulate((read.tokens for read in self._reads[:cut]), initial=0))
        kept = next((at for at in range(cut) if sums[cut] - sums[at] <= 0.16 * budget), max(0, cut - 1))
        tail = Text(text for read in self._reads[kept:cut] for text in read.words)
        shown = set[str]().union(*self._seen[kept:cut], *self._used[kept:cut])
        for read, seen in zip(self._reads, self._seen, strict=True):
            if read.role in ("system", "developer"):
                shown |= seen

        found: dict[str, Probe] = {}
        for at in range(cut, len(self._reads)):
            for value in self._used[at]:
                if value in first and value not in shown and value not in found and not tail.holds(value):
                    evidence = tuple(dict.fromkeys((first[value], last[value])))
                    if any(Text(self._reads[place].words).holds(value) for place in evidence):
                        found[value] = Probe(f"what message {at} needs", (value,), evidence, at)
            shown.update(self._seen[at], self._used[at])
            if len(found) >= _MAX_PROBES:
                break
        return list(found.values())[:_MAX_PROBES]


def _without_line_numbers(text: str) -> str:
    """A text without the numbers that count its lines, three at least; numbers that a search gives for its hits
    seldom count up by one, and stay."""
    runs: list[list[re.Match[str]]] = [[]]
    for found in _LINE_NUMBER.finditer(text):
        run = runs[-1]
        if run and not (int(found[1]) == int(run[-1][1]) + 1 and text.count("\n", run[-1].start(), found.start()) == 1):
            runs.append(run := [])
        run.append(found)
    kept, last = [], 0
    for found in (found for run in runs if len(run) >= 3 for found in run):
        kept.append(text[last : found.start()])
        last = found.end()
    return "".join([*kept, text[last:]])


def _references(read: Read) -> Iterator[str]:
    """The exact values that the calls of a message use."""
    for text in read.arguments:
        if len(text) <= _MAX_REFERENCE_CHARS:
            bare = text.strip()
            if 4 <= len(bare) <= 40 and bare.isalnum() and any(map(str.isdigit, bare)) and not bare.isdigit():
                yield bare
            yield from exact_values(text)


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
