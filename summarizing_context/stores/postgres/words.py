"""Texts as PostgreSQL indexes them: words alone, without accents; the server stems and ranks them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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


def parts(text: str) -> Iterator[str]:
    """A text in parts that the server can index. There is one at least."""
    words = [word[:_LONGEST_WORD] for piece in _pieces(text) for word in _plain(piece).split(" ") if word]
    for start in range(0, len(words) or 1, _PART_WORDS):
        yield " ".join(words[start : start + _PART_WORDS])


def any_of(terms: Sequence[str]) -> str:
    """What `websearch_to_tsquery` reads as: any of the terms."""
    return " or ".join(map(_phrase, terms))


def all_of(terms: Sequence[str]) -> str:
    """What it reads as: all of the terms."""
    return " ".join(map(_phrase, terms))


def _phrase(term: str) -> str:
    return f'"{plain(term)}"'


def _with_plain_content(values: Any) -> Any:
    return {**values, "content": " ".join(parts(values["content"]))}


def _with_plain_match(values: Any) -> Any:
    terms = re.findall(r'"([^"]*)"', values["match"])
    return {**values, "match": any_of(terms)}


PREPARED: Mapping[str, Callable[[Any], Any]] = {
    "index_memory": _with_plain_content,
    "match_memories": _with_plain_match,
}
