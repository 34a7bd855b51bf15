"""Exact values for a page of recall: ranked by how likely they are needed next, cited by message.

Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import exp, log, log1p
from operator import mul
from typing import Any, NamedTuple

import msgspec

from summarizing_context.extraction.values import ValueKind, exact_values, folder_of, kind_of, parts_of_value
from summarizing_context.messages.reading import Reading
from summarizing_context.messages.truncation import Count

_REFERENCE = 400  # characters of an argument beyond which it is content rather than a reference

_NEVER = 6.0  # stands for the age of a use where there was none

_FEW = 10  # messages up to which a value marks those that hold it


class MessageValues(NamedTuple):
    """The exact values of one message."""

    said: tuple[str, ...]
    used: tuple[str, ...]  # in short arguments of its calls


class Known(msgspec.Struct, gc=False):
    """What is known of one value; there are tens of thousands, which no garbage collection looks through."""

    value: str
    places: list[int] = msgspec.field(default_factory=list)  # messages that hold it, oldest first
    uses: int = 0
    used_last: int = -1
    alone: float = 0.0  # 1 where it stood alone in a message
    relevance: float = 0.0  # of the most relevant message that holds it


class Query(NamedTuple):
    """What is asked, and when."""

    parts: frozenset[str]
    now: int  # messages of the log
    relevance: Mapping[int, float]  # of messages, from 0 to 1
    focus: frozenset[str] = frozenset()  # values that the newest calls used


class _Focus(NamedTuple):
    """What the newest calls work on."""

    parts: frozenset[str]
    folders: frozenset[str]
    near: frozenset[int]  # the few messages that hold one of their values


def read_values(reading: Reading) -> MessageValues:
    """The exact values of a message."""
    said: dict[str, None] = {}
    used: dict[str, None] = {}
    for part in reading.parts:
        if part.kind == "call":
            for text in _arguments(part.texts[0] if part.texts else ""):
                short = len(text) <= _REFERENCE
                (used if short else said).update(dict.fromkeys([*exact_values(text), *_token(text)]))
        else:
            for text in part.texts:
                said.update(dict.fromkeys(exact_values(text)))
    return MessageValues(tuple(said), tuple(used))


def gather(messages: Iterable[tuple[int, MessageValues]], query: Query) -> list[Known]:
    """All values of these messages, which come oldest first."""
    known: dict[str, Known] = {}
    for index, values in messages:
        relevance = query.relevance.get(index, 0.0)
        for group in (values.said, values.used):
            for value in group:
                found = known.get(value)
                if found is None:
                    found = known[value] = Known(value)
                if not found.places or found.places[-1] != index:
                    found.places.append(index)
                found.alone = max(found.alone, 1 / len(group))
                found.relevance = max(found.relevance, relevance)
        for value in values.used:
            known[value].uses += 1
            known[value].used_last = index
    return list(known.values())


def likelihoods(values: Sequence[Known], query: Query) -> list[float]:
    """How likely each value is needed, from 0 to 1; good for comparing, not for betting."""
    focus = _focus(values, query.focus)
    telling = query.parts | focus.parts
    shared = [tuple(part for part in parts_of_value(known.value) if part in telling) for known in values]
    often = Counter(part for parts in shared for part in parts)
    rarity = {part: log((len(values) + 1) / (count + 0.5)) for part, count in often.items()}
    in_query = {part: rare for part, rare in rarity.items() if part in query.parts}
    worked_on = {part: rare for part, rare in rarity.items() if part in focus.parts}
    return [
        _likelihood(known, factors(known, query.now, _shared(parts, in_query), _shared(parts, worked_on), focus))
        for known, parts in zip(values, shared, strict=True)
    ]


def factors(known: Known, now: int, in_query: float, worked_on: float, focus: _Focus) -> tuple[float, ...]:
    """The factors of one value, but for its kind."""
    return (
        known.uses > 0,
        log1p(now - known.places[-1]),
        log1p(now - known.used_last) if known.uses else _NEVER,
        log(known.alone),
        known.relevance,
        in_query,
        log1p(known.places[0]),
        not known.uses and len(known.places) == 1,
        not focus.near.isdisjoint(known.places),
        folder_of(known.value) in focus.folders,
        worked_on,
    )


# for: was used, age, age of the last use, alone, relevance, parts in common with what is asked, place of the first,
# seen once only, seen where something of the focus is, folder of the focus, parts in common with the focus
WEIGHTS = (1.2, -0.47, -0.23, 0.3, 0.7, 0.57, -0.2, -0.52, 0.4, 0.4, 0.45)

KINDS: Mapping[ValueKind, float] = {
    "number": 1.5,
    "decimal": -1.5,  # measurements: seldom needed to the letter
    "dotted": -2.4,  # calls in code, such as `self.name`
    "mail": -2.4,
    "hex": -0.9,
    "url": -1.0,
    "path": -0.1,
    "word": 0.0,
}

_BASE = -2.2


def _likelihood(known: Known, factors: Iterable[float]) -> float:
    return 1 / (1 + exp(-(_BASE + KINDS[kind_of(known.value)] + sum(map(mul, WEIGHTS, factors)))))


def _shared(parts: Collection[str], rarity: Mapping[str, float]) -> float:
    """How much parts in common tell, from 0 to 1."""
    return min(sum(rarity.get(part, 0.0) for part in parts), 8.0) / 8


def _focus(values: Iterable[Known], used: frozenset[str]) -> _Focus:
    near = [known.places for known in values if known.value in used and len(known.places) <= _FEW]
    parts = frozenset[str]().union(*map(parts_of_value, used))
    folders = {folder_of(value) for value in used} - {""}
    return _Focus(parts, frozenset(folders), frozenset(place for places in near for place in places))


def _arguments(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return _leaves(value)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _token(text: str) -> list[str]:
    """A whole argument that is one id."""
    bare = text.strip()
    return [bare] if 4 <= len(bare) <= 40 and bare.isalnum() and any(map(str.isdigit, bare)) else []


_THRIFT = 0.4  # how much a value's tokens count against it

_TOO_LITTLE = 5  # tokens for one more value

_ROUNDS = 5  # in which what is written turns out shorter than it was reckoned


class ValueLine(NamedTuple):
    """Some values, and the messages that hold them."""

    places: tuple[int, ...]
    text: str


def chosen_lines(
    values: Sequence[Known], shown: Collection[str], query: Query, room: int, count: Count
) -> list[ValueLine]:
    """Lines within `room` tokens, without values that are `shown` or can be read off another one."""
    worth = likelihoods(values, query)
    left_out = [at for at, known in enumerate(values) if known.value not in shown]
    left_out = _whole_paths(values, left_out, worth)
    folders = Counter(folder_of(values[at].value) for at in left_out)
    lines = _Lines(shown, count)
    costs = {at: lines.shared_cost(values[at].value, folders) for at in left_out}
    waiting = [values[at] for at in sorted(left_out, key=lambda at: -worth[at] / costs[at] ** _THRIFT)]
    spare = room
    for _ in range(_ROUNDS):
        waiting = lines.fill(waiting, spare)
        spare = room - lines.size()
        if spare < _TOO_LITTLE:
            break
    lines.shorten(room)
    return lines.written()


def _whole_paths(values: Sequence[Known], left_out: Sequence[int], worth: list[float]) -> list[int]:
    """Without relative paths of which the absolute one is there; that is worth as much then."""
    whole: dict[str, int] = {}
    for at in left_out:
        if values[at].value.startswith(("/", "~/")):
            for end in _ends(values[at].value):
                whole.setdefault(end, at)
    kept = []
    for at in left_out:
        if (longer := whole.get(values[at].value)) is None:
            kept.append(at)
        else:
            worth[longer] = max(worth[longer], worth[at])
    return kept


class _Lines:
    """Lines as they fill up: the values chosen so far, each with the message that is cited for it."""

    def __init__(self, shown: Collection[str], count: Count) -> None:
        self._count = count
        self._held = set(shown)
        self._chosen: list[tuple[str, int]] = []
        self._cited: dict[str, set[int]] = {"": set()}  # messages cited for a folder's paths; "" for all lines
        self._tokens: dict[str, int] = {}

    def fill(self, waiting: Sequence[Known], room: int) -> list[Known]:
        """Add what fits into so many more tokens; what did not fit."""
        rest: list[Known] = []
        for at, known in enumerate(waiting):
            if room < _TOO_LITTLE:
                return [*rest, *waiting[at:]]
            if known.value in self._held:
                continue
            place = self._place(known)
            if (cost := self._cost(known.value, place)) > room:
                rest.append(known)
                continue
            room -= cost
            self._chosen.append((known.value, place))
            self._held.update(_within(known.value))
            for line in {"", folder_of(known.value)}:
                self._cited.setdefault(line, set()).add(place)
        return rest

    def shorten(self, room: int) -> None:
        """Without what was added last, until all is within the room."""
        while self._chosen and (size := self.size()) > room:
            surplus = max(1, len(self._chosen) * (size - room) // (2 * size))  # in few steps: there may be many
            del self._chosen[-surplus:]

    def size(self) -> int:
        """The tokens of all lines."""
        lines = self.written()
        return self._count("\n".join(line.text for line in lines)) + 1 if lines else 0

    def shared_cost(self, value: str, folders: Counter[str]) -> float:
        """The tokens of a value; those of a folder are shared by its paths."""
        folder = folder_of(value)
        own = 1 + self._size(value[len(folder) :])
        return own + self._size(folder) / folders[folder] if folder else own

    def written(self) -> list[ValueLine]:
        """The lines in the order of the log. A folder's paths from several messages have a line of their own."""
        folders: dict[str, tuple[dict[int, None], list[str]]] = {}
        lines: dict[tuple[int, ...], list[str]] = {}
        for value, place in self._chosen:
            if folder := folder_of(value):
                places, names = folders.setdefault(folder, ({}, []))
                places[place] = None
                names.append(value[len(folder) :])
            else:
                lines.setdefault((place,), []).append(value)
        for folder, (places, names) in folders.items():
            listed = names[0] if len(names) == 1 else f"{{{','.join(names)}}}"
            lines.setdefault(tuple(places), []).append(f"{folder}{listed}")
        return [
            ValueLine(places, f"{' '.join(map(str, places))}: {' '.join(found)}")
            for places, found in sorted(lines.items())
        ]

    def _cost(self, value: str, place: int) -> int:
        """What one more value costs, at most."""
        folder = folder_of(value)
        own = 1 + self._size(value[len(folder) :])
        if folder in self._cited and folder:
            return own + (0 if place in self._cited[folder] else self._size(f"{place} "))
        cited = 0 if place in self._cited[""] else 1 + self._size(f"{place}: ")
        return own + (1 + self._size(folder) if folder else 0) + cited

    def _place(self, known: Known) -> int:
        """The newest message that holds a value, or one that is cited already."""
        cited = self._cited.get(folder_of(known.value)) or self._cited[""]
        return next((place for place in reversed(known.places) if place in cited), known.places[-1])

    def _size(self, text: str) -> int:
        if text not in self._tokens:
            self._tokens[text] = self._count(text)
        return self._tokens[text]


def _within(value: str) -> Iterator[str]:
    """The values that can be read off another one: a path holds its folders and its name."""
    yield value
    steps = value.split("/")
    yield from steps
    for stop in range(2, len(steps)):
        yield "/".join(steps[:stop])
    yield from _ends(value)


def _ends(path: str) -> Iterator[str]:
    """The relative paths of at least two steps that a path ends with."""
    steps = path.split("/")
    for start in range(1, len(steps) - 1):
        yield "/".join(steps[start:])
