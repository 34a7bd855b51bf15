"""The lines of a content about a topic, to be shown or to be read on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from summarizing_context.messages.text import cleaned, lower_words, shown, split_lines, words_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.extractive.lines import STOP_WORDS
from summarizing_context.summarizers.extractive.sections import Count

_MOST_TERMS = 32
_STEM = 5  # characters of a word that its other endings share, at least
_UNSPACED = "\u2e80"  # scripts from here on part no words
_NEIGHBOURS = ((-2, 6), (-1, 3), (1, 3), (2, 6))  # lines away, and what part of a score reaches them


class _Line(NamedTuple):
    block: int  # of the content
    label: str  # who speaks in it
    text: str
    words: bytes  # in lower case, with a space before and behind


def lines_about(content: str, topic: str, max_tokens: int, *, count: Count = estimate_text) -> str:
    """Return the lines that concern a topic as bullets in their order, at most `max_tokens`; empty where none does."""
    lines, scores = _scored(content, topic)
    bullets = [f"- {line.label}: {shown(line.text)}" for line in lines]
    return "\n".join(bullets[at] for at in _chosen(bullets, scores, max_tokens, count))


def excerpt_about(content: str, topic: str, max_tokens: int, *, count: Count = estimate_text) -> str:
    """Return an excerpt of a content about a topic, for a model: lines that name it, their neighbours, words of the
    user. No line can be taken for a label, although it may be a piece of a longer one."""
    lines, scores = _scored(content, topic)
    texts = [f"\\{line.text}" if line.text.startswith("### ") else line.text for line in lines]
    weights = [score or int(line.label == "user") for score, line in zip(scores, lines, strict=True)]
    kept: list[str] = []
    label = ""
    for at in _chosen(texts, weights, max_tokens, count):
        if lines[at].label != label:
            label = lines[at].label
            kept.append(f"### {label}")
        kept.append(texts[at])
    return "\n".join(kept)


def _scored(content: str, topic: str) -> tuple[list[_Line], list[int]]:
    """Return the lines of a content, a long one in pieces, and the score of each for a topic: for its own words by how
    rare they are, and for those of its neighbours, in the same block or across a block's first line."""
    lines: list[_Line] = []
    block, label = 0, "record"
    for raw in content.split("\n"):
        if raw.startswith("### "):
            block, label = block + 1, raw[4:]
            continue
        for text in split_lines(cleaned(raw)):
            words = b" %b " % lower_words(text.lower().encode("utf-8", "surrogatepass"))
            lines.append(_Line(block, label, text, words))

    # The terms are the stems of the topic's words, without stop words.
    said = list(dict.fromkeys(words_of(topic.lower())))
    terms: dict[str, None] = {}
    for raw_word in [word for word in said if word not in STOP_WORDS] or said:
        word = raw_word.decode("utf-8", "surrogatepass")
        if any(char >= _UNSPACED for char in word):
            terms |= dict.fromkeys(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            terms[f" {word[: max(_STEM, len(word) - 3)]}" if len(word) >= _STEM else f" {word} "] = None
    own = [0] * len(lines)
    for term in list(terms)[:_MOST_TERMS]:
        hits = [at for at, line in enumerate(lines) if term.encode("utf-8", "surrogatepass") in line.words]
        for at in hits:
            own[at] += 12 * ((len(lines) // len(hits)) ** 4).bit_length()  # about four times the binary logarithm
    own = [score * 3 // 2 if line.label == "user" else score for score, line in zip(own, lines, strict=True)]
    scores = list(own)
    for at, score in enumerate(own):
        for away, part in _NEIGHBOURS if score else ():
            if 0 <= (near := at + away) < len(lines):
                later = lines[near].block - lines[at].block
                if later == 0 or (later == 1 and away == 1):
                    scores[near] = max(scores[near], score // part)
    return lines, scores


def _chosen(texts: Sequence[str], scores: Sequence[int], max_tokens: int, count: Count) -> list[int]:
    """Return the indices of the lines with the best scores, the newer first among equals, as far as they fit; in
    order."""
    chosen: dict[str, int] = {}
    left = max_tokens
    for at in sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: (-scores[at], -at)):
        cost = count(texts[at]) + 1
        if cost <= left and texts[at] not in chosen:
            chosen[texts[at]] = at
            left -= cost
    return sorted(chosen.values())
