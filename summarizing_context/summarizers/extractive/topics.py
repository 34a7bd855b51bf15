"""The lines of a content about a topic, and the key lines of a text that is left out of a model's input. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from summarizing_context.extraction.error_lines import error_lines
from summarizing_context.messages.text import cleaned, lower_words, shown, split_lines, words_of
from summarizing_context.summarizers.extractive.figures import FACTS as FACT_FIGURES
from summarizing_context.summarizers.extractive.lines import (
    STOP_WORDS,
    Vocabulary,
    choose_lines,
    find_in_lines,
    salience,
)

Count = Callable[[str], int]

_MOST_TERMS = 32

_STEM = 5  # characters of a word that its other endings share, at least

_UNSPACED = "\u2e80"  # scripts from here on part no words

_NEIGHBOURS = ((-2, 6), (-1, 3), (1, 3), (2, 6))  # lines away, and what part of a score reaches them


class _Line(NamedTuple):
    block: int  # of the content
    label: str  # who speaks in it
    text: str
    words: bytes  # in lower case, with a space before and behind


def lines_about(content: str, topic: str, *, max_tokens: int, count: Count) -> str:
    """The lines that concern a topic as bullets in their order, at most `max_tokens`; empty where none does."""
    lines = _lines_of(content)
    scores, with_neighbours = _scored(lines, topic)
    if not any(scores):
        return ""
    bullets = [f"- {line.label}: {shown(line.text)}" for line in lines]
    return "\n".join(bullets[at] for at in _chosen(bullets, with_neighbours, max_tokens, count))


def excerpt_about(content: str, topic: str, *, max_tokens: int, count: Count) -> str:
    """An excerpt of a content about a topic, for a model: lines that name it, their neighbours, words of the user."""
    lines = _lines_of(content)
    _, scores = _scored(lines, topic)
    texts = [_body_line(line.text) for line in lines]
    weights = [score or int(line.label == "user") for score, line in zip(scores, lines, strict=True)]
    kept: list[str] = []
    label = ""
    for at in _chosen(texts, weights, max_tokens, count):
        if lines[at].label != label:
            label = lines[at].label
            kept.append(f"### {label}")
        kept.append(texts[at])
    return "\n".join(kept)


def _lines_of(content: str) -> list[_Line]:
    """The lines of a content, each with the label that it stands under; a long one in pieces."""
    lines: list[_Line] = []
    block, label = 0, "record"
    for raw in content.split("\n"):
        if raw.startswith("### "):
            block, label = block + 1, raw[4:]
            continue
        lines += [_Line(block, label, text, _spaced(text)) for text in split_lines(cleaned(raw))]
    return lines


def _spaced(text: str) -> bytes:
    return b" %b " % lower_words(text.lower().encode("utf-8", "surrogatepass"))


def _scored(lines: Sequence[_Line], topic: str) -> tuple[list[int], list[int]]:
    """The score of each line for a topic: by its own words, and with its neighbours' scores added."""
    scores = [0] * len(lines)
    for term in _terms(topic):
        hits = [at for at, line in enumerate(lines) if term in line.words]
        for at in hits:
            scores[at] += 12 * rarity(len(lines), len(hits))
    scores = [score * 3 // 2 if line.label == "user" else score for score, line in zip(scores, lines, strict=True)]
    with_neighbours = list(scores)
    for at, score in enumerate(scores):
        for away, part in _NEIGHBOURS if score else ():
            if 0 <= at + away < len(lines) and _belongs(lines[at], lines[at + away], away):
                with_neighbours[at + away] = max(with_neighbours[at + away], score // part)
    return scores, with_neighbours


def rarity(total: int, count: int) -> int:
    """Four times the binary logarithm of total / count, plus one, in integer arithmetic."""
    power: int = (total // count) ** 4
    return power.bit_length()


def _belongs(line: _Line, other: _Line, away: int) -> bool:
    """Whether a neighbour of a line about the topic counts too: in the same block, or first in the next one."""
    return other.block == line.block or (away == 1 and other.block == line.block + 1)


def _terms(topic: str) -> list[bytes]:
    """The search terms of a topic: the stems of its words, without stop words."""
    words = words_of(topic.lower())
    specific = [word for word in dict.fromkeys(words) if word not in STOP_WORDS] or list(dict.fromkeys(words))
    terms: dict[bytes, None] = {}
    for word in specific:
        terms.update(dict.fromkeys(_needles(word.decode("utf-8", "surrogatepass"))))
    return list(terms)[:_MOST_TERMS]


def _needles(word: str) -> Iterable[bytes]:
    if any(char >= _UNSPACED for char in word):
        return [word[at : at + 2].encode("utf-8", "surrogatepass") for at in range(max(1, len(word) - 1))]
    stem = word[: max(_STEM, len(word) - 3)].encode("utf-8", "surrogatepass")
    return [b" %b" % stem if len(word) >= _STEM else b" %b " % stem]


def _chosen(texts: Sequence[str], scores: Sequence[int], max_tokens: int, count: Count) -> list[int]:
    """Indices of the lines with the best scores, the newer first among equals, as far as they fit; in order."""
    chosen: list[int] = []
    seen: set[str] = set()
    left = max_tokens
    for at in sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: (-scores[at], -at)):
        cost = count(texts[at]) + 1
        if cost <= left and texts[at] not in seen:
            seen.add(texts[at])
            chosen.append(at)
            left -= cost
    return sorted(chosen)


def _body_line(text: str) -> str:
    """A line that cannot be taken for a label, although it may be a piece of a longer one."""
    return f"\\{text}" if text.startswith("### ") else text


_MOST_ERRORS = 6


def key_lines(text: str, *, max_tokens: int, count: Callable[[str], int]) -> list[str]:
    """The lines of `text` that matter most, on one line each, within `max_tokens` together: errors, then values."""
    body = cleaned(text)
    errors = error_lines(body, _MOST_ERRORS)
    found = find_in_lines(body, "result")
    vocabulary = Vocabulary(found)
    scores = [salience(one, vocabulary) for one in found]
    facts = [line for _, line in choose_lines(found, scores, vocabulary, FACT_FIGURES) if line.text not in errors]
    by_rank = sorted(range(len(facts)), key=lambda at: -facts[at].rank)
    joined, left = "", max_tokens
    taken: set[str] = set()
    for line in (*errors, *(facts[at].text for at in by_rank)):
        if line in taken or count(f"- {line}\n") > left:
            continue
        longer = f"{joined}- {line}\n"
        if (tokens := count(longer)) <= max_tokens:  # together they may be more than each by itself
            taken.add(line)
            joined, left = longer, max_tokens - tokens
    return [line for line in dict.fromkeys((*errors, *(fact.text for fact in facts))) if line in taken]
