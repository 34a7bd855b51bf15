"""How one prompt differs from another, line by line, and within a changed line word by word. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from summarizing_context.prompt_library import Prompt

Sign = Literal[" ", "-", "+", "…"]
_AROUND = 2  # unchanged lines that are shown before and after a change


class Piece(NamedTuple):
    """Words of a changed line."""

    text: str
    changed: bool


class Change(NamedTuple):
    """One line of a comparison."""

    sign: Sign
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def compare_prompts(first: Prompt, second: Prompt) -> list[Change]:
    """The second prompt against the first; nothing where they say the same."""
    return list(_changes(_lines(first), _lines(second)))


def _lines(prompt: Prompt) -> list[str]:
    focuses = [f"focus_{rank}: {text}" for rank, text in enumerate(prompt.focuses, start=1)]
    return [f"purpose: {prompt.purpose}", *focuses, *prompt.text.splitlines()]


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND))
    for at, group in enumerate(groups):
        if at or group[0][1] > 0:
            yield Change("…", ())
        for kind, start, stop, other_start, other_stop in group:
            before, after = old[start:stop], new[other_start:other_stop]
            if kind == "equal":
                yield from (Change(" ", (Piece(line, False),)) for line in before)
            else:
                yield from _replaced(before, after)


def _replaced(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    paired = len(before) == len(after)
    for at, line in enumerate(before):
        yield Change("-", _pieces(line, after[at]) if paired else (Piece(line, True),))
    for at, line in enumerate(after):
        yield Change("+", _pieces(line, before[at]) if paired else (Piece(line, True),))


def _pieces(line: str, other: str) -> tuple[Piece, ...]:
    """The words of a line, those apart that the other line does not have there."""
    mine, theirs = line.split(" "), other.split(" ")
    pieces: list[Piece] = []
    for kind, start, stop, _, _ in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if start < stop:
            space = " " if stop < len(mine) else ""
            pieces.append(Piece(" ".join(mine[start:stop]) + space, kind != "equal"))
    return tuple(pieces)
