"""Which exact values of the past are most likely needed next: stated factors, one number each.

Pure. A value counts the more the newer it is, the fewer others stood beside it, whether a tool call ever used it, and
how much it, or the messages that hold it, have in common with what is asked. The weights were fitted on half of
a set of recorded sessions and looked at on the other half.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, log1p
from typing import Any, NamedTuple

from summarizing_context.core.messages import Reading
from summarizing_context.core.values import exact_values, parts_of_value

_REFERENCE = 400  # characters of an argument beyond which it is content rather than a reference
_NEVER = 6.0  # stands for the age of a use where there was none


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
    shared = [parts_of_value(known.value) & query.parts for known in values]
    often = Counter(part for parts in shared for part in parts)
    rarity = {part: log((len(values) + 1) / (count + 0.5)) for part, count in often.items()}
    return [
        1 / (1 + exp(-sum(w * f for w, f in zip(WEIGHTS, factors(known, parts, rarity, query.now), strict=True))))
        for known, parts in zip(values, shared, strict=True)
    ]


def factors(known: Known, shared: Collection[str], rarity: Mapping[str, float], now: int) -> tuple[float, ...]:
    """The factors of one value."""
    return (
        1.0,
        float(known.uses > 0),
        log1p(now - known.places[-1]),
        log1p(now - known.used_last) if known.uses else _NEVER,
        log(known.alone),
        known.relevance,
        min(sum(rarity[part] for part in shared), 8.0) / 8,
        log1p(known.places[0]),
        log1p(len(known.places)),
        float("/" in known.value),
        float(known.value.strip("#$").replace(",", "").replace(".", "").isdigit()),
        float("/" not in known.value and any(map(str.isdigit, known.value))),
        float(not known.uses and len(known.places) == 1),
    )


# for: was used, age, age of the last use, alone, relevance, parts in common, place of the first, how many, path,
# number, holds digits, seen once only
WEIGHTS = (0.7, 1.3, -0.4, -0.75, 0.35, 0.7, 0.85, -0.25, -0.2, 0.5, 0.5, 0.55, -0.6)


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
