"""The ledger in a view: what was changed, what is broken, and the exact names that work goes on with, in one block.

Pure. It stands behind the summaries of the header, is made anew at each activation, and takes what its share of the
room allows: first what matters most, and of that what is latest. Whatever the raw tail shows is left to the tail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import NamedTuple

from summarizing_context.extraction.ledger import LOOKS, Ledger, Touch
from summarizing_context.messages.fences import fence
from summarizing_context.messages.truncation import Count

PREFACE = "From the calls and results that were left out, latest first:"

_TAG = "ledger"

_EACH = 96  # things of one kind that are looked at

_FADES = 8  # things after which one of the same kind weighs half

_JOINT = 2  # tokens between two names

_RAN, _BROKEN, _DECIDED = "ran", "not fixed:", "decided:"

_OWN_LINES = {section: f"\n{section} " for section in (_RAN, _BROKEN, _DECIDED)}

_LONGEST = 160  # characters of a command

_SIGNS = "/_.-"  # most names have one of these, and few words


class _Entry(NamedTuple):
    weight: float
    section: str  # what its line begins with
    text: str


@lru_cache(maxsize=64)
def _words(text: str) -> frozenset[str]:
    """The words of a block, most of which stand in many headers."""
    return frozenset(map(intern, text.split()))


class _Known:
    """Texts that are asked for many values: most are found, or not, by their words alone."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._words = frozenset[str]().union(*map(_words, texts))
        self._joined: dict[str, str] = {}  # the words that hold a sign

    def says(self, value: str) -> bool:
        """Whether one holds this value."""
        words = value.split()
        if words == [value]:  # it stands within one word
            return value in self._words or value in self._with(next(filter(value.__contains__, _SIGNS), ""))
        return self._words.issuperset(words[1:-1]) and any(value in text for text in self._texts)

    def _with(self, sign: str) -> str:
        """The words that hold a sign, or all: what is not among the few is not looked for among the many."""
        if sign not in self._joined:
            self._joined[sign] = " ".join(word for word in self._words if sign in word)
        return self._joined[sign]


def ledger_block(ledger: Ledger, stop: int, known: Sequence[str], cap: int, count: Count) -> str:
    """What is known of the messages before `stop`, in at most `cap` tokens; "" where nothing fits or is worth it.

    `known` is what the header says already: names that were only looked at are not told twice.
    """
    left = cap - count(_block([]))
    chosen: list[_Entry] = []
    sections: set[str] = set()
    for entry in sorted(_entries(ledger, stop, _Known(known)), key=lambda entry: -entry.weight):
        cost = count(entry.text) + _JOINT + (0 if entry.section in sections else count(entry.section))
        if cost <= left:
            chosen.append(entry)
            sections.add(entry.section)
            left -= cost
        elif left < 2 * _JOINT:
            break
    while chosen:
        block = _block(chosen)
        if count(block) <= cap:
            return block
        chosen.pop()
    return ""


def is_ledger(text: str) -> bool:
    """Whether a block of a header is such a ledger."""
    return text.startswith(f"<{_TAG}>\n{PREFACE}")


def _block(entries: Iterable[_Entry]) -> str:
    lines: dict[str, list[str]] = {}
    for entry in entries:
        lines.setdefault(entry.section, []).append(entry.text)
    listed = [f"{section} {(_OWN_LINES.get(section) or ', ').join(texts)}" for section, texts in lines.items()]
    return fence(_TAG, "\n".join([PREFACE, *listed]))


def _entries(ledger: Ledger, stop: int, known: _Known) -> Iterator[_Entry]:
    """All that could be told, each kind latest first."""
    for kind in ("path", "identifier"):
        places: dict[bool, int] = {True: 0, False: 0}
        for touch in _covered(ledger.newest(kind), stop):
            changed = touch.operation not in LOOKS
            if changed or not known.says(touch.value):
                weight = 10.0 if changed else 6.0 if kind == "path" else 5.0
                yield _Entry(_faded(weight, places[changed], touch), touch.operation, touch.value)
                places[changed] += 1
    errors = (touch for touch in _covered(ledger.newest("error"), stop) if ledger.fixed_at(touch) is None)
    for place, touch in enumerate(errors):
        if not known.says(touch.value):
            yield _Entry(_faded(7.0, 3 * place, touch), _BROKEN, touch.value)
    for place, touch in enumerate(_covered(ledger.newest("command"), stop)):
        broken = not touch.went_well
        if not known.says(touch.value) and len(touch.value) <= _LONGEST:
            outcome = "" if touch.operation == "ran" else f" → {touch.operation}"
            yield _Entry(_faded(6.0 if broken else 3.0, 2 * place, touch), _RAN, f"{touch.value}{outcome}")
    for place, touch in enumerate(_covered(ledger.newest("url"), stop)):
        if not known.says(touch.value):
            yield _Entry(_faded(5.0, place, touch), touch.operation, touch.value)
    for place, touch in enumerate(_covered(ledger.newest("decision"), stop)):
        if not known.says(touch.value):
            yield _Entry(_faded(5.0, place, touch), _DECIDED, touch.value)


def _covered(touches: Iterator[Touch], stop: int) -> Iterator[Touch]:
    return (touch for touch in islice(touches, _EACH) if touch.start < stop)


def _faded(weight: float, place: int, touch: Touch) -> float:
    """Later and more often is worth more."""
    often = 1.0 + 0.25 * (touch.times > 1) + 0.25 * (touch.times > 3)
    return weight * often / (1 + place / _FADES)
