"""Exact values in a text: paths, addresses, ids, hashes, numbers, dates, quoted strings, names of code.

Pure, by patterns that are linear in the text. `find_drops` lists the values of a source that a summary does not hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from summarizing_context.messages.text import cleaned

EntityKind = Literal["url", "mail", "path", "hash", "date", "id", "number", "name", "quoted"]

EXTENSIONS = (
    "py|pyi|ts|tsx|js|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|swift|cs|sh|bash|sql|toml|yaml|yml|json|jsonl|md|"
    "txt|csv|tsv|parquet|xml|html|css|lock|cfg|ini|env|conf|service|log|pdf|docx|xlsx|png|svg|jpg|ipynb|tf|proto|gz|"
    "zip|db|sqlite3?|diff|patch|bib|tex"
)

URL = re.compile(r"https?://[^\s\"'<>`)\]},\\]{3,400}")

MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,32}){1,4}")

_PATH = re.compile(r"(?<![\w@.:/~-])(?:~|\.{1,2})?/?(?:[\w@.+-]{1,80}/){1,24}[\w@.+-]{1,120}")

FILE = re.compile(rf"(?<![\w/.-])[\w-]{{1,80}}(?:\.[\w-]{{1,30}}){{0,3}}\.(?:{EXTENSIONS})\b(?![/\w])")

_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b\d{1,2}:\d\d(?::\d\d)?\b")

_WORD = re.compile(r"(?<![\w/.-])#?[A-Za-z0-9][\w-]{2,63}(?![\w/-])")

_NUMBER = re.compile(r"(?<![\w.,:/-])[$€£]?\d[\d,]{0,20}(?:\.\d{1,12})?%?(?![\w/-]|[.,:]\d)")

_QUOTED = re.compile(r"\"([^\"\n]{4,80})\"|`([^`\n]{3,80})`|“([^”\n]{4,80})”")

_HASH = re.compile(r"[0-9a-f]{7,64}\Z")

_TRAILING = ".,;:!?)'"


class Entity(NamedTuple):
    """One exact value, as it stands."""

    kind: EntityKind
    text: str


def find_entities(text: str, without: Collection[EntityKind] = ()) -> list[Entity]:
    """The exact values of `text`, each once, in order of kind, some kinds left out."""
    found: dict[str, Entity] = {}
    for kind, find in _FINDERS:
        if kind not in without:
            for value in find(text):
                if value not in found:
                    found[value] = Entity(kind, value)
    return list(found.values())


def _all(pattern: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    def find(text: str) -> Iterator[str]:
        for match in pattern.finditer(text):
            yield match[0].rstrip(_TRAILING)

    return find


def _paths(text: str) -> Iterator[str]:
    for match in _PATH.finditer(text):
        path = match[0].rstrip(_TRAILING)
        last = path.rpartition("/")[2]
        deep = path.count("/") > 1
        if ("." in last and not last.replace(".", "").isdigit()) or (deep and any(map(str.isalpha, last))):
            yield path


def _dates(text: str) -> Iterator[str]:
    yield from (match[0] for match in _DATE.finditer(text))


def _words(wanted: Callable[[str], bool]) -> Callable[[str], Iterator[str]]:
    def find(text: str) -> Iterator[str]:
        for match in _WORD.finditer(text):
            if wanted(match[0]):
                yield match[0].rstrip("-_")

    return find


def _is_hash(word: str) -> bool:
    return _HASH.match(word) is not None and not word.isdigit() and not word.isalpha()


def _is_id(word: str) -> bool:
    """Letters and digits in one word, such as HAT-215 or b3f9k; or a number with a sign in front."""
    if word.isalpha():  # as most words are
        return False
    if word.startswith("#"):
        return word[1:].isdigit()
    digits = sum(map(str.isdigit, word))
    return digits > 0 and len(word) >= 4 and any(map(str.isalpha, word)) and not _UNIT.match(word)


_UNIT = re.compile(r"\d+(?:st|nd|rd|th|ms|s|m|h|d|k|kb|mb|gb|px|x|am|pm|min|km|kg|cm|mm)\Z", re.IGNORECASE)


def _is_name(word: str) -> bool:
    """A name as code has it: snake_case or camelCase."""
    bare = word.strip("_")
    if "_" in bare:
        return bare.replace("_", "").isalnum() and len(bare) > 4
    return not word.islower() and any(before.islower() and after.isupper() for before, after in pairwise(word))


def _numbers(text: str) -> Iterator[str]:
    for match in _NUMBER.finditer(text):
        number = match[0].rstrip(",")
        if sum(map(str.isdigit, number)) >= 2 or "." in number:
            yield number


def _quotes(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        yield match[1] or match[2] or match[3]


_FINDERS: tuple[tuple[EntityKind, Callable[[str], Iterator[str]]], ...] = (
    ("url", _all(URL)),
    ("mail", _all(MAIL)),
    ("path", _paths),
    ("path", _all(FILE)),
    ("hash", _words(_is_hash)),
    ("date", _dates),
    ("id", _words(_is_id)),
    ("number", _numbers),
    ("name", _words(_is_name)),
    ("quoted", _quotes),
)

ValueKind = Literal["url", "path", "number", "decimal", "dotted", "mail", "hex", "word"]

_RUN = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|[\w~./@#+$%:*-]{3,300}")

_URL = re.compile(r"https?://[^\s\"'<>`)\]},\\]{3,300}")

_PIECES = re.compile(r"[:=*]+")

_FILE = re.compile(r"[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,8}")

_ENDS = ".,:;-*#$%/"

_WITH_UNIT = re.compile(r"[\d.,]+(?:ns|us|ms|s|m|h|d|kb|mb|gb|px|x|am|pm|th|st|nd|rd)", re.IGNORECASE)

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
    return (piece,) if _is_distinctive(piece) else ()


def _is_path(piece: str) -> bool:
    last = piece.rpartition("/")[2]
    return "." in last or (piece.count("/") > 1 and any(map(str.isalpha, last)))


def _is_distinctive(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    if digits == len(word.replace(".", "").replace(",", "")):
        return digits >= _LEAST_DIGITS
    if digits:
        return len(word) >= _LEAST_DIGITS and not _WITH_UNIT.fullmatch(word)
    return ("_" in word.strip("_") and len(word) > 4) or any(a.islower() and b.isupper() for a, b in pairwise(word))


MOST_DROPS = 12

_LONGEST_HINT = 80  # characters; a longer value is no hint

_READ = 2_000  # characters of a message; further down stand the bodies of files

_BETWEEN = (" ", "\n", '"', "\\")  # no value goes on behind these

_BLOCK = re.compile(r"^### ", re.MULTILINE)

_NO_VALUE = re.compile(  # the names of arguments, and the escapes in them, those of colours too
    r"\"\w{1,60}\":|\\u001b\[[0-9;?]{0,16}[A-Za-z]|\\u[0-9a-f]{4}|\\[nrt\"\\]"
)

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT")

_NO_HINTS: tuple[EntityKind, ...] = ("quoted", "date", "number")  # a number says nothing without the word beside it


def find_drops(source: str, summary: str) -> tuple[str, ...]:
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
            if len(value) <= _LONGEST_HINT and not _STAMP.match(value):
                uses[value] += weight
                newest[value] = at
    shown = summary.casefold()
    dropped = [value for value in uses if not _stands_in(value.casefold(), shown)]
    return tuple(sorted(dropped, key=lambda value: (-uses[value], -newest[value], value))[:MOST_DROPS])


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
