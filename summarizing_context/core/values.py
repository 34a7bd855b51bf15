"""Exact values in a text: paths, addresses, ids, hashes, numbers of some length, names of code.

Pure, and one pass over the text: what a later step may need to the letter. What is worth recalling is ranked in
`ranking`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from summarizing_context.core.entities import EXTENSIONS, FILE

ValueKind = Literal["url", "path", "number", "decimal", "dotted", "mail", "hex", "word"]

_RUN = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|[\w~./@#+$%:*-]{3,300}")
_URL = re.compile(r"https?://[^\s\"'<>`)\]},\\]{3,300}")
_PIECES = re.compile(r"[:=*]+")
_FILE = re.compile(r"[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,8}")
_ENDS = ".,:;-*#$%/"
_UNIT = re.compile(r"[\d.,]+(?:ns|us|ms|s|m|h|d|kb|mb|gb|px|x|am|pm|th|st|nd|rd)", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"^ *\d+(?=[\t→:|])", re.MULTILINE)  # of a listing
_CONTEXT = re.compile(rf"(?<=[\w)\]]\.)({EXTENSIONS})-\d+$")  # of a line that grep shows around a match: `app.py-12-`
_HEX = re.compile(r"[0-9a-f]{5,}")
_ESCAPED = re.compile(r"\\[nrt]")  # line ends in JSON or code
_LONGEST = 100_000  # characters of a text that are looked through
_LEAST_DIGITS = 4
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+")


def exact_values(text: str) -> list[str]:
    """The exact values of a text, each once, in order."""
    text = _ESCAPED.sub(" ", _LINE_NUMBER.sub("", text[:_LONGEST]))
    found: dict[str, None] = dict.fromkeys(match.rstrip(_ENDS) for match in _URL.findall(text)) if "://" in text else {}
    for run in dict.fromkeys(_RUN.findall(text)):
        for value in _values(run):
            found[value] = None
    return list(found)


def word_parts(text: str) -> frozenset[str]:
    """The words that names and paths are made of, in lower case: `readFile` and `read_file` both hold `read`."""
    return frozenset(word.lower() for word in _PARTS.findall(text) if len(word) > 2)


@lru_cache(maxsize=50_000)
def parts_of_value(value: str) -> tuple[str, ...]:
    """`word_parts` of a value that is met again and again; as a tuple, which no garbage collection looks through."""
    return tuple(word_parts(value))


@lru_cache(maxsize=50_000)
def kind_of(value: str) -> ValueKind:
    """What a value looks like; a `word` is a name, a file's name, an id."""
    if "/" in value:
        return "url" if "://" in value else "path"
    digits = value.strip("#$%").replace(",", "")
    if digits.replace(".", "").isdigit():
        return "decimal" if "." in digits else "number"
    if "@" in value:
        return "mail"
    if "." in value:
        return "word" if FILE.fullmatch(value) else "dotted"
    return "hex" if _HEX.fullmatch(value) and any(map(str.isdigit, value)) else "word"


def folder_of(value: str) -> str:
    """The folder of a path, with its last slash; nothing for other values."""
    if "/" not in value or "://" in value or any(char in value for char in "{},"):
        return ""
    return value[: value.rindex("/") + 1]


@lru_cache(maxsize=50_000)
def _values(run: str) -> tuple[str, ...]:
    if "://" in run:
        return ()
    pieces = [piece.lstrip(",:;-+$%@").rstrip(_ENDS) for piece in _PIECES.split(run)]
    return tuple(value for piece in pieces for value in _of_piece(piece))


def _of_piece(piece: str) -> tuple[str, ...]:
    piece = _CONTEXT.sub(r"\1", piece)
    if len(piece) < 3:
        return ()
    if "/" in piece:
        piece = piece[2:] if piece.startswith(("a/", "b/")) and piece.count("/") > 1 else piece  # as diffs have it
        return (piece,) if _is_path(piece) else tuple(v for part in piece.split("/") for v in _of_piece(part))
    if "@" in piece and "." in piece.partition("@")[2]:
        return (piece,)
    if "." in piece and not piece.replace(".", "").replace(",", "").isdigit():
        if _FILE.fullmatch(piece) and len(piece) > 4 and piece.rpartition(".")[2].islower():
            return (piece,)
        return tuple(value for part in piece.split(".") for value in _of_piece(part))
    return (piece,) if _is_telling(piece) else ()


def _is_path(piece: str) -> bool:
    last = piece.rpartition("/")[2]
    return "." in last or (piece.count("/") > 1 and any(map(str.isalpha, last)))


def _is_telling(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    if digits == len(word.replace(".", "").replace(",", "")):
        return digits >= _LEAST_DIGITS
    if digits:
        return len(word) >= _LEAST_DIGITS and not _UNIT.fullmatch(word)
    return ("_" in word.strip("_") and len(word) > 4) or any(a.islower() and b.isupper() for a, b in pairwise(word))
