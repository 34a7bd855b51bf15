"""The literal gate: a model's summary holds no literal that its source does not hold.

Pure. What a literal is, is in `literals`; what bears one out, in `grounds`. That the model is asked once more, and when
lines are dropped instead, is decided in `resilient`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from summarizing_context.summarizers.grounds import Grounds
from summarizing_context.summarizers.literals import find_literals

GATE_VERSION = "2"  # another one whenever the same reply would become another summary

_HEADING = re.compile(r"\s*#{1,6} |\s*(?:\*\*|__)[^*_]{1,80}(?:\*\*|__):?\s*\Z")
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^\s])")
_WORDS = re.compile(r"\w+")
_FEWEST_WORDS = 4


class Trimmed(NamedTuple):
    """A summary without the lines and sentences that hold unsupported literals."""

    text: str  # empty where nothing worth keeping is left
    dropped: int


def unsupported_literals(text: str, grounds: Grounds) -> list[str]:
    """The literals that the source does not bear out, each once, in order."""
    found = (literal for line in text.split("\n") for literal in find_literals(line))
    return list(dict.fromkeys(literal.text for literal in found if not grounds.hold(literal)))


def trim(text: str, grounds: Grounds) -> Trimmed:
    """The summary without what is not borne out."""
    lines: list[str] = []
    dropped = 0
    for line in text.split("\n"):
        kept, gone = _trim_line(line, grounds)
        dropped += gone
        if kept is not None:
            lines.append(kept)
    kept_text = "\n".join(_without_empty_sections(lines)).strip()
    words = sum(len(_WORDS.findall(line)) for line in kept_text.split("\n") if not _HEADING.match(line))
    return Trimmed(kept_text if words >= _FEWEST_WORDS or not dropped else "", dropped)


def _trim_line(line: str, grounds: Grounds) -> tuple[str | None, int]:
    """A line without its bad sentences, and how many of them there were; None where nothing is left."""
    if not unsupported_literals(line, grounds):
        return line, 0
    sentences = _SENTENCES.split(line)
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
