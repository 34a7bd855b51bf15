"""Text that a terminal shows and does not act upon.

Pure. What leaves the package for people passes here once, where it leaves.
"""

from __future__ import annotations


def inert(text: str) -> str:
    """`text` with its lines, and a dot for all that would move, colour, hide or turn round what is shown."""
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char.isprintable() or char == "\n":
        return char
    return " " if char in ("\t", "\xa0", "\u3000") else "·"
