"""Words for searching: what of a message is searched, what a query asks for, and what a hit shows.

Pure. Queries are plain words: nothing in them is an operator. How words are indexed is the store's matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from summarizing_context.core.door import decode_message
from summarizing_context.core.messages import read_message

MOST_TERMS = 24  # of a query; a pasted page is searched by its first words
SNIPPET = 200  # characters

_WORD = re.compile(r"[^\W_]+")
_STEM = 4  # letters after which the end of a word may differ


def searchable(message: bytes) -> str:
    """The texts of a stored message; nothing for bytes that hold none.

    A released version is indexed by it, and the index forgets by it: another one needs a migration that indexes anew.
    """
    try:
        texts = read_message(decode_message(message)).texts
    except Exception:  # not JSON, or no message: written by other means
        return ""
    return "\n".join(texts).encode("utf-8", "replace").decode("utf-8")  # SQLite takes no lone surrogates


def query_terms(query: str, most: int = MOST_TERMS) -> list[str]:
    """What a query asks for: each run of characters without a space, and its words where it has several."""
    terms: dict[str, None] = {}
    for run in query.split():
        words = _WORD.findall(run.lower())
        if words:
            terms[" ".join(words)] = None
        if len(words) > 1:
            terms.update(dict.fromkeys(words))
        if len(terms) >= most:
            break
    return list(terms)[:most]


def coverage(terms: Sequence[str], text: str) -> float:
    """Which part of the terms a text holds, from 0 to 1; the ends of words may differ."""
    if not terms:
        return 0.0
    held = " ".join(_WORD.findall(text.lower()))
    return sum(_stem(term) in held for term in terms) / len(terms)


def snippet(terms: Sequence[str], text: str) -> str:
    """Where a text holds most of the terms, on one line."""
    flat = " ".join(text.split())
    lowered = flat.lower()
    if len(flat) <= SNIPPET or len(lowered) != len(flat):
        return _cut(flat, 0)
    found = sorted(place for term in terms for place in _places(term, lowered))
    best = max(found, key=lambda place: _within(found, place), default=0)  # the first of several
    return _cut(flat, max(0, best - SNIPPET // 4))


def _within(places: Sequence[int], start: int) -> int:
    return bisect_left(places, start + SNIPPET * 3 // 4) - bisect_left(places, start)


def _places(term: str, lowered: str) -> list[int]:
    stem = re.escape(_stem(term.split(" ", 1)[0]))
    return [match.start() for match, _ in zip(re.finditer(rf"(?<![^\W_]){stem}", lowered), range(50), strict=False)]


def _stem(term: str) -> str:
    return term if len(term) <= _STEM else term[: max(_STEM, len(term) - 3)]


def _cut(flat: str, start: int) -> str:
    end = start + SNIPPET
    return ("…" if start else "") + flat[start:end].strip() + ("…" if end < len(flat) else "")
