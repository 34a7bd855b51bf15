"""Probes: exact values of a session that a view should still hold, found without a model and without labels.

A hindsight probe is a value that was seen before a cut and that a short argument of a later tool call uses. It must not
stand in the newest part of the past, nor appear again between cut and use. Line numbers of listings do not count: in a
long listing every small number occurs. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from summarizing_context.extraction.values import exact_values
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text
from summarizing_context.messages.reading import read_message

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
