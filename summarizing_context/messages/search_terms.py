"""Words for searching: what of a message is indexed, and what a query asks for.

Pure. Queries are plain words without operators. Scripts without spaces between words are indexed by pairs of letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice

from summarizing_context.messages.reading import decode_message, read_content

_WORD = re.compile(r"[^\W_]+")
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana, Chinese characters
)


def searchable(message: bytes) -> str:
    """Return the texts of a stored message; nothing for bytes that hold none.

    The index of a store is written by it, and forgets by it: another one needs another version of the schema.
    """
    try:
        text = "\n".join(read_content(decode_message(message)).texts)
    except Exception:  # not JSON, or no message: written by other means
        return ""
    if text.isascii():  # known at once, where writing megabytes and reading them again holds up every other thread
        return text
    return text.encode("utf-8", "replace").decode("utf-8")  # SQLite takes no lone surrogates


def indexed_words(text: str) -> str:
    """Return a text as it is indexed: with spaces around letters of scripts that have none between words."""
    if text.isascii():
        return text
    # In pieces: spaces between the letters of megabytes, made at once, would hold every thread up.
    return "".join(UNSPACED.sub(r" \g<0> ", text[at : at + 10_000]) for at in range(0, len(text), 10_000))


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, in small letters; of unspaced scripts each two letters that stand together."""
    for found in _WORD.finditer(text):  # not all in one go, which would hold every other thread up
        if (word := found[0]).isascii():
            yield word.lower()
        else:
            yield from _parts([piece.lower() for piece in indexed_words(word).split()])


def query_terms(query: str, most: int = 24) -> list[str]:
    """Return what a query asks for: each run without a space, and its words if several; of a pasted page the first."""
    terms: dict[str, None] = {}
    for run in islice(re.finditer(r"\S+", unicodedata.normalize("NFC", query)), 1_000):
        words = [piece.lower() for word in _WORD.findall(run[0]) for piece in indexed_words(word).split()]
        if words:  # a word alone is one of its parts too
            terms |= dict.fromkeys([" ".join(words), *_parts(words)])
        if len(terms) >= most:
            break
    return list(terms)[:most]


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a run; neighbours of an unspaced script by two."""
    unspaced = [len(word) == 1 and UNSPACED.match(word) is not None for word in words]
    for at, word in enumerate(words):
        if not unspaced[at]:
            yield word
        elif at + 1 < len(words) and unspaced[at + 1]:
            yield f"{word} {words[at + 1]}"
        elif not (at and unspaced[at - 1]):
            yield word


def stem(term: str) -> str:
    """Return the beginning of a word: the ends of longer ones may differ."""
    return term[: max(4, len(term) - 3)]


_COMMON_WORDS = """
a about after again all also an and any are as at be been before but by can could did do does for from
go had has have how i if in into is it its let me my no not now of on or our out please should so some
than that the their them then there these they this to too up us was we were what when where which who
why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def stems(text: str) -> frozenset[str]:
    """Return beginnings of a text's words by which their families are known, without common words."""
    return frozenset(stem(word) for word in words_of(text) if word not in _COMMON)
