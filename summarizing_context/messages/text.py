"""Text helpers: sentences, lines, words, clipping, and output that a terminal does not act upon.

Pure, and linear in the text: every pattern is bounded or runs over disjoint classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

LONGEST = 300  # characters of a shown sentence or line
GONE = "…"
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]?|\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)?|[@-Z\\-_])?")
_BULLET = re.compile(r"(?:(?:[-*+•>]|\\{0,9}#{1,6}|\d{1,3}[.)]|\[[ xX]\])\s+){1,3}")
_SENTENCE_END = re.compile(
    r"[.!?][\"'”’)\]`*_]{0,3}\s{1,9}(?=[\"'“‘(\[`*_]{0,3}[A-Z0-9/~À-ÖØ-ÞΑ-ΩА-Я\u3040-\uffff])|[。！？]"
)

_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|Mr|Mrs|Ms|Dr|St|No|Fig|\d{1,3}|[A-Z])\.)\s*\Z")


def cleaned(body: str) -> str:
    """`body` without ANSI escape sequences and runs of empty lines, and with plain line ends."""
    if "\x1b" in body:
        body = _ANSI.sub("", body)
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"\n{3,}", "\n\n", body) if "\n\n\n" in body else body


def shown(text: str) -> str:
    """`text` on one line, without control characters; lone surrogates are replaced, for no store can encode them."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]", "", line)
    return re.sub(r"[\ud800-\udfff]", "\ufffd", line)


def bare(line: str) -> str:
    """Return a line without the marks of lists and headings in front."""
    line = line.strip()
    return line[bullet.end() :] if (bullet := _BULLET.match(line)) else line


def split_prose(body: str) -> tuple[list[str], list[str]]:
    """Return the sentences of `body`, and its fenced parts. A fence that is never closed is no fence."""
    parts = body.split("```")
    if len(parts) % 2 == 0:
        parts[-2:] = ["\n".join(parts[-2:])]
    # a line that comes again and again is said once
    lines = (bare(raw) for part in parts[::2] for raw, _ in groupby(part.split("\n")))
    return [piece for line in lines for sentence in split_line(line) for piece in _pieces(sentence)], parts[1::2]


def split_lines(body: str) -> list[str]:
    """Return the lines of a log, a listing or a file; a long one in pieces. Empty ones are left out."""
    written = (line for line in body.split("\n") if line and not line.isspace())
    return [piece for line in written for piece in (_pieces(line) if len(line) > LONGEST else [line])]


def clip(text: str, limit: int) -> str:
    """Return the first words of `text`, at most `limit` characters with the mark of what is gone; no word is cut."""
    if len(text) <= limit:
        return text
    cut = max(text.rfind(" ", 0, limit - 1), 0)
    words = text[:cut].rstrip(" ,;:-–—([{\"'`").split(" ")
    while words and words[-1][-1:].isdigit() and words[-1].strip("$€£+-~<>=").translate({44: None, 46: None}).isdigit():
        words.pop()  # a number whose unit would be lost
    return f"{' '.join(words)} {GONE}" if words and words[0] else GONE


def split_line(line: str) -> Iterator[str]:
    start = 0
    for stop in map(re.Match.end, _SENTENCE_END.finditer(line)):
        if stop - start >= 3 and not _ABBREVIATION.search(line, max(start, stop - 12), stop):
            yield line[start:stop].rstrip()
            start = stop
    if start < len(line):
        yield line[start:]


def _pieces(line: str) -> Iterator[str]:
    """Yield parts of a long line, cut at white space or between JSON items. A word too long for a part is left out."""
    start, breaks = 0, re.compile(r"[\s;|]|[}\],](?=[\"{\[])")
    while len(line) - start > LONGEST:
        window = line[start : start + LONGEST]
        at = max(map(window.rfind, (", ", "; ", "},", ',"', "|"))) + 1
        at = at if at > LONGEST // 2 else max(at, window.rfind(" ") + 1)
        if at:
            if not window[:at].isspace():
                yield window[:at].strip()
            start += at
        else:
            found = breaks.search(line, start + LONGEST)
            start = found.end() if found else len(line)
    if rest := line[start:].strip():
        yield rest


Words = list[bytes]
_KEPT = b"abcdefghijklmnopqrstuvwxyz0123456789_"
LOWER_TABLE = bytes(  # of UTF-8: small letters, and a space for whatever parts words
    byte if byte >= 128 or byte in _KEPT else byte + 32 if 65 <= byte <= 90 else 32 for byte in range(256)
)


def words_of(text: str) -> Words:
    """Return the words of `text` in lower case, as bytes; an apostrophe parts no word."""
    return text.encode("utf-8", "surrogatepass").translate(LOWER_TABLE, b"'").split()


def inert(text: str) -> str:
    """`text` with its lines, and a dot for all that would move, colour, hide or turn round what is shown."""
    if text.isprintable():
        return text
    blank = ("\t", "\xa0", "\u3000")
    return "".join(char if char.isprintable() or char == "\n" else " " if char in blank else "·" for char in text)
