"""Relevance of texts that PostgreSQL found: BM25 with the figures of SQLite's FTS5, so that both stores agree.

Pure. What counts is how often a text holds each term, how long it is, and how many texts hold the term.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import log as ln
from typing import NamedTuple

_SATURATION, _BY_LENGTH = 1.2, 0.75

_LEAST_WEIGHT = 1e-6  # of a term that every second text holds

_HELD = re.compile(r"'([^']*)':([0-9A,]+)")  # of a `tsvector` whose lexemes all have the weight A


class Collection(NamedTuple):
    """All texts that are indexed."""

    texts: int
    words: int


def by_relevance(
    rows: Iterable[tuple[int, int, str]],
    terms: Sequence[Sequence[str]],
    collection: Collection,
    frequencies: Sequence[int] | None = None,
) -> list[tuple[int, float]]:
    """Numbers of texts with their relevance, the best first; of equals the newest message, then the newest summary.

    A row is a text's number, its words, and where it holds the lexemes; a long text has several. A term is one lexeme,
    or several as a phrase. `frequencies` are how many texts hold each; without them the rows are all that hold any.
    """
    sizes: dict[int, int] = {}
    held: dict[int, list[int]] = {}
    for number, size, vector in rows:
        sizes[number] = size
        counts = held.setdefault(number, [0] * len(terms))
        places = dict(_HELD.findall(vector))
        for at, term in enumerate(terms):
            counts[at] += _occurrences(term, places)
    if frequencies is None:
        frequencies = [sum(counts[at] > 0 for counts in held.values()) for at in range(len(terms))]
    weights = [_weight(collection.texts, frequency) for frequency in frequencies]
    mean = collection.words / max(collection.texts, 1) or 1.0
    scores = {}
    for number, counts in held.items():
        length = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * sizes[number] / mean)
        scores[number] = sum(
            weight * (times * (_SATURATION + 1) / (times + length))
            for weight, times in zip(weights, counts, strict=True)
        )
    return sorted(scores.items(), key=lambda item: (-item[1], item[0] < 0, -abs(item[0])))


def _weight(texts: int, frequency: int) -> float:
    weight = ln(max(texts - frequency + 0.5, 0.5) / (frequency + 0.5))
    return weight if weight > 0 else _LEAST_WEIGHT


def _occurrences(term: Sequence[str], places: dict[str, str]) -> int:
    """How often a text holds a term."""
    if not term or any(lexeme not in places for lexeme in term):
        return 0
    if len(term) == 1:
        return places[term[0]].count(",") + 1
    begins = [
        {int(place) - at for place in places[lexeme].replace("A", "").split(",")} for at, lexeme in enumerate(term)
    ]
    return len(set.intersection(*begins))
