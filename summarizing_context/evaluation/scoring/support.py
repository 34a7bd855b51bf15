"""Support: does every exact value of a summary stand in its source, and every number beside the word it belongs to?

Pure. An unsupported value is one that the source does not hold; a drifted number is one that the source holds, but
never beside the words that stand around it in the summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from summarizing_context.evaluation.cases.entities import find_entities
from summarizing_context.evaluation.scoring.texts import Text, folded

_OWN_WORDS = re.compile(
    r"\(\d+ times\)|\(superseded\)|\(latest\)|\[… \d+ tokens left out …\]|\[\d+ earlier messages left out\]|"
    r"\(text without words: \d+ characters\)|\(blank text: \d+ characters\)"
)
_TOKEN = re.compile(r"[^\W\d_]+|\d+(?:[.,:]\d+)*")
_SENTENCES = re.compile(r"(?<=[.!?])\s+")
_QUOTE = re.compile(r"\"([^\"\n]{4,400})\"")
_CUT_OFF = "…"
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
        self._pairs: set[tuple[str, str]] = set()
        self._raw = raw

    def holds(self, value: str) -> bool:
        return self._text.holds(value)

    def pairs(self) -> set[tuple[str, str]]:
        """Every number of the source with each of its neighbours."""
        if not self._pairs:
            for text in self._raw:
                for line in text.split("\n"):
                    if any(map(str.isdigit, line)):
                        self._pairs.update(_pairs_of(folded(line[:_BLOCK])))
        return self._pairs


def check_support(summaries: Sequence[str], source: Source) -> Support:
    """The values of the summaries that their source does not bear out."""
    own = [_OWN_WORDS.sub(" ", text) for text in summaries]
    values = list(dict.fromkeys(value for text in own for value in _values(text)))
    unsupported = tuple(value for value in values if not source.holds(value))
    lines = [folded(line) for text in own for line in text.split("\n")]
    numbers = [(line, place) for line in lines for place in _numbers_of(line)]
    known = source.pairs()
    drifted = tuple(
        token
        for line, (token, before, after) in numbers
        if token not in unsupported and not _is_borne_out(token, before, after, known)
    )
    return Support(len(values), unsupported, len(numbers), drifted)


def _values(text: str) -> Iterator[str]:
    for entity in find_entities(_QUOTE.sub(" ", text)):
        if entity.kind != "quoted" and _CUT_OFF not in entity.text:
            yield entity.text
    for quote in _QUOTE.findall(text):
        for sentence in _SENTENCES.split(quote):
            bare = sentence.partition(_CUT_OFF)[0].strip(" .,;:")
            if len(bare) > 3:
                yield bare


def _numbers_of(line: str) -> Iterator[tuple[str, str, str]]:
    """Each number of a line, with the words before and after it."""
    tokens = _TOKEN.findall(line)
    for at, token in enumerate(tokens):
        if token[0].isdigit():
            before = tokens[at - 1] if at else ""
            after = tokens[at + 1] if at + 1 < len(tokens) else ""
            if before or after:
                yield token, before, after


def _pairs_of(line: str) -> Iterator[tuple[str, str]]:
    tokens = _TOKEN.findall(line)
    for first, second in pairwise(tokens):
        if first[0].isdigit() or second[0].isdigit():
            yield first, second


def _is_borne_out(token: str, before: str, after: str, known: set[tuple[str, str]]) -> bool:
    return bool((before and (before, token) in known) or (after and (token, after) in known))
