"""Corrections of humans: a line that tells a value which a human has taken back tells the correction in its place.

Pure. What was said wrong often outlives its correction: it stands among the facts, and that among many requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.messages.text import words_of

_VALUE = re.compile(r"[\w./:+-]*\d[\w./:+-]*")

_TAKEN_BACK = re.compile(
    r"(?:\b(?:not|no longer|instead of|rather than|nicht(?: mehr)?|statt|anstatt)\s+|!=\s*)"
    r"(?:(?:on|at|in|by|the|auf|bei|in|die|der|das)\s+)?[`'\"]?(?P<value>[\w./:+-]*\d[\w./:+-]*)",
    re.IGNORECASE,
)

_SHARED = 2  # words besides small ones by which a line and a correction are about the same thing

_SMALL = 3  # letters that a word has at least to tell what a line is about


class _Correction(NamedTuple):
    text: str
    wrong: str
    values: frozenset[str]
    words: frozenset[bytes]


def corrected(lines: Iterable[str], quotes: Sequence[str]) -> list[str]:
    """The lines, each corrected by the `quotes` of humans, which are in their order."""
    made = list(lines)
    for correction in _corrections(quotes):
        made = [correction.text if _is_taken_back(line, correction) else line for line in made]
    return made


def _corrections(quotes: Sequence[str]) -> Iterable[_Correction]:
    for quote in quotes:
        found = _TAKEN_BACK.search(quote)
        if found is None:
            continue
        text, wrong = quote.strip('"'), _bare(found["value"])
        values = _values(text) - {wrong}
        if values:  # else nothing is told in its place
            yield _Correction(text, wrong, values, _about(text))


def _is_taken_back(line: str, correction: _Correction) -> bool:
    """Whether a line tells the wrong value alone, of the same thing."""
    if correction.wrong not in line:
        return False
    values = _values(line)
    tells_more = correction.values <= values  # as of a change from one to the other
    return correction.wrong in values and not tells_more and len(_about(line) & correction.words) >= _SHARED


def _values(text: str) -> frozenset[str]:
    return frozenset(_bare(value) for value in _VALUE.findall(text))


def _bare(value: str) -> str:
    return value.rstrip(".:-")


def _about(text: str) -> frozenset[bytes]:
    return frozenset(word for word in words_of(text) if len(word) > _SMALL)
