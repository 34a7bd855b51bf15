"""Texts as PostgreSQL indexes them: words alone, in small letters, without accents; stemmed by the server."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from summarizing_context.messages.search_terms import indexed_words

_APART = re.compile(r"[\W_]+")

_PART_WORDS = 4_000  # of a part; the server keeps places up to 16,383

_LONGEST_WORD = 500  # letters; the server takes no more than 2,046 bytes


def plain(text: str) -> str:
    """The words of a text, with one space between them."""
    if not text.isascii():
        spaced = unicodedata.normalize("NFD", indexed_words(text))
        text = "".join(letter for letter in spaced if unicodedata.category(letter) != "Mn")
    return _APART.sub(" ", text).lower().strip()


def parts(text: str) -> Iterator[tuple[int, int, str]]:
    """A text in parts that the server can index: number, words, text. There is one at least."""
    words = [word[:_LONGEST_WORD] for word in plain(text).split(" ") if word]
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
