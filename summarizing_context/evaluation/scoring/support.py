"""Support of a summary by its source: exact values, and numbers beside the words that they belong to.

Pure. An unsupported value does not stand in the source. A drifted number stands there, but never beside the words that
the summary puts it beside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from summarizing_context.evaluation.cases.verdicts import Text, folded
from summarizing_context.extraction.values import find_entities

_OWN_WORDS = re.compile(
    r"\(\d+ times\)|\(superseded\)|\(latest\)|\[… \d+ tokens left out …\]|\[\d+ earlier messages left out\]|"
    r"\(text without words: \d+ characters\)|\(blank text: \d+ characters\)"
)
_TOKEN = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+|,\d+)*")
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_PARTS = re.compile(r"(?<=[.!?])\s+|\s*→\s*|[()=]")  # what belongs together
_QUOTE = re.compile(r"\"([^\"\n]{4,400})\"")
_CUT_OFF = "…"
_FEW = 2  # numbers beside a word that belong to it alone
_BLOCK = 200_000  # characters that are taken apart at a time


class Support(NamedTuple):
    """What was found in the summaries of one view."""

    values: int
    unsupported: tuple[str, ...]
    numbers: int
    drifted: tuple[str, ...]


class Source:
    """What stood before a cut, ready to be asked."""

    def __init__(self, texts: Iterable[str]) -> None:
        raw = list(texts)
        self._text = Text([" ".join(text.split()) for text in raw])
        self._pairs: Pairs | None = None
        self._raw = raw

    def holds(self, value: str) -> bool:
        return self._text.holds(value)

    @property
    def pairs(self) -> Pairs:
        """Every number of the source with each of its neighbours."""
        if self._pairs is None:
            self._pairs = Pairs(self._raw)
        return self._pairs


class Pairs:
    """Which numbers stand beside which words in a source, and in which sentences."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._sentences: dict[tuple[str, ...], set[tuple[str, ...]]] = {}  # without numbers: the numbers
        for line in dict.fromkeys(line for text in texts for line in text.split("\n")):
            if any(map(str.isdigit, line)):
                for tokens in _sentences_of(line[:_BLOCK]):
                    self._pairs.update(_pairs_of(tokens))
                    words, numbers = _parted(tokens)
                    self._sentences.setdefault(words, set()).add(numbers)
        self._numbers_beside = Counter(word for pair in self._pairs for word in pair if not _is_number(word))

    def misplaced(self, tokens: Sequence[str]) -> list[str]:
        """The numbers of a sentence that do not belong where they stand. A sentence that the source has, numbers
        apart, must have the numbers of one of its places; in others each number is held against its neighbours."""
        words, numbers = _parted(tokens)
        if known := self._sentences.get(words):
            nearest = min(
                sorted(known), key=lambda those: sum(one != other for one, other in zip(numbers, those, strict=True))
            )
            return [number for number, right in zip(numbers, nearest, strict=True) if number != right]
        return [token for token, before, after in _numbers_of(tokens) if not self._supports(token, before, after)]

    def _supports(self, number: str, before: str, after: str) -> bool:
        """Whether the number belongs to its neighbours. A word that stands beside few numbers tells enough by itself;
        words that stand beside many, such as units, must all agree; words that stand beside none tell nothing."""
        found = [
            (self._numbers_beside[word], pair in self._pairs)
            for word, pair in ((before, (before, number)), (after, (number, after)))
            if self._numbers_beside[word]
        ]
        specific = [is_supported for numbers, is_supported in found if numbers <= _FEW]
        return any(specific) if specific else all(is_supported for _, is_supported in found)


def check_support(summaries: Sequence[str], source: Source) -> Support:
    """The values of the summaries that their source does not bear out."""
    own = [_OWN_WORDS.sub(" ", text) for text in summaries]
    values = list(dict.fromkeys(value for text in own for value in _values(text)))
    unsupported = tuple(value for value in values if not source.holds(value))
    sentences = [tokens for text in own for line in text.split("\n") for tokens in _sentences_of(line)]
    numbers = [number for tokens in sentences for number in _parted(tokens)[1]]
    drifted = [number for tokens in sentences if _parted(tokens)[1] for number in source.pairs.misplaced(tokens)]
    return Support(len(values), unsupported, len(numbers), tuple(n for n in drifted if n not in unsupported))


def _values(text: str) -> Iterator[str]:
    for entity in find_entities(_QUOTE.sub(" ", text)):
        if entity.kind != "quoted" and _CUT_OFF not in entity.text:
            yield entity.text
    for quote in _QUOTE.findall(text):
        for sentence in _SENTENCES.split(quote):
            bare = sentence.partition(_CUT_OFF)[0].strip(" .,;:")
            if len(bare) > 3:
                yield bare


def _sentences_of(line: str) -> Iterator[list[str]]:
    """The words and numbers of each sentence of a line."""
    for sentence in _PARTS.split(line):
        yield _TOKEN.findall(folded(sentence))


def _parted(tokens: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A sentence with its numbers blotted out, and the numbers."""
    return (
        tuple("#" if _is_number(token) else token for token in tokens),
        tuple(token for token in tokens if _is_number(token)),
    )


def _numbers_of(tokens: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each number of a sentence, with the words before and after it."""
    for at, token in enumerate(tokens):
        if _is_number(token):
            yield token, tokens[at - 1] if at else "", tokens[at + 1] if at + 1 < len(tokens) else ""


def _pairs_of(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    for first, second in pairwise(tokens):
        if _is_number(first) or _is_number(second):
            yield first, second


def _is_number(token: str) -> bool:
    """Whether a token is a number, a date or a time, and no id."""
    return token[0].isdigit() and not any(map(str.isalpha, token))
