"""Filling templates with seeded values: names from a domain's pools, and codes, amounts, dates made up on the spot.

`{city}` is a value of the pool `city`, `{city2}` another one; `[[words]]` marks the words that an answer needs and
`<<id>>` an id that may be used again; both marks are taken off.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_SLOT = re.compile(r"\{([a-z_]+)(\d*)\}")
_MARKED = re.compile(r"\[\[(.*?)\]\]")
_ID = re.compile(r"<<(.*?)>>")


class Filled(NamedTuple):
    """A template filled in."""

    text: str
    literals: tuple[str, ...]  # what stood in double brackets
    ids: tuple[str, ...]  # what stood in double angles


class Slots:
    """Values for slots, from pools and seeded dice."""

    def __init__(self, dice: random.Random, pools: Mapping[str, Sequence[str]]) -> None:
        self._dice = dice
        self._pools = pools

    def fill(self, template: str, known: Mapping[str, str] | None = None) -> Filled:
        """The template with a value in each slot; equal slots get equal values, those of `known` first."""
        values = dict(known or {})
        text = _SLOT.sub(lambda slot: self._value(slot, values), template)
        marked = _ID.sub(r"\1", text)
        return Filled(_MARKED.sub(r"\1", marked), tuple(_MARKED.findall(marked)), tuple(_ID.findall(text)))

    def note(self, template: str, values: dict[str, str]) -> None:
        """Choose a value for each slot of the template that has none yet."""
        for slot in _SLOT.finditer(template):
            self._value(slot, values)

    def _value(self, slot: re.Match[str], values: dict[str, str]) -> str:
        name = slot[0][1:-1]
        if name not in values:
            taken = {value for key, value in values.items() if key.startswith(slot[1])}
            values[name] = next(value for value in iter(lambda: self._make(slot[1]), None) if value not in taken)
        return values[name]

    def _make(self, kind: str) -> str:
        if kind in self._pools:
            return self.fill(self._dice.choice(self._pools[kind])).text
        if kind not in _MADE:
            raise KeyError(f"the slot {kind!r} has no pool and is not made up")
        return _MADE[kind](self._dice)


def _number(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda dice: str(dice.randrange(low, high))


def _letters(alphabet: str, count: int) -> Callable[[random.Random], str]:
    return lambda dice: "".join(dice.choice(alphabet) for _ in range(count))


def _amount(dice: random.Random) -> str:
    return f"{dice.randrange(11, 9_900)}.{dice.choice(('00', '50', '90', '25', '75'))}"


_MADE: dict[str, Callable[[random.Random], str]] = {
    "digit": _number(2, 10),
    "few": _number(3, 40),
    "some": _number(41, 900),
    "many": _number(1_000, 99_000),
    "ms": _number(2, 2_400),
    "percent": lambda dice: f"{dice.randrange(1, 99)}.{dice.randrange(10)}",
    "amount": _amount,
    "hex": _letters("0123456789abcdef", 8),
    "code": lambda dice: f"{_letters(string.ascii_uppercase, 2)(dice)}-{dice.randrange(1_000, 10_000)}",
    "time": lambda dice: f"{dice.randrange(24):02}:{dice.randrange(0, 60, 5):02}",
    "clock": lambda dice: f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}",
    "date": lambda dice: f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
    "later": lambda dice: f"2027-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
    "port": _number(3_000, 9_999),
}
