"""Fences: set text about the past apart, so that it can neither pose as a message nor end its own fence.

Pure, and linear in the text. Tags are compared after NFKD, without marks, invisible and control characters, in lower
case; letters of other scripts count as the ASCII ones that they look like.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate
from typing import NamedTuple

_TABLES = tomllib.loads((files(__package__) / "look_alikes.toml").read_text("utf-8"))
_ALIKE = {char: look for table in _TABLES.values() for look, chars in table.items() for char in chars}
_FILLERS = "\u115f\u1160\u2800\U0001d159"  # letters and signs without ink
_INVISIBLE = frozenset(("Mn", "Mc", "Me", "Cf", "Cc", "Cs", "Co", "Cn"))

_OPENING = f"{_TABLES['signs']['<']}＜﹤\u2329"
_LINE_OPENER = re.compile(rf"^[^!-~\n{_OPENING}]*+[<≮＜﹤]", re.MULTILINE)  # no quotation marks, as in «a_name»
_COMPOUND = re.compile(r"[^\W\d_][^\W_]*[-_][^\W_]")
_CLOSER = re.compile(f"[{_TABLES['signs']['>']}＞﹥\u232a]")
_GAPS = re.compile(r"[-_ ]+")


class Tag(NamedTuple):
    """Where a tag stands, and what it says first, folded; words behind its name may be attributes of it."""

    start: int  # of its opening bracket
    stop: int  # behind its closing bracket; behind its name, where there is none
    words: str
    closes: bool


class _Looks(dict[int, str]):
    """What the character of each code point looks like; filled as they are met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        look = ""
        for part in unicodedata.normalize("NFKD", char):
            if unicodedata.category(part) not in _INVISIBLE and part not in _FILLERS:
                look += "".join(map(_look, part.casefold()))  # now only: U+0345 would become a letter
        self[code] = " " if char.isspace() else look
        return self[code]


def _look(char: str) -> str:
    kind = unicodedata.category(char)
    if kind in _INVISIBLE:
        return ""
    return "-" if kind == "Pd" else "_" if kind == "Pc" else _ALIKE.get(char, char)


_looks = _Looks()


def folded(text: str) -> str:
    """`text` as it is compared: what a reader takes for the same is the same."""
    return text.translate(_looks)


def is_blank(text: str) -> bool:
    """Return whether a reader sees nothing in `text`."""
    return not any(_looks[ord(char)].strip() for char in text)


def find_tags(text: str, names: frozenset[str], *, in_lines: bool = False) -> Iterator[Tag]:
    """Yield the tags in `text` that are called by one of `names`, which are spelled without gaps; `in_lines`, of
    those with which a line begins, also the ones that are called by several words."""
    if "<" not in text and (text.isascii() or not any(opening in text for opening in _OPENING)):
        return  # seen at once, where looking for names takes long
    for opener in (_LINE_OPENER if in_lines else _opener(names)).finditer(text):
        tag = _read_tag(text, opener.end())
        is_named = any(name in names for name in accumulate(_GAPS.split(tag.words)))
        if is_named or (in_lines and _COMPOUND.match(tag.words)):
            yield tag


@lru_cache
def _opener(names: frozenset[str]) -> re.Pattern[str]:
    """Return what is looked for first: quick, right about names in ASCII, and generous with all others."""
    starts = sorted(f"{name[0]}(?:[-_ ]?{name[1]}|[^ -~])" for name in names)
    return re.compile(rf"[{_OPENING}](?=[\s/\\]*+(?:{'|'.join(starts)}|[^ -~\s]))", re.IGNORECASE)


def _read_tag(text: str, at: int) -> Tag:
    start, words, closes = at - 1, "", False
    while at < len(text) and len(words) < 40:
        look = _looks[ord(text[at])]
        if words == "" and look in ("/", " "):
            closes = closes or look == "/"
        elif look in ("-", "_", " ") or look.isalnum():
            words += look
        elif look:
            break
        at += 1
    closer = _CLOSER.search(text, at, at + 200)
    return Tag(start, closer.end() if closer else at, words, closes)


OURS = frozenset(  # spelled without gaps
    {
        *("history", "summary", "earliermessage", "lateresult", "sessionrecord", "memories", "recalled"),
        *("ledger", "standingrules", "currentplan", "projectinstructions"),
    }
)

_NEUTRALIZED = OURS | {"systemreminder"}  # which models are taught to obey


def fence(tag: str, text: str, **attributes: object) -> str:
    """`text` between an opening and a closing tag; this one and this package's others inside it lose their meaning."""
    listed = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{listed}>\n{neutral(text, _GAPS.sub('', tag))}\n</{tag}>"


def within_fence(fenced: str, change: Callable[[str], str]) -> str:
    """Return a fenced text with its inside changed; the fence stays whole."""
    opening, _, rest = fenced.partition("\n")
    inside, _, closing = rest.rpartition("\n")
    return f"{opening}\n{change(inside)}\n{closing}"


def neutral(text: str, *names: str) -> str:
    """`text` in which no own tag, no host's reminder and none of `names` opens or closes anything."""
    pieces, done = [], 0
    for tag in find_tags(text, _NEUTRALIZED | frozenset(names)):
        pieces += [text[done : tag.start], "("]
        done = tag.start + 1
    return "".join((*pieces, text[done:])) if done else text
