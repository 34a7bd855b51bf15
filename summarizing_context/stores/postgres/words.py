"""Texts as PostgreSQL indexes them, words alone, without accents, stemmed by the server; and their relevance.

Relevance is BM25 with the figures of SQLite's FTS5, so that both stores agree: how often a text holds each term, how
long it is, and how many texts hold the term. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log as ln
from typing import Any, NamedTuple

from summarizing_context.messages.search_terms import indexed_words

_APART, _SPACE = re.compile(r"[\W_]+"), re.compile(r"\s")

_PIECE = 50_000  # characters

_PART_WORDS = 4_000  # of a part; the server keeps places up to 16,383

_LONGEST_WORD = 500  # letters; the server takes no more than 2,046 bytes


def plain(text: str) -> str:
    """The words of a text, with one space between them."""
    return " ".join(filter(None, map(_plain, _pieces(text))))


def _pieces(text: str) -> Iterator[str]:
    """A text in pieces between words: one call over megabytes would hold every other thread up."""
    start = 0
    while start < len(text):
        space = _SPACE.search(text, start + _PIECE, start + 2 * _PIECE)
        stop = space.end() if space else start + 2 * _PIECE
        yield text[start:stop]
        start = stop


def _plain(text: str) -> str:
    if not text.isascii():
        spaced = unicodedata.normalize("NFD", indexed_words(text))
        text = "".join(letter for letter in spaced if unicodedata.category(letter) != "Mn")
    return _APART.sub(" ", text).lower().strip()


def parts(text: str) -> Iterator[tuple[int, int, str]]:
    """A text in parts that the server can index: number, words, text. There is one at least."""
    words = [word[:_LONGEST_WORD] for piece in _pieces(text) for word in _plain(piece).split(" ") if word]
    for number, start in enumerate(range(0, len(words) or 1, _PART_WORDS)):
        some = words[start : start + _PART_WORDS]
        yield number, len(some), " ".join(some)


def any_of(terms: list[str]) -> str:
    """What `websearch_to_tsquery` reads as: any of the terms."""
    return " or ".join(map(_phrase, terms))


def all_of(terms: list[str]) -> str:
    """What it reads as: all of the terms."""
    return " ".join(map(_phrase, terms))


def _phrase(term: str) -> str:
    return f'"{plain(term)}"'


def _with_plain_content(values: Any) -> Any:
    return {**values, "content": " ".join(text for _, _, text in parts(values["content"]))}


def _with_plain_match(values: Any) -> Any:
    terms = re.findall(r'"([^"]*)"', values["match"])
    return {**values, "match": any_of(terms)}


PREPARED: Mapping[str, Callable[[Any], Any]] = {
    "index_memory": _with_plain_content,
    "match_memories": _with_plain_match,
}


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
