"""Exact values in a text: paths, addresses, ids, hashes, numbers, dates, quoted strings, names of code.

Pure, by patterns that are linear in the text. What they are good for is decided elsewhere: hindsight labels take
the values that were used again, the support scorer asks for the source of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

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
    return any(before.islower() and after.isupper() for before, after in pairwise(word))


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
