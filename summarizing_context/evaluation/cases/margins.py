"""Margins of listings: the numbers that a tool writes before each line that it shows.

Pure. They count lines and say nothing: in a listing of 1,300 lines every number up to 1,300 stands somewhere, so that
one of them is met again by chance, as in the offset of a later look at another file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBERED = re.compile(r"^[ ]*(\d{1,9})(?=[\t→:|])", re.MULTILINE)
_LEAST = 3  # lines that count up by one make a listing; the hits of a search seldom do


def without_margins(text: str) -> str:
    """A text without the numbers that count its lines; numbers that a search gives for its hits stay."""
    kept, last = [], 0
    for run in _runs(text):
        if len(run) >= _LEAST:
            for found in run:
                kept.append(text[last : found.start()])
                last = found.end()
    return "".join([*kept, text[last:]])


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Lines one below the other of which the numbers count up by one."""
    run: list[re.Match[str]] = []
    for found in _NUMBERED.finditer(text):
        if run and not (int(found[1]) == int(run[-1][1]) + 1 and text.count("\n", run[-1].start(), found.start()) == 1):
            yield run
            run = []
        run.append(found)
    yield run
