"""The verification gate: a model's summary holds no exact value that its source does not hold.

Pure. What holds such a value is left out; a reply of which too little is left is worth a second call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.verification.literals import ExactValue, find_literals, plain, unescaped
from summarizing_context.summarizers.verification.sources import SourceValues, source_values

GATE_VERSION = "4"  # another one when summaries that it let through must not stand

_HEADING = re.compile(r"\s*#{1,6} |\s*(?:\*\*|__)[^*_]{1,80}(?:\*\*|__):?\s*\Z")

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)[^`]*\Z")

_ENDS_OF_CLAUSES = re.compile(r"(?<=[.!?;])\s+(?=[^\s])")

_OPEN = re.compile(r"[(\[{]")

_CLOSED = re.compile(r"[)\]}]")

_LEAD = re.compile(r"\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*")

_WORDS = re.compile(r"\w+")

_FEWEST_WORDS = 4

_ENOUGH = 2 / 3  # of the words of a reply: what a second call adds to them is not worth reading the source once more


class Verified(NamedTuple):
    """A summary without the lines and clauses that hold values which its source does not hold."""

    text: str  # empty where nothing worth keeping is left
    dropped_lines: int  # and clauses
    unsupported: tuple[str, ...]  # these values, each once, in order


def verify(reply: str, job: SummaryJob) -> Verified:
    """A model's summary, as far as what it was given bears it out."""
    return verify_against(reply, source_values(job))


def verify_against(reply: str, grounds: SourceValues) -> Verified:
    """The same for a source that is asked more than once."""
    bad = unsupported_literals(reply, grounds)
    if not bad:
        return Verified(reply, 0, ())
    text, dropped = _trimmed(reply, grounds)
    is_sound = not unsupported_literals(text, grounds)  # a line may read otherwise once those around it are gone
    return Verified(text if is_sound else "", dropped, tuple(bad))


def keeps_enough(reply: str, verified: Verified) -> bool:
    """Whether so much of a reply is left that nobody need ask for another."""
    return len(_WORDS.findall(verified.text)) >= _ENOUGH * len(_WORDS.findall(reply)) > 0


def unsupported_literals(text: str, grounds: SourceValues) -> list[str]:
    """The literals that the source does not bear out, each once, in order."""
    found = (bad for line, fenced in _lines(text) for bad in _unsupported(line, grounds, fenced=fenced))
    return list(dict.fromkeys(found))


def _trimmed(text: str, grounds: SourceValues) -> tuple[str, int]:
    """The summary without what is not borne out, and how many lines and clauses were left out."""
    lines: list[str] = []
    dropped = 0
    for line, fenced in _lines(text):
        kept, gone = _trim_line(line, grounds, fenced=fenced)
        dropped += gone
        if kept is not None:
            lines.append(kept)
    kept_text = "\n".join(_without_empty_sections(lines)).strip()
    words = sum(len(_WORDS.findall(line)) for line in kept_text.split("\n") if not _HEADING.match(line))
    return kept_text if words >= _FEWEST_WORDS else "", dropped


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
        bad += _bad([ExactValue("code", whole)], grounds)
    return bad


def _bad(literals: Iterable[ExactValue], grounds: SourceValues) -> list[str]:
    return [literal.text for literal in literals if not grounds.hold(literal)]


def _trim_line(line: str, grounds: SourceValues, *, fenced: bool) -> tuple[str | None, int]:
    """A line without its bad clauses, and how many of them there were; None where nothing is left."""
    if not _unsupported(line, grounds, fenced=fenced):
        return line, 0
    lead = _LEAD.match(line)
    start = lead.end() if lead else 0
    clauses = [line[start:]] if fenced else _clauses(line[start:])
    kept = [clause for clause in clauses if not unsupported_literals(clause, grounds)]
    rest = line[:start] + " ".join(kept).removesuffix(";")
    if len(clauses) == 1 or len(_WORDS.findall(rest)) < _FEWEST_WORDS or unsupported_literals(rest, grounds):
        return None, len(clauses)
    return rest, len(clauses) - len(kept)


def _clauses(line: str) -> list[str]:
    """Sentences, and what semicolons part; what stands in brackets or between marks of code stays in one piece."""
    clauses: list[str] = []
    whole = True
    for piece in _ENDS_OF_CLAUSES.split(line):
        if whole:
            clauses.append(piece)
        else:
            clauses[-1] += f" {piece}"
        whole = _is_whole(clauses[-1])
    return clauses


def _is_whole(text: str) -> bool:
    return text.count("`") % 2 == 0 and len(_OPEN.findall(text)) <= len(_CLOSED.findall(text))


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
