"""Texts as PostgreSQL indexes them: words alone, without accents; the server stems and ranks them. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from summarizing_context.messages.search_terms import indexed_words

_PIECE = 50_000  # characters

_PART_WORDS = 4_000  # of a part; the server keeps places up to 16,383

_LONGEST_WORD = 500  # letters; the server takes no more than 2,046 bytes


def parts(text: str) -> Iterator[str]:
    """Yield a text in parts that the server can index, at least one: words with one space between them."""
    words: list[str] = []
    start = 0
    while start < len(text):  # in pieces between words: one call over megabytes would hold every other thread up
        space = re.compile(r"\s").search(text, start + _PIECE, start + 2 * _PIECE)
        stop = space.end() if space else start + 2 * _PIECE
        words += _plain_words(text[start:stop])
        start = stop
    for start in range(0, len(words) or 1, _PART_WORDS):
        yield " ".join(words[start : start + _PART_WORDS])


def _plain_words(text: str) -> list[str]:
    if not text.isascii():
        spaced = unicodedata.normalize("NFD", indexed_words(text))
        text = "".join(letter for letter in spaced if unicodedata.category(letter) != "Mn")
    return [word[:_LONGEST_WORD] for word in re.sub(r"[\W_]+", " ", text).lower().split()]


def as_query(match: str) -> str:
    """Return what `websearch_to_tsquery` reads for phrases in quotation marks that are joined by OR or AND."""
    joint = " " if " AND " in match else " or "
    return joint.join(f'"{" ".join(_plain_words(phrase))}"' for phrase in re.findall(r'"([^"]*)"', match))
