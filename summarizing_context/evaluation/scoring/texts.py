"""Finding words in a text, as a reader would: whole words, any case, any white space.

Pure. Every scorer looks into texts through this module, so that all agree on what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_SPACES = re.compile(r"[^\S\n]+")


def folded(text: str) -> str:
    """`text` in one case and on one line."""
    return " ".join(text.casefold().split())


_literal = lru_cache(maxsize=16_384)(folded)  # the same few are looked for in many texts


class Text:
    """A text ready to be searched; lines stay apart."""

    __slots__ = ("text", "written")

    def __init__(self, parts: Iterable[str]) -> None:
        written = _SPACES.sub(" ", "\n".join(parts))
        self.text = written.casefold()
        self.written = written if len(written) == len(self.text) else self.text  # a few letters grow when folded

    def places(self, literal: str) -> Iterator[int]:
        """Every place where the literal stands as whole words."""
        wanted = _literal(literal)
        if not wanted:
            return
        text, length = self.text, len(wanted)
        head, tail = wanted[0].isalnum(), wanted[-1].isalnum()
        at = text.find(wanted)
        while at >= 0:
            end = at + length
            if not (head and at > 0 and text[at - 1].isalnum()) and not (
                tail and end < len(text) and text[end].isalnum()
            ):
                yield at
            at = text.find(wanted, at + 1)

    def place(self, literal: str) -> int:
        """The first place of the literal; -1 if it is nowhere."""
        return next(self.places(literal), -1)

    def holds(self, literal: str) -> bool:
        return self.place(literal) >= 0

    def line_at(self, place: int) -> str:
        """The line around a place."""
        start = self.text.rfind("\n", 0, place) + 1
        end = self.text.find("\n", place)
        return self.text[start : end if end >= 0 else len(self.text)]

    def lines_with(self, literal: str) -> Iterator[str]:
        """The lines that hold the literal, each once for each of its places."""
        return (self.line_at(place) for place in self.places(literal))

    def line_with_all(self, literals: Sequence[str]) -> str | None:
        """A line that holds every literal, of which the first is the one to look for; None if there is none."""
        if not literals:
            return None
        for line in self.lines_with(literals[0]):
            found = Text([line])
            if all(found.holds(literal) for literal in literals[1:]):
                return line
        return None

    def excerpt(self, place: int, before: int = 60, after: int = 120) -> str:
        """The words around a place."""
        start, stop = max(0, place - before), place + after
        words = " ".join(self.written[start:stop].split())
        return ("…" if start else "") + words + ("…" if stop < len(self.text) else "")
