"""Words for searching: what of a message is indexed, what a query asks for, what a hit shows.

Pure. Queries are plain words without operators. Scripts without spaces between words are indexed by pairs of letters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from summarizing_context.messages.reading import read_content, read_message
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.shapes import decode_message

MOST_TERMS = 24  # of a query; a pasted page is searched by its first words
SNIPPET = 200  # characters
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # kana, Chinese characters
)


def searchable(message: bytes, redact: Redact | None = None) -> str:
    """Return the texts of a stored message, of what `redact` leaves of it; nothing for bytes that hold none.

    The index of a store is written by it, and forgets by it: another one needs another version of the schema.
    """
    try:
        decoded = decode_message(message)
        reading = read_content(decoded) if redact is None else read_message(decoded)
    except Exception:  # not JSON, or no message: written by other means
        return ""
    if redact is not None:
        reading = redact_reading(decoded, reading, redact)
    text = "\n".join(reading.texts)
    if text.isascii():  # known at once, where writing megabytes and reading them again holds up every other thread
        return text
    return text.encode("utf-8", "replace").decode("utf-8")  # SQLite takes no lone surrogates


def indexed_words(text: str) -> str:
    """Return a text as it is indexed: with spaces around letters of scripts that have none between words."""
    if text.isascii():
        return text
    # In pieces: spaces between the letters of megabytes, made at once, would hold every thread up.
    return "".join(_UNSPACED.sub(r" \g<0> ", text[at : at + 10_000]) for at in range(0, len(text), 10_000))


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, in small letters; of unspaced scripts each two letters that stand together."""
    for found in _WORD.finditer(text):  # not all in one go, which would hold every other thread up
        if (word := found[0]).isascii():
            yield word.lower()
        else:
            yield from _parts([piece.lower() for piece in indexed_words(word).split()])


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text that is short, or a piece of a longer one."""
    return frozenset(_WORD.findall(text.lower()) if text.isascii() else words_of(text))


def query_terms(query: str, most: int = MOST_TERMS) -> list[str]:
    """Return what a query asks for: each run of characters without a space, and its words where it has several."""
    terms: dict[str, None] = {}
    for run in islice(re.finditer(r"\S+", unicodedata.normalize("NFC", query)), 1_000):
        words = [piece.lower() for word in _WORD.findall(run[0]) for piece in indexed_words(word).split()]
        if words:
            terms[" ".join(words)] = None
        if len(words) > 1:
            terms.update(dict.fromkeys(_parts(words)))
        if len(terms) >= most:
            break
    return list(terms)[:most]


def coverage(terms: Sequence[str], text: str) -> float:
    """Return which part of the terms a text holds, from 0 to 1; the ends of words may differ."""
    if not terms:
        return 0.0
    lowered = text.lower()
    return sum(_holds(lowered, term) for term in terms) / len(terms)


def snippet(terms: Sequence[str], text: str) -> str:
    """Return where a text holds most of the terms, on one line."""
    widest = 4 * SNIPPET  # of a text, what is shown of it without its spaces
    if len(text) <= widest and len(whole := " ".join(text.split())) <= SNIPPET:
        return whole
    lowered = text.lower()
    start = 0
    if len(lowered) == len(text):  # else places in one are none in the other
        found = sorted(place for term in terms for place in _places(term, lowered))
        within = {at: bisect_left(found, at + SNIPPET * 3 // 4) - bisect_left(found, at) for at in found}
        best = max(found, key=within.__getitem__, default=0)  # the first of several
        start = max(0, best - SNIPPET // 4)
        start = max(start, text.find(" ", start, best) + 1) if start else 0  # at the beginning of a word
    flat = " ".join(text[start : start + widest].split())
    has_more = len(flat) > SNIPPET or start + widest < len(text)
    return ("…" if start else "") + flat[:SNIPPET].strip() + ("…" if has_more else "")


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a run; neighbours of an unspaced script by two."""
    unspaced = [len(word) == 1 and _UNSPACED.match(word) is not None for word in words]
    for at, word in enumerate(words):
        if not unspaced[at]:
            yield word
        elif at + 1 < len(words) and unspaced[at + 1]:
            yield f"{word} {words[at + 1]}"
        elif not (at and unspaced[at - 1]):
            yield word


def _holds(lowered: str, term: str) -> bool:
    """Return whether a text holds a term: its words one after another, with anything but words between them, or nothing
    between unspaced letters."""
    *words, last = term.split(" ")
    if not words:
        return _stem(last) in lowered
    gaps = [r"[\W_]*" if _UNSPACED.match(word) else r"[\W_]+" for word in words]
    phrase = "".join(re.escape(word) + gap for word, gap in zip(words, gaps, strict=True)) + re.escape(_stem(last))
    return re.search(phrase, lowered) is not None


def _places(term: str, lowered: str) -> list[int]:
    """Return where words begin as the term does, or its first word; the first places."""
    if _UNSPACED.match(term):
        begins = re.escape(term.replace(" ", ""))
    else:
        begins = r"(?<![^\W_])" + re.escape(_stem(term.split(" ", 1)[0]))
    return [found.start() for found in islice(re.finditer(begins, lowered), 50)]


def _stem(term: str) -> str:
    """Return the beginning of a word: the ends of longer ones may differ."""
    return term[: max(4, len(term) - 3)]


_COMMON_WORDS = """
a about after again all also an and any are as at be been before but by can could did do does for from
go had has have how i if in into is it its let me my no not now of on or our out please should so some
than that the their them then there these they this to too up us was we were what when where which who
why will with would you your
"""

_COMMON = frozenset(_COMMON_WORDS.split())


def distinctive_words(text: str, most: int) -> list[str]:
    """Return the first of a text's words that are not common ones, each once."""
    return list(dict.fromkeys(word for word in words_of(text) if word not in _COMMON))[:most]


def stems(text: str) -> frozenset[str]:
    """Return beginnings of a text's words by which their families are known, without common words."""
    return frozenset(_stem(word) for word in words_of(text) if word not in _COMMON)


def likeness(query: frozenset[str], held: frozenset[str]) -> float:
    """Return how many of their words two texts share, by their stems: of the shorter one's, on the scale of cosines
    between embeddings. From 0 to 1; one word of four is 0.71, two are 0.84."""
    fewest = min(len(query), len(held))
    return (len(query & held) / max(fewest, 4)) ** 0.25 if fewest else 0.0  # of two words, one alike says little
