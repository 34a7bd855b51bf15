"""Which exact values of the past are most likely needed next: stated factors, one number each.

Pure. A value counts the more the newer it is, the fewer others stood beside it, whether a tool call ever used it, and
how much it, or the messages that hold it, have in common with what is asked and with what the newest calls work on.
The weights were fitted on half of a set of recorded sessions (a logistic regression) and looked at on the other half;
that of relevance is kept above its fit, because the recorded queries describe situations and none asks a question.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, log1p
from operator import mul
from typing import Any, NamedTuple

from summarizing_context.core.messages import Reading
from summarizing_context.core.values import ValueKind, exact_values, folder_of, kind_of, parts_of_value

_REFERENCE = 400  # characters of an argument beyond which it is content rather than a reference
_NEVER = 6.0  # stands for the age of a use where there was none
_FEW = 10  # messages up to which a value marks those that hold it


class MessageValues(NamedTuple):
    """The exact values of one message."""

    said: tuple[str, ...]
    used: tuple[str, ...]  # in short arguments of its calls


@dataclass(slots=True)
class Known:
    """What is known of one value."""

    value: str
    places: list[int] = field(default_factory=list)  # messages that hold it, oldest first
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
    asked = {part: rare for part, rare in rarity.items() if part in query.parts}
    worked_on = {part: rare for part, rare in rarity.items() if part in focus.parts}
    return [
        _likelihood(known, factors(known, query.now, _shared(parts, asked), _shared(parts, worked_on), focus))
        for known, parts in zip(values, shared, strict=True)
    ]


def factors(known: Known, now: int, asked: float, worked_on: float, focus: _Focus) -> tuple[float, ...]:
    """The factors of one value, but for its kind."""
    return (
        known.uses > 0,
        log1p(now - known.places[-1]),
        log1p(now - known.used_last) if known.uses else _NEVER,
        log(known.alone),
        known.relevance,
        asked,
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
