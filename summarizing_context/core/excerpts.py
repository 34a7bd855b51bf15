"""Excerpts: of a text that is too long to be shown whole, the lines around what was asked for.

Pure. A term weighs the more the fewer of the texts hold it; neighbouring lines are shown together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log, sqrt

from summarizing_context.core.searching import words_of
from summarizing_context.core.truncation import Count, cut_middle

_LONG_LINE = 400  # characters; a longer line is taken apart
_BESIDE = 1  # lines shown before and after one that holds something


def term_weights(terms: Sequence[str], texts: Sequence[str]) -> dict[str, float]:
    """How much each word of the terms tells, by how few of the texts hold it."""
    words = dict.fromkeys(word for term in terms for word in (term, *term.split()) if len(word) > 2)
    held = [frozenset(words_of(text)) for text in texts]
    counts = {word: sum(word in have for have in held) for word in words}
    return {word: log(1 + len(texts) / count) for word, count in counts.items() if count}


def excerpt(text: str, weights: Mapping[str, float], tokens: int, count: Count) -> str:
    """The text, if it has at most so many tokens, or the lines of it that hold most of what weighs."""
    if len(text) <= 16 * tokens and count(text) <= tokens:
        return text
    lines = _lines(text)
    worth = [_worth(line, weights) for line in lines]
    kept: set[int] = set()
    left = tokens - 2
    for at in sorted(range(len(lines)), key=lambda at: (-worth[at], at)):
        if worth[at] <= 0 and kept:
            break
        near = range(max(0, at - _BESIDE), min(len(lines), at + _BESIDE + 1))
        for wanted in (near, (at,)):
            fresh = [line for line in wanted if line not in kept]
            cost = sum(1 + count(lines[line]) for line in fresh) + 1
            if cost <= left:
                kept.update(fresh)
                left -= cost
                break
    if not kept:
        return cut_middle(lines[max(range(len(lines)), key=worth.__getitem__)], tokens * 2, tokens, count)
    return "\n".join(lines[at] if at - 1 in kept or not at else f"… {lines[at]}" for at in sorted(kept))


def _worth(line: str, weights: Mapping[str, float]) -> float:
    words = frozenset(words_of(line))
    return sum(weight for word, weight in weights.items() if word in words) / sqrt(4 + len(words))


def _lines(text: str) -> list[str]:
    """The lines of a text; what is longer than a line should be is taken apart between words."""
    found: list[str] = []
    for line in text.splitlines():
        found.extend([line] if len(line) <= _LONG_LINE else parts_of_line(line))
    return [line for line in found if line.strip()] or [""]


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
