"""The drops of a summary: exact values of its source that it does not hold.

Pure, and made without a model: a hint where drilling down pays.
"""

from __future__ import annotations

import re
from collections import Counter

from summarizing_context.core.entities import EntityKind, find_entities
from summarizing_context.core.sentences import cleaned

MOST_DROPS = 12
_LONGEST = 80  # characters; a longer value is no hint
_READ = 2_000  # characters of a message; further down stand the bodies of files
_BETWEEN = (" ", "\n", '"', "\\")  # no value goes on behind these
_BLOCK = re.compile(r"^### ", re.MULTILINE)
_NO_VALUE = re.compile(  # the names of arguments, and the escapes in them, those of colours too
    r"\"\w{1,60}\":|\\u001b\[[0-9;?]{0,16}[A-Za-z]|\\u[0-9a-f]{4}|\\[nrt\"\\]"
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT")
_NO_HINTS: tuple[EntityKind, ...] = ("quoted", "date", "number")  # a number says nothing without the word beside it


def find_drops(source: str, summary: str, most: int = MOST_DROPS) -> tuple[str, ...]:
    """Values of a rendered source that its summary lacks: the most used first, of these the newest.

    What is said counts three times, what a tool is called with twice. What only results hold is left out: few of their
    many values are ever needed.
    """
    uses: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for at, block in enumerate(_BLOCK.split(source)):
        label, _, body = block.partition("\n")
        if "result of " in label:
            continue
        weight = 2 if " calls " in label else 3
        for _, value in find_entities(_NO_VALUE.sub(" ", cleaned(_beginning(body))), _NO_HINTS):
            if len(value) <= _LONGEST and not _STAMP.match(value):
                uses[value] += weight
                newest[value] = at
    shown = summary.casefold()
    dropped = [value for value in uses if not _stands_in(value.casefold(), shown)]
    return tuple(sorted(dropped, key=lambda value: (-uses[value], -newest[value], value))[:most])


def _stands_in(value: str, text: str) -> bool:
    """Whether a value stands there whole: `HAT-21` does not where `HAT-215` does."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        if not (at and text[at - 1].isalnum() and value[0].isalnum()) and not text[end : end + 1].isalnum():
            return True
        at = text.find(value, at + 1)
    return False


def _beginning(body: str) -> str:
    """What is read of a block: no value at its end is cut in two."""
    if len(body) <= _READ:
        return body
    return body[: max(0, *(body.rfind(mark, 0, _READ) for mark in _BETWEEN))]
