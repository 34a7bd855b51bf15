"""The verification gate: a model's summary holds no exact value that its source does not hold.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from summarizing_context.summarizers.verification.literals import Found, find_literals, plain, unescaped
from summarizing_context.summarizers.verification.sources import SourceValues

GATE_VERSION = "4"  # another one when summaries that it let through must not stand

_HEADING = re.compile(r"\s*#{1,6} |\s*(?:\*\*|__)[^*_]{1,80}(?:\*\*|__):?\s*\Z")

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)[^`]*\Z")

_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^\s])")

_WORDS = re.compile(r"\w+")

_FEWEST_WORDS = 4


class Trimmed(NamedTuple):
    """A summary without the lines and sentences that hold unsupported literals."""

    text: str  # empty where nothing worth keeping is left
    dropped: int


def unsupported_literals(text: str, grounds: SourceValues) -> list[str]:
    """The literals that the source does not bear out, each once, in order."""
    found = (bad for line, fenced in _lines(text) for bad in _unsupported(line, grounds, fenced=fenced))
    return list(dict.fromkeys(found))


def trim(text: str, grounds: SourceValues) -> Trimmed:
    """The summary without what is not borne out."""
    lines: list[str] = []
    dropped = 0
    for line, fenced in _lines(text):
        kept, gone = _trim_line(line, grounds, fenced=fenced)
        dropped += gone
        if kept is not None:
            lines.append(kept)
    kept_text = "\n".join(_without_empty_sections(lines)).strip()
    words = sum(len(_WORDS.findall(line)) for line in kept_text.split("\n") if not _HEADING.match(line))
    return Trimmed(kept_text if words >= _FEWEST_WORDS or not dropped else "", dropped)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a summary, each with whether it stands inside of a fence. One that is never closed is none."""
    lines = text.split("\n")
    fences = [at for at, line in enumerate(lines) if _FENCE.match(line)]
    inside = {at for first, last in zip(fences[::2], fences[1::2], strict=False) for at in range(first + 1, last)}
    return ((line, at in inside) for at, line in enumerate(lines))


def _unsupported(line: str, grounds: SourceValues, *, fenced: bool) -> list[str]:
    """The bad literals of a line. Nobody can say whether escapes in it are meant: one reading will do."""
    bad = _bad(find_literals(line), grounds)
    if bad and "\\" in line and not _bad(find_literals(unescaped(line)), grounds):
        bad = []
    bad += grounds.swapped(line)
    if fenced and " " in (whole := plain(line)):  # what is fenced is copied, or made up
        bad += _bad([Found("quote", whole)], grounds)
    return bad


def _bad(literals: Iterable[Found], grounds: SourceValues) -> list[str]:
    return [literal.text for literal in literals if not grounds.hold(literal)]


def _trim_line(line: str, grounds: SourceValues, *, fenced: bool) -> tuple[str | None, int]:
    """A line without its bad sentences, and how many of them there were; None where nothing is left."""
    if not _unsupported(line, grounds, fenced=fenced):
        return line, 0
    sentences = [line] if fenced else _SENTENCES.split(line)
    kept = [sentence for sentence in sentences if not unsupported_literals(sentence, grounds)]
    rest = " ".join(kept)
    if len(sentences) == 1 or len(_WORDS.findall(rest)) < _FEWEST_WORDS or unsupported_literals(rest, grounds):
        return None, len(sentences)
    return rest, len(sentences) - len(kept)


def _without_empty_sections(lines: list[str]) -> list[str]:
    """Headings under which something stands."""
    kept: list[str] = []
    filled = False
    for line in reversed(lines):
        if _HEADING.match(line) and not filled:
            continue
        filled = not _HEADING.match(line) and (filled or bool(line.strip()))
        kept.append(line)
    return kept[::-1]
