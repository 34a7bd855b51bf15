"""Excerpts: of a text that is too long to be shown whole, the lines around what was asked for.

Pure. A term weighs the more the fewer of the texts hold it; neighbouring lines are shown together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log, sqrt

from summarizing_context.core.searching import word_set
from summarizing_context.core.truncation import Count, cut_middle

_LONG_LINE = 400  # characters; a longer line is taken apart
_BESIDE = 1  # lines shown before and after one that holds something
_MOST_MISSES = 100  # lines one after another for which no room is left, then the excerpt is full
_PIECE = 50_000  # characters


def term_weights(terms: Sequence[str], texts: Sequence[str]) -> dict[str, float]:
    """How much each word of the terms tells, by how few of the texts hold it."""
    words = dict.fromkeys(word for term in terms for word in (term, *term.split()) if len(word) > 2)
    counts = Counter(word for text in texts for word in _held(text, words))
    return {word: log(1 + len(texts) / counts[word]) for word in words if counts[word]}


def excerpt(text: str, weights: Mapping[str, float], tokens: int, count: Count) -> str:
    """The text, if it has at most so many tokens, or the lines of it that hold most of what weighs."""
    if len(text) <= 16 * tokens and count(text) <= tokens:
        return text
    lines = _lines(text)
    worth = [_worth(line, weights) for line in lines]
    kept: set[int] = set()
    left = tokens - 2
    misses = 0
    for at in sorted(range(len(lines)), key=lambda at: (-worth[at], at)):
        if misses == _MOST_MISSES or (worth[at] <= 0 and kept):
            break
        misses += 1
        near = range(max(0, at - _BESIDE), min(len(lines), at + _BESIDE + 1))
        for wanted in (near, (at,)):
            fresh = [line for line in wanted if line not in kept]
            cost = sum(1 + count(lines[line]) for line in fresh) + 1
            if cost <= left:
                kept.update(fresh)
                left -= cost
                misses = 0
                break
    if not kept:
        return cut_middle(lines[max(range(len(lines)), key=worth.__getitem__)], tokens * 2, tokens, count)
    return "\n".join(lines[at] if at - 1 in kept or not at else f"… {lines[at]}" for at in sorted(kept))


def _held(text: str, words: Iterable[str]) -> set[str]:
    """Those of the words that a text holds."""
    missing, found = set(words), set[str]()
    for piece in _pieces(text):
        if _may_hold(piece, missing):
            found |= missing & word_set(piece)
            missing -= found
        if not missing:
            break
    return found


def _worth(line: str, weights: Mapping[str, float]) -> float:
    if not _may_hold(line, weights):
        return 0.0
    words = word_set(line)
    return sum(weight for word, weight in weights.items() if word in words) / sqrt(4 + len(words))


def _may_hold(text: str, words: Iterable[str]) -> bool:
    """False only where a text holds none of the words; told by plain searches, which take a tenth of the time."""
    if not text.isascii():
        return True
    lowered = text.lower()
    return any(word in lowered for word in words)


def _lines(text: str) -> list[str]:
    """The lines of a text; what is longer than a line should be is taken apart between words."""
    found: list[str] = []
    for line in (line for piece in _pieces(text) for line in piece.splitlines()):
        found.extend([line] if len(line) <= _LONG_LINE else parts_of_line(line))
    return [line for line in found if line.strip()] or [""]


def _pieces(text: str) -> Iterator[str]:
    """A text in runs of whole lines: one call over megabytes would hold every other thread up."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:stop]
        start = stop


def parts_of_line(line: str) -> Iterator[str]:
    """The parts of a long line, each read once."""
    start = 0
    while len(line) - start > _LONG_LINE:
        at = line.rfind(" ", start + _LONG_LINE // 2, start + _LONG_LINE)
        at = at if at > 0 else start + _LONG_LINE
        yield line[start:at]
        start = at
        while start < len(line) and line[start].isspace():
            start += 1
    yield line[start:]
