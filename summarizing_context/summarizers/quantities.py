"""Numbers with their units, as they stand in a text, and whether one bears another out.

Pure. `1,200 ms`, `1.2s` and `about 1200 milliseconds` are the same number in three spellings; which words are values at
all is decided in `literals`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

_SCALES = {  # of a unit: what it measures, and how much of it
    "time": {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0},
    "weeks": {"week": 1.0},
    "months": {"month": 1.0, "year": 12.0},
    "size": {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    "binary size": {"b": 1.0, "kb": 1024.0, "mb": 1024.0**2, "gb": 1024.0**3, "tb": 1024.0**4},
    "frequency": {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    "length": {"mm": 1e-3, "cm": 1e-2, "km": 1e3},
    "weight": {"kg": 1e3, "mg": 1e-3},
    "share": {"%": 1.0},
    "screen": {"px": 1.0},
    "times": {"x": 1.0},
    "dollars": {"$": 1.0},
    "euros": {"€": 1.0},
    "pounds": {"£": 1.0},
}
_SPELLINGS = {
    "ns": "ns nanosecond nanoseconds",
    "us": "us µs microsecond microseconds",
    "ms": "ms msec millisecond milliseconds millis",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "d day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years",
    "b": "byte bytes",
    "kb": "kb kib kilobyte kilobytes",
    "mb": "mb mib megabyte megabytes",
    "gb": "gb gib gigabyte gigabytes",
    "tb": "tb tib terabyte terabytes",
    "hz": "hz",
    "khz": "khz",
    "mhz": "mhz",
    "ghz": "ghz",
    "mm": "mm",
    "cm": "cm",
    "km": "km",
    "kg": "kg",
    "mg": "mg",
    "%": "% percent pct percents",
    "px": "px pixel pixels",
    "x": "x",
    "$": "$ usd dollar dollars",
    "€": "€ eur euro euros",
    "£": "£ gbp pound pounds",
}
UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_ANY, _BARE = "any", "none"  # measures of all numbers, and of those that have no unit
_LOOSEST = 0.2  # how far a round number may be from what it rounds
MANY = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
_WORDS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty
"""
_TENS = {"thirty": 30.0, "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "ninety": 90.0, "hundred": 100.0}
_NAMED = {word: float(value) for value, word in enumerate(_WORDS.split())} | _TENS

_HEDGES = """
    about around roughly approximately approx approx. circa ca ca. nearly almost under below most over above least
    than past exceeding ~ ≈ < ≤ > ≥ ~=
"""
_MARKS = re.compile(r"[,_']")
_NUMBER = re.compile(
    r"(?P<before>[~≈<>≤≥][ ]?)?(?P<sign>[$€£][ ]?)?"
    r"(?P<digits>\d{1,3}(?:[,_']\d{3})+(?:\.\d{1,12})?|\d{1,3}(?:\.\d{3}){2,}(?![\d.])|\d{1,40}(?:\.\d{1,12})?)(?P<plus>\+)?"
    r"(?:(?P<gap>[ -]?)(?P<unit>%|[a-zµμ]{1,12})(?![a-z]))?"
)
_NAMED_NUMBER = re.compile(rf"(?<![a-z-])(?P<word>{'|'.join(_NAMED)})[ -](?P<unit>%|[a-z]{{1,12}})(?![a-z])")
_KEY = re.compile(r"[_ (\[]([a-z%]{1,12})[\"'\s:=|)\]]{1,6}\Z")
CURRENCIES = ("$", "€", "£")


class Quantity(NamedTuple):
    """A number as it stands."""

    value: float
    many: float  # 1000 where a `k` follows
    digits: str  # as written, without separators
    unit: str | None  # one of `_MEASURES`
    hedged: bool  # said to be about so much
    start: int
    stop: int  # with its unit

    @property
    def step(self) -> float:
        """What its last digit is worth; where it is said to be round, the last digit that is not 0."""
        return float(10 ** (self._zeros - len(self.digits.partition(".")[2]))) * self.many

    @property
    def reach(self) -> float:
        """How far the number may be that it stands for: it may be rounded up or down, if it looks round."""
        looks_round = self._zeros > 0 or self.many > 1
        return min(self.step, _LOOSEST * self.value) if self.hedged and looks_round else self.step / 2

    @property
    def _zeros(self) -> int:
        return len(self.digits) - len(self.digits.rstrip("0")) if self.hedged and "." not in self.digits else 0

    @property
    def must_be_exact(self) -> bool:
        """Whether it is rather a name than a number: it begins with 0, or is longer than any amount."""
        return len(self.digits) > 12 or (self.digits[0] == "0" and self.digits.isdigit() and len(self.digits) > 1)

    @property
    def is_literal(self) -> bool:
        """Three digits, a decimal part or a unit make a number a value; `two` and `12 files` are words."""
        return len(self.digits) > 2 or self.unit is not None


def find_quantities(text: str) -> Iterator[Quantity]:
    """The numbers of a plain text, also those inside longer words."""
    for found in _NUMBER.finditer(text):
        digits = _MARKS.sub("", found["digits"])
        digits = digits.replace(".", "") if digits.count(".") > 1 else digits
        unit, many = _unit_of(found)
        hedged = bool(found["before"] or found["plus"] or many != 1.0) or _is_hedged(text, found.start())
        stop = found.end() if unit else found.end("digits")
        yield Quantity(float(digits) * many, many, digits, unit, hedged, found.start("digits"), stop)


def _unit_of(found: re.Match[str]) -> tuple[str | None, float]:
    """The unit of a number, and what `k` or `million` makes of it."""
    word = found["unit"] or ""
    if found["sign"]:
        return found["sign"].strip(), MANY.get(word, 1.0)
    if word in MANY and not (word in UNITS or (word in ("k", "m") and found["gap"])):
        return None, MANY[word]
    if len(word) == 1 and word != "%" and found["gap"] == " " and word not in ("s", "h"):
        return None, 1.0
    return UNITS.get(word), 1.0


def _is_hedged(text: str, start: int) -> bool:
    words = text[max(0, start - 24) : start].split()
    return any(word.strip("(,:") in _HEDGES.split() for word in words[-2:])


class Quantities:
    """The numbers of a source, ready to be asked."""

    def __init__(self, text: str) -> None:
        self._digits: set[str] = set()
        amounts: dict[str, set[float]] = defaultdict(set)  # by measure
        for found in find_quantities(text):
            self._digits.add(found.digits)
            unit = found.unit or _unit_before(text, found.start)
            _note(amounts, found.value, unit)
            if unit is None and found.value <= 1 and "." in found.digits:
                amounts["share"].add(100 * found.value)
        for named in _NAMED_NUMBER.finditer(text):
            _note(amounts, _NAMED[named["word"]], UNITS.get(named["unit"]))
        self._amounts = {measure: sorted(values) for measure, values in amounts.items()}

    def bear_out(self, number: Quantity) -> bool:
        """Whether the source has this number: as it stands, in another unit, or what it rounds."""
        if number.must_be_exact:
            return number.digits in self._digits
        if number.unit is None:
            return self._has(_ANY, number, 1.0)
        if len(number.digits) > 2 and self._has(_BARE, number, 1.0):
            return True
        measures = [(measure, scales[number.unit]) for measure, scales in _SCALES.items() if number.unit in scales]
        return any(self._has(measure, number, scale) for measure, scale in measures)

    def _has(self, measure: str, number: Quantity, scale: float) -> bool:
        """Whether a number of the source is this one, once it is written with as many digits."""
        known, value, reach = self._amounts.get(measure, []), number.value * scale, number.reach * scale
        reach += 1e-9 * max(1.0, value)
        return bisect_left(known, value - reach) < bisect_right(known, value + reach)


def _note(amounts: dict[str, set[float]], value: float, unit: str | None) -> None:
    amounts[_ANY].add(value)
    if unit is None:
        amounts[_BARE].add(value)
    else:
        for measure, scales in _SCALES.items():
            if unit in scales:
                amounts[measure].add(value * scales[unit])


def _unit_before(text: str, start: int) -> str | None:
    """The unit in the name of a value, as in `"duration_ms": 45`."""
    found = _KEY.search(text, max(0, start - 20), start)
    return UNITS.get(found[1]) if found else None
