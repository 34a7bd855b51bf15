"""How much a line is worth keeping: a linear model learnt from notes that a language model wrote of real sessions.

Pure, in whole numbers. The weights are data, in `salience.toml`; `evals/salience.py` learns them.
"""

from __future__ import annotations

import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from summarizing_context.messages.text import Words

PROSE = frozenset(("user", "assistant", "thinks"))

_LENGTHS = (4, 7, 11, 17, 27)  # words at which the next bucket begins
_VALUES = (1, 2, 4, 8)  # digits and marks of paths and names
_SHARES = (1, 5, 9, 13)  # of a line's content words, in sixteenths
_OFTEN = 8  # a word in more than one of so many lines says nothing of any of them
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
        others = Counter(word for one in found if one.kind not in PROSE for word in frozenset(one.words))
        often = max(sum(one.kind not in PROSE for one in found) // _OFTEN, _OFTEN)
        self.empty = STOP_WORDS.union(word for word, times in others.items() if times > often)
        said = Counter(word for one in found if one.kind in PROSE for word in frozenset(one.words))
        self.said = frozenset(said) - STOP_WORDS
        self.again = frozenset(word for word, times in said.items() if times > 1) - STOP_WORDS
        self.asked = frozenset(word for one in found if one.kind == "user" for word in one.words) - STOP_WORDS


def features(one: Found, talk: Talk) -> Iterator[tuple[str, int]]:
    """The names of the weights of a line, each with the place in its list."""
    prose = one.kind in PROSE
    content = frozenset(one.words) - (STOP_WORDS if prose else talk.empty)
    if not prose:
        content = frozenset(word for word in content if word > b":")  # no number, which has another feature
    size = max(len(content), 1)
    group = "prose" if prose else "lines"
    yield one.kind, 0
    yield f"{group} length", bisect(_LENGTHS, len(one.words if prose else content))
    yield f"{group} values", bisect(_VALUES, one.values)
    yield f"{group} said", bisect(_SHARES, 16 * len((talk.again if prose else talk.said) & content) // size)
    yield f"{group} asked", bisect(_SHARES, 16 * len(talk.asked & content) // size)
    if not prose:
        return
    yield from ((name, int(holds)) for name, holds in zip(Place._fields, one.place, strict=True))
    yield "question", int(one.text.endswith("?"))
    yield "colon", int(one.text.endswith(":"))
    yield "quotes code", int("`" in one.text)
    yield "bold", int("**" in one.text)
    yield from ((f"word {word.decode('utf-8', 'replace')}", 0) for word in dict.fromkeys(one.words[:_OPENING]))


def salience(one: Found, talk: Talk) -> int:
    """Thousandths of a line that careful notes are expected to repeat; negative for what they leave out."""
    weights = _weights()
    return sum(weights[name][at] for name, at in features(one, talk) if name in weights)


@cache
def _weights() -> Mapping[str, list[int]]:
    learnt: dict[str, list[int]] = tomllib.loads((files(__package__) / "salience.toml").read_text("utf-8"))["weights"]
    return learnt
