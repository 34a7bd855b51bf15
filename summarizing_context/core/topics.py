"""What a rule, or the words that lift one, are about: the words that carry meaning, by their stems.

Pure. Verbs that stand for each other (touch, edit, change) count as one and weigh nothing by themselves; neither do
nouns that say little (file, folder, library).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from summarizing_context.core.cues import BAN, DEMAND
from summarizing_context.core.words import Words

_SILENT = frozenset(
    b"""a an the to of in on for and or it its is are be been was with this that these those there here i im you youre
    we my our your me us them they he she what said told asked about regarding concerning do does did dont doesnt have
    has had need needs needed needing want wants like every each any all some no not non none both more most much many
    such can could may might will would shall should must mustnt cant cannot isnt arent wont even ever just only also
    too still yet again anymore longer now always never stop quit instead actually please from rather than make sure so
    then lets at as by before after while until unless if when whenever without under over into back off limits limit
    hands stay away keep out leave alone untouched unchanged refrain avoid forbidden banned prohibited required
    mandatory necessary allowed permitted fine ok okay prefer preferred preference rule rules constraint constraints
    restriction restrictions requirement requirements ban bans policy wish forget outside elsewhere anywhere everywhere
    beyond other others anything everything henceforth important remember circumstances account time times""".split()
)
_ALIKE = {
    word: group
    for group, words in enumerate(
        (
            b"touch edit change modify alter update",
            b"use",
            b"add make put include insert create write give",
            b"run execute launch",
        )
    )
    for word in words.split()
}
_PALE = b"""file folder directory library package module branch command tool function framework database table data
    code thing stuff way project repo repository"""
_PLACES = b"file folder directory table database"
_WHEN = frozenset(b"before after when whenever while if unless until once".split())
_BEYOND = frozenset(b"outside beyond other others else elsewhere any anything everything all without".split())
_BANS = frozenset(b"never dont not no avoid mustnt stop refrain zero".split())
_PASSED = frozenset(b"ever again any use using to be from".split())  # between a ban and what it bans


_LEADING = 4  # words that may stand before "forget"


class Topic(NamedTuple):
    """The words that carry meaning, by their stems, and what the rest of them says of these."""

    names: frozenset[bytes]
    verbs: frozenset[int]  # groups of verbs that stand for each other
    numbers: frozenset[bytes]
    forbids: bool
    demands: bool
    banned: bytes  # what follows the ban, mostly a verb; b"" where there is none or it says little
    places: bool  # names what holds things, such as a folder: of itself another thing than what it holds
    conditions: frozenset[bytes]  # names that only say when the rest is due
    only: bool  # bans all else
    beyond: bool  # speaks of all else


def read_topic(words: Words) -> Topic:
    """The topic of some words."""
    words = without_urging(words)
    told = [word for word in words if word not in _SILENT]
    stems = [stem(word) for word in told if not word.isdigit()]
    forbids = BAN.found_in(words)
    return Topic(
        frozenset(one for one in stems if one not in _GROUPS and one not in _PALE_STEMS),
        frozenset(_GROUPS[one] for one in stems if one in _GROUPS),
        frozenset(word for word in told if word.isdigit()),
        forbids,
        not forbids or DEMAND.found_in(words),
        _banned(words),
        not _PLACE_STEMS.isdisjoint(stems),
        _conditions(words),
        b"only" in words and _BANS.isdisjoint(words),
        not _BEYOND.isdisjoint(words),
    )


def without_urging(words: Words) -> Words:
    """The words without "do not forget to", which forbids nothing."""
    if b"forget" not in words:
        return words
    at = words.index(b"forget")
    return words[at + 1 :] if at <= _LEADING and words[at - 1] in (b"dont", b"never", b"not") else words


def _conditions(words: Words) -> frozenset[bytes]:
    """The names behind "before", "if" and the like, where a rule ends with them."""
    at = next((at for at, word in enumerate(words) if at and word in _WHEN), len(words))
    return frozenset(map(stem, words[at + 1 :])) - frozenset(map(stem, words[:at]))


def _banned(words: Words) -> bytes:
    """What follows the first ban."""
    for at, word in enumerate(words):
        if word in _BANS:
            follows = next((one for one in words[at + 1 :] if one not in _PASSED), b"")
            told = stem(follows)
            return b"" if follows in _SILENT or told in _GROUPS or told in _PALE_STEMS else told
    return b""


@lru_cache(maxsize=8_192)
def stem(word: bytes) -> bytes:
    """A word without the endings of plural, past and progressive; crude, but the same for both sides."""
    if len(word) > 4 and word.endswith(b"ing"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith((b"ed", b"ches", b"shes", b"sses", b"xes", b"zes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith(b"s") and not word.endswith((b"ss", b"us")):
        word = word[:-1]
    if len(word) > 3 and word.endswith((b"ie", b"y")):
        word = word.removesuffix(b"ie").removesuffix(b"y") + b"i"
    if len(word) > 2 and word.endswith(b"e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


_GROUPS = {stem(word): group for word, group in _ALIKE.items()}
_PALE_STEMS = frozenset(map(stem, _PALE.split()))
_PLACE_STEMS = frozenset(map(stem, _PLACES.split()))
