"""Numbers with units, in digits or words, and whether one bears another out.

Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from summarizing_context.summarizers.verification.units import (
    CURRENCIES,
    MANY,
    SCALES,
    UNITS,
    M,
    durations,
    parts_of_money,
    unsaid_units,
)

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


def find_articles(text: str) -> Iterator[tuple[float, str]]:
    """What `an hour`, `half a day` and `a year and a half` amount to, with the unit; too many idioms say `a second` to
    check them."""
    for found in _ARTICLE.finditer(text):
        if unit := UNITS.get(found["unit"]):
            yield (0.5 if found["half"] else 1.0) + (0.5 if found["more"] else 0.0), unit


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


_ANY, _BARE = "any", "none"  # measures of all numbers, and of those that have no unit

_LOOSEST = 0.2  # how far a round number may be from what it rounds

_HEDGES = """
    about around roughly approximately approx approx. circa ca ca. nearly almost under below most over above least
    than past exceeding ~ ≈ < ≤ > ≥ ~=
"""

_MARKS = re.compile(r"[,_']")

_NUMBER = re.compile(
    r"(?P<before>[~≈<>≤≥][ ]?)?(?P<minus>(?<![\w)\]%$€£°+-])-)?(?P<sign>[$€£][ ]?)?"
    r"(?P<digits>\d{1,3}(?:[,_']\d{3})+(?:\.\d{1,12})?|\d{1,3}(?:\.\d{3}){2,}(?![\d.])|\d{1,40}(?:\.\d{1,12})?)(?P<plus>\+)?"
    r"(?:(?P<gap>[ -]?)(?P<unit>%|°[cf]?|[a-zµμ]{1,12})(?![a-z]))?"
)

_KEY = re.compile(r"[_ (\[]([a-z%]{1,12})[\"'\s:=|)\]]{1,6}\Z")

_COUNTING = re.compile(r"(?:limit|offset|count|rows|line|port|page)\"?[ =:]{1,3}\Z")

_LINES = re.compile(r"(?<=[:'\"])\d{1,6}(?:,\d{1,6})+(?=p?(?!\w))")  # `a.py:3,120` and `sed -n '241,520p'`

_NO_NUMBERS = re.compile(  # hashes, ids, versions, addresses
    r"(?<!\w)(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{7,64})(?!\w)|"
    r"(?<![\d.])(?!\d{1,3}(?:\.\d{3})+(?![\d.]))\d+(?:\.\d+){2,}(?::\d+)?|"
    r"(?<![\w.-])\d+(?:-\d+){2,}(?![\w-])"
)

_BELOW_ZERO = re.compile(
    r"minus|negative|below|down|decreas|drop|fell|fall|less|reduc|lower|los[st]|cut|short|under|declin|deficit|debit|"
    r"refund|credit|charge|delet|remov|sav(?:ed|ing)|fewer"
)

_MODE = re.compile(r"(?<![\w.,-])0([0-7]{3})(?![\w.,])")  # of a file, also told without the 0

_MINUS = ("minus ", "negative ")

_NEAR = 40  # characters before a number in which such a word stands


class Quantity(NamedTuple):
    """A number as it stands."""

    value: float
    many: float  # 1000 where a `k` follows
    digits: str  # as written, without separators
    unit: str | None  # one of `UNITS`
    hedged: bool  # said to be about so much
    start: int
    stop: int  # with its unit
    negative: bool = False
    spelled: bool = False  # in words

    @property
    def step(self) -> float:
        """What its last digit is worth; where it is said to be round, the last digit that is not 0."""
        return float(10 ** (self._zeros - len(self.digits.partition(".")[2]))) * self.many

    @property
    def reach(self) -> float:
        """How far the number may be that it stands for: it may be rounded up or down, if it looks round."""
        return min(self.step, _LOOSEST * self.value) if self.is_rounded else self.step / 2

    @property
    def is_rounded(self) -> bool:
        return self.hedged and (self._zeros > 0 or self.many > 1)

    @property
    def _zeros(self) -> int:
        return len(self.digits) - len(self.digits.rstrip("0")) if self.hedged and "." not in self.digits else 0

    @property
    def must_be_exact(self) -> bool:
        """Whether it is rather a name than a number: it begins with 0, or is longer than any amount."""
        return len(self.digits) > 12 or (self.digits[0] == "0" and self.digits.isdigit() and len(self.digits) > 1)

    @property
    def is_literal(self) -> bool:
        """Three digits, a decimal part or a unit make a number a value; `two` and `12 files` are words, and so is
        `one day`."""
        if self.spelled and self.value <= 1:
            return False
        return len(self.digits) > 2 or self.many > 1 or self.unit is not None

    @property
    def is_telling(self) -> bool:
        """Whether the digits alone tell so much that the unit need not stand beside them: those of `4.00` do not."""
        digits = self.digits.rstrip("0").rstrip(".") if "." in self.digits else self.digits
        return len(digits) > 2 or self.many > 1


def find_quantities(text: str) -> Iterator[Quantity]:
    """The numbers of a plain text, also those inside longer words."""
    for found in _NUMBER.finditer(text):
        digits = _MARKS.sub("", found["digits"])
        digits = digits.replace(".", "") if digits.count(".") > 1 else digits
        unit, many = _unit_of(found)
        hedged = bool(found["before"] or found["plus"] or many != 1.0) or _is_hedged(text, found.start())
        stop = found.end() if unit else found.end("digits")
        negative = found["minus"] is not None or text[max(0, found.start() - 9) : found.start()].endswith(_MINUS)
        yield Quantity(float(digits) * many, many, digits, unit, hedged, found.start("digits"), stop, negative)


def find_in_words(text: str) -> Iterator[Quantity]:
    """The numbers that a plain text tells in words; `a thousand` is one, `an hour` is not."""
    for run in _RUN.finditer(text):
        numbers = list(_numbers_of(run["words"], 0.5 if run["half"] else 1.0))
        for at, (value, many, first, last) in enumerate(numbers):
            unit = UNITS.get(run["unit"] or "") if at == len(numbers) - 1 else None
            start = run.start() if at == 0 else run.start("words") + first
            stop = run.end("unit") if unit else run.start("words") + last
            hedged = many > 1 or text.startswith(("a ", "an "), start) or _is_hedged(text, start)
            negative = text[max(0, start - 9) : start].endswith(_MINUS)
            digits = str(value / many).removesuffix(".0")
            yield Quantity(value, many, digits, unit, hedged, start, stop, negative, spelled=True)


def _unit_of(found: re.Match[str]) -> tuple[str | None, float]:
    """The unit of a number, and what `k` or `million` makes of it."""
    word = found["unit"] or ""
    if found["sign"]:
        return found["sign"].strip(), MANY.get(word, 1.0)
    if word and _is_inside(found):
        return None, 1.0
    if word == "mi" and not found["gap"]:  # 512Mi; miles stand apart
        return "mb", 1.0
    if word == M and not found["gap"]:
        return M, MANY[M]
    if word in MANY and not (word in UNITS or (word in ("k", "m") and found["gap"])):
        return None, MANY[word]
    if len(word) == 1 and word not in ("%", "°") and found["gap"] == " " and word not in ("s", "h", "b"):
        return None, 1.0
    return UNITS.get(word), 1.0


def _is_inside(found: re.Match[str]) -> bool:
    """Whether a number and what looks like its unit stand in the middle of a word, such as a hash."""
    text, start, stop = found.string, found.start("digits"), found.end("unit")
    return start > 0 and text[start - 1].isalpha() and text[stop : stop + 1].isdigit()


def _is_hedged(text: str, start: int) -> bool:
    words = text[max(0, start - 24) : start].split()
    return any(word.strip("(,:") in _HEDGES.split() for word in words[-2:])


class Quantities:
    """The numbers of a source, ready to be asked."""

    def __init__(self, text: str) -> None:
        self._text = text = _NO_NUMBERS.sub(_blank, text)
        self._found = list(find_quantities(text))
        self._digits = {found.digits for found in self._found}
        amounts = _Amounts()
        for found in (number for number in self._found if not number.must_be_exact):
            unit = found.unit or _unit_before(text, found.start)
            if unit is None and _COUNTING.search(text, max(0, found.start - 20), found.start):
                amounts.note_count(found.value)
                continue
            amounts.note(found, unit)
            if unit is None:
                value = found.value / 100 if parts_of_money(text, found.start) else found.value
                for unsaid in CURRENCIES if value != found.value else unsaid_units(text, found.start, found.stop):
                    amounts.note_measure(value, unsaid)
            if unit is None and found.value <= 1 and "." in found.digits and text[found.start - 1 : found.start] != ".":
                amounts.note_share(100 * found.value)
        for line in (line for found in _LINES.findall(text) for line in found.split(",")):
            amounts.note_count(float(line))
        for mode in _MODE.findall(text):
            amounts.note_value(float(mode), None)
        for seconds in durations(text):
            amounts.note_measure(seconds, "s")
        self._spelled = list(find_in_words(text))
        for found in self._spelled:
            amounts.note(found, found.unit)
        for value, unit in find_articles(text):
            amounts.note_value(value, unit)
        self._amounts = amounts.sorted()

    def supports(self, number: Quantity) -> bool:
        """Whether the source has this number: as it stands, in another unit, or what it rounds."""
        if number.must_be_exact:
            return number.digits in self._digits
        return _is_supported(number, self._amounts) and (not number.negative or _is_supported(number, self._below_zero))

    def has_seconds(self, seconds: float) -> bool:
        """Whether a time of the source is as long, to the second."""
        known = self._amounts.get("time", ())
        return bisect_left(known, seconds - 0.999) < bisect_right(known, seconds + 0.999)

    @cached_property
    def _below_zero(self) -> dict[str, list[float]]:
        """The numbers that are, or may be, less than nothing: a loss is told with and without a sign."""
        amounts = _Amounts()
        for found in (*self._found, *self._spelled):
            around = self._text[max(0, found.start - _NEAR) : found.stop + _NEAR // 2]
            if found.negative or _BELOW_ZERO.search(around) or self._text[found.start - 1 : found.start] == "(":
                amounts.note(found, found.unit or _unit_before(self._text, found.start))
        return amounts.sorted()


class _Amounts:
    """What numbers amount to, by what they measure."""

    def __init__(self) -> None:
        self._values: dict[str, set[float]] = defaultdict(set)

    def note(self, number: Quantity, unit: str | None) -> None:
        if unit == M:
            self._values[_ANY].add(number.value)
            self._values["time"].add(60 * number.value / number.many)
            self.note_measure(number.value / number.many, "mb")
        else:
            self.note_value(number.value, unit)

    def note_value(self, value: float, unit: str | None) -> None:
        self._values[_ANY].add(value)
        if unit is None:
            self._values[_BARE].add(value)
        else:
            self.note_measure(value, unit)

    def note_count(self, value: float) -> None:
        """What counts things, and has no unit that a source leaves unsaid."""
        self._values[_ANY].add(value)

    def note_measure(self, value: float, unit: str) -> None:
        for measure, scales in SCALES.items():
            if unit in scales:
                self._values[measure].add(value * scales[unit])

    def note_share(self, percent: float) -> None:
        """`0.85` may be told as 85 %."""
        self._values["share"].add(percent)

    def sorted(self) -> dict[str, list[float]]:
        return {measure: sorted(values) for measure, values in self._values.items()}


def _is_supported(number: Quantity, amounts: Mapping[str, Sequence[float]]) -> bool:
    if number.unit is None:
        return _has(amounts.get(_ANY, ()), number, 1.0)
    if number.unit == M:
        minutes = number._replace(value=number.value / number.many, many=1.0, hedged=False)
        return (
            _has(amounts.get(_ANY, ()), number, 1.0)
            or _has(amounts.get("time", ()), minutes, 60.0)
            or _has(amounts.get("size", ()), minutes, SCALES["size"]["mb"])
        )
    if number.is_telling and _has(amounts.get(_BARE, ()), number, 1.0):
        return True
    measures = [(measure, scales[number.unit]) for measure, scales in SCALES.items() if number.unit in scales]
    return any(_has(amounts.get(measure, ()), number, scale) for measure, scale in measures)


def _has(known: Sequence[float], number: Quantity, scale: float) -> bool:
    """Whether a number of the source is this one, once it is written with as many digits."""
    value, reach = number.value * scale, number.reach * scale
    reach *= 1 - 1e-6 if number.is_rounded else 1 + 1e-6  # 1.25 may be told as 1.3, and 43,000 not as 42k
    return bisect_left(known, value - reach) < bisect_right(known, value + reach)


def _blank(found: re.Match[str]) -> str:
    """What holds digits and is no number."""
    return " " * len(found[0])


def _unit_before(text: str, start: int) -> str | None:
    """The unit in the name of a value, as in `"duration_ms": 45`."""
    found = _KEY.search(text, max(0, start - 20), start)
    return UNITS.get(found[1]) if found else None
