"""How much a line is worth keeping: a linear model learnt from notes that a language model wrote of real sessions.

Pure, in whole numbers. The weights are data, in `salience.toml`; `evals/salience.py` learns them.
"""

from __future__ import annotations

import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from summarizing_context.messages.text import Words

PROSE = frozenset(("user", "assistant", "thinks"))

_LENGTHS = (4, 7, 11, 17, 27)  # words at which the next bucket begins
_VALUES = (1, 2, 4, 8)  # digits and marks of paths and names
_SHARES = (1, 5, 9, 13)  # of a line's content words, in sixteenths
_OFTEN = 8  # a word in more than one of so many lines says nothing of any of them
_OF_LINES = ("lines length", "lines values", "lines said", "lines asked")  # names of weights
_OF_PROSE = ("prose length", "prose values", "prose said", "prose asked")
_OPENING = 3  # words of a sentence whose own weights count

STOP_WORDS = frozenset(
    b"a about after all also am an and any are as at be because been before being but by can could did do does done "
    b"dont each else every few for from get go going good got had has have having he her here him his how i if im in "
    b"into is it its ive just know let lets like ll look made make may me more most my need no not now of off ok okay "
    b"on one only or other our out over own please re s see she should so some such sure t than thank thanks that "
    b"thats the their them then there these they this those to too under up us ve very via want was we well were "
    b"what when where which while who why will with would yes yet you your file line code true false null none "
    b"return nil string int if else def self import const var let new type err func function public static class "
    b"name value id data result output error".split()
)


class Place(NamedTuple):
    """Where a sentence stands."""

    first: bool = False  # of its message
    last: bool = False
    long: bool = False  # its message has more than six sentences
    closing: bool = False  # the human speaks next, or nobody
    newest: bool = False  # in the newest message of its speaker


NOWHERE = Place()


class Found(NamedTuple):
    """One line or sentence that may be kept."""

    text: str
    words: Words
    kind: str  # of its block
    source: str  # the file it was read from, or ""
    values: int  # how rich in exact values it is
    block: int = 0  # number of the block it stands in
    place: Place = NOWHERE


class Talk:
    """What the work is about, by the words that people and the agent say; and the words that say nothing.

    Those are stop words, and the words of lines that look alike, such as the name of a step before each line of a log.
    """

    def __init__(self, found: Sequence[Found]) -> None:
        others = [one.words for one in found if one.kind not in PROSE]
        often = max(len(others) // _OFTEN, _OFTEN)
        self.empty = STOP_WORDS.union(word for word, times in _counted(others).items() if times > often)
        said = _counted(one.words for one in found if one.kind in PROSE)
        self.said = frozenset(said) - STOP_WORDS
        self.again = frozenset(word for word, times in said.items() if times > 1) - STOP_WORDS
        self.asked = frozenset(word for one in found if one.kind == "user" for word in one.words) - STOP_WORDS


def _counted(lines: Iterable[Words]) -> Counter[bytes]:
    """In how many lines each word stands."""
    return Counter(chain.from_iterable(map(frozenset, lines)))


def features(one: Found, talk: Talk) -> list[tuple[str, int]]:
    """The names of the weights of a line, each with the place in its list."""
    if one.kind not in PROSE:
        content = frozenset(one.words) - talk.empty
        if one.values:
            content = frozenset(word for word in content if word > b":")  # a number has another feature
        return _common(_OF_LINES, one, content, len(content), talk.said, talk=talk)
    common = _common(_OF_PROSE, one, frozenset(one.words) - STOP_WORDS, len(one.words), talk.again, talk=talk)
    return [
        *common,
        *_of_place(one.place),
        ("question", int(one.text.endswith("?"))),
        ("colon", int(one.text.endswith(":"))),
        ("quotes code", int("`" in one.text)),
        ("bold", int("**" in one.text)),
        *((f"word {word.decode('utf-8', 'replace')}", 0) for word in dict.fromkeys(one.words[:_OPENING])),
    ]


def _common(
    names: Sequence[str], one: Found, content: Set[bytes], length: int, said: frozenset[bytes], *, talk: Talk
) -> list[tuple[str, int]]:
    """The weights that prose and other lines both have, by their words that say something."""
    of_length, of_values, of_said, of_asked = names
    size = len(content) or 1
    return [
        (one.kind, 0),
        (of_length, bisect(_LENGTHS, length)),
        (of_values, bisect(_VALUES, one.values)),
        (of_said, bisect(_SHARES, 16 * len(said & content) // size)),
        (of_asked, bisect(_SHARES, 16 * len(talk.asked & content) // size)),
    ]


@cache
def _of_place(place: Place) -> list[tuple[str, int]]:
    return [(name, int(holds)) for name, holds in zip(Place._fields, place, strict=True)]


def salience(one: Found, talk: Talk) -> int:
    """Thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    weights, total = _weights(), 0
    for name, at in features(one, talk):
        if found := weights.get(name):
            total += found[at]
    return total


@cache
def _weights() -> Mapping[str, list[int]]:
    learnt: dict[str, list[int]] = tomllib.loads((files(__package__) / "salience.toml").read_text("utf-8"))["weights"]
    return learnt
