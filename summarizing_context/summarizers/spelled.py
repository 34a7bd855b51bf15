"""Numbers written in words: `forty-two thousand`, `two hours`, `half an hour`.

Pure. Which of them are values, and what bears them out, is for `quantities`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from summarizing_context.summarizers.units import UNITS

_SMALL = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: value for value, word in enumerate(_SMALL.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), 2)
}
DIGITS = {word: value for word, value in _VALUES.items() if value < 10}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_LOOSE = 1_000  # from here on a number in words is rounded

_WORD = "|".join((*_VALUES, *_SCALES))
_RUN = re.compile(
    rf"(?<![\w-])(?<!\d )(?:(?P<half>half )?(?P<one>an? ))?(?P<words>(?:{_WORD})(?:(?: and | |-)(?:{_WORD}))*)"
    r"(?:[ -](?P<unit>%|[a-z]{1,12}))?(?![\w-])"
)
_PART = re.compile(r"(?P<gap> and | |-|)(?P<word>[a-z]+)")
_ARTICLE = re.compile(r"(?<![\w-])(?P<half>half )?(?:an?|one) (?P<unit>[a-z]{3,12})(?P<more> and a half)?(?![\w-])")


class Spelled(NamedTuple):
    """A number in words, with the unit behind it."""

    value: float
    many: float  # what its last word is worth, from a thousand up
    unit: str | None
    start: int
    stop: int


def find_spelled(text: str) -> Iterator[Spelled]:
    """The numbers in words of a plain text; `a thousand` is one, `an hour` is not."""
    for run in _RUN.finditer(text):
        first = 0.5 if run["half"] else 1.0
        numbers = list(_numbers_of(run["words"], first))
        for at, (value, many, start, stop) in enumerate(numbers):
            is_last = at == len(numbers) - 1
            unit = UNITS.get(run["unit"] or "") if is_last else None
            begin = run.start() if at == 0 else run.start("words") + start
            yield Spelled(value, many, unit, begin, run.end("unit") if unit else run.start("words") + stop)


def find_articles(text: str) -> Iterator[Spelled]:
    """What `an hour`, `half a day` and `a year and a half` amount to; too many idioms say `a second` to check them."""
    for found in _ARTICLE.finditer(text):
        unit = UNITS.get(found["unit"])
        if unit:
            value = (0.5 if found["half"] else 1.0) + (0.5 if found["more"] else 0.0)
            yield Spelled(value, 1.0, unit, found.start(), found.end())


def _numbers_of(words: str, first: float) -> Iterator[tuple[float, float, int, int]]:
    """Value, scale and place of each number in a run of words: `two three` are two of them."""
    number = _Growing(first)
    start = stop = 0
    for part in _PART.finditer(words):
        if not number.takes(part["word"], part["gap"]):
            yield number.value, number.many, start, stop
            number, start = _Growing(), part.start("word")
            number.takes(part["word"], "")
        stop = part.end()
    yield number.value, number.many, start, stop


class _Growing:
    """A number that grows word by word."""

    def __init__(self, first: float = 1.0) -> None:
        self._first = first  # of what a scale that stands alone is: `half a million`
        self._total = self._current = 0.0
        self._floor = float("inf")  # the next word must be worth less
        self._below = float("inf")  # the next scale must be smaller
        self._begun = self._scaled = False

    @property
    def value(self) -> float:
        return self._total + self._current

    @property
    def many(self) -> float:
        return self._below if self._scaled and self._current == 0 and self._below >= _LOOSE else 1.0

    def takes(self, word: str, gap: str) -> bool:
        """Whether the word goes on with the number; if so it is added."""
        if gap == " and " and not self._scaled:
            return False
        if word in _VALUES:
            return self._add(_VALUES[word])
        return self._scale(_SCALES[word])

    def _add(self, value: int) -> bool:
        if self._begun and (value >= self._floor or value == 0):
            return False
        self._current += value
        self._begun, self._scaled = True, False
        self._floor = 10 if value >= 20 else 0
        return True

    def _scale(self, scale: int) -> bool:
        if self._begun and ((self._scaled and scale <= 100) or self.value == 0 or scale >= self._below):
            return False
        if scale <= 100:
            self._current = (self._current or self._first) * scale
        else:
            self._total += (self._current or self._first) * scale
            self._current, self._below = 0.0, scale
        self._begun = self._scaled = True
        self._floor = 100
        return True
