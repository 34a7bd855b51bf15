"""Whether a later rule replaces an earlier one: both speak of one thing, and say it otherwise.

Pure. Careful rather than clever: a rule that still holds must not be called superseded.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from summarizing_context.core.cues import CORRECTION, LEADS, NEEDLESS, ORDERS, PROHIBITION
from summarizing_context.core.topics import without_urging
from summarizing_context.core.words import Words

_OVERLOOKED = frozenset(
    b"""the a an to of in on for and or it its is be with that this use using set keep instead actually now not dont do
    never always must only no longer please from rather than should make sure switch change changed want you we i my
    our your also all any when then so just will can lets at as by may""".split()
)
_NEGATIONS = frozenset((b"dont", b"never", b"not"))  # "do not change it" changes nothing
_ANEW = b"from now on"
_ONE_VALUE = frozenset((b"in", b"is", b"be", b"as", b"me"))  # what stands behind these can mostly be one thing only
_SORTS = {  # of two of one sort only one can be meant; of two sorts both
    word: sort
    for sort, words in enumerate(
        (
            b"english german french spanish italian portuguese dutch polish russian ukrainian turkish arabic hebrew "
            b"hindi chinese japanese korean swedish danish norwegian finnish czech greek latin british american",
            b"json yaml xml html toml csv markdown prose latex text",
            b"utc gmt cet cest est edt pst pdt bst",
            b"eur euro euros usd dollar dollars gbp pounds chf francs jpy yen",
            b"monday tuesday wednesday thursday friday saturday sunday",
        )
    )
    for word in words.split()
}


class Subject(NamedTuple):
    """What a rule speaks of, by its words."""

    names: frozenset[bytes]
    numbers: frozenset[bytes]
    places: frozenset[tuple[bytes, bytes, bytes]]  # each name with the two words before it
    forbids: bool
    corrects: bool  # says that something is otherwise now
    anew: bool  # says that something begins now, which may be so beside what holds


def read_subject(words: Words) -> Subject:
    """The subject of a rule."""
    words = without_urging(words)
    said = [word for word in words if word not in LEADS.words]
    names = frozenset(word for word in said if word not in _OVERLOOKED and not word.isdigit())
    places = zip(said, [b"", *said], [b"", b"", *said], strict=False)
    forbids = (PROHIBITION.found_in(words) and not NEEDLESS.found_in(words)) or _is_short_ban(words)
    return Subject(
        names,
        frozenset(word for word in said if word.isdigit()),
        frozenset(place for place in places if place[0] in names),
        forbids,
        CORRECTION.found_in([word for before, word in pairwise([b"", *words]) if before not in _NEGATIONS]),
        _ANEW in b" ".join(words),
    )


def _is_short_ban(words: Words) -> bool:
    """Whether a rule begins as "No emojis" does."""
    return words[:1] == [b"no"] and words[1:] != [] and words[1] not in LEADS.words | ORDERS.words


def replaces(new: Subject, old: Subject) -> bool:
    """Whether `new` takes the place of `old`. A prohibition ends only by words that lift it (`lifting`)."""
    shared = len(new.names & old.names)
    if shared == 0 or 2 * shared < len(old.names) or old.forbids:
        return False
    if new.numbers or old.numbers:
        return bool(new.numbers - old.numbers and old.numbers - new.numbers) and new.corrects
    likely = len(new.names) <= len(old.names) + 5 and not new.places.isdisjoint(old.places)
    return new.corrects and likely and old.names != new.names


def repeats(new: Subject, old: Subject) -> bool:
    """Whether `new` says all that `old` says."""
    return bool(old.names) and old.names <= new.names and old.numbers == new.numbers and old.forbids == new.forbids


def contradicts(new: Subject, old: Subject) -> bool:
    """Whether both cannot hold, so that the later one does: it replaces the other, turns it round (never, always), or
    says the same with another number or another name in its place."""
    if replaces(new, old):
        return True
    if not old.names or old.forbids:
        return bool(old.names) and (old.names, old.numbers) == (new.names, new.numbers) and not new.forbids
    if new.forbids:
        return old.names == new.names or ((new.corrects or new.anew) and old.names <= new.names)
    if old.names == new.names:
        return bool(old.numbers and new.numbers) and old.numbers != new.numbers
    return _renames(new, old)


def _renames(new: Subject, old: Subject) -> bool:
    """Whether another name stands behind the same two words, where it must be instead of the old one."""
    gone, came, kept = old.names - new.names, new.names - old.names, old.names & new.names
    slots = {place[1:] for place in old.places if place[0] in gone}
    slots &= {place[1:] for place in new.places if place[0] in came}
    if not new.corrects and {_SORTS.get(name) for name in gone} != {_SORTS.get(name) for name in came}:
        return False
    if new.corrects:
        return any(before for before, _ in slots) and 2 * len(kept) >= len(old.names)
    one = any(before in _ONE_VALUE or (new.anew and before) for before, _ in slots)
    return one and bool(kept) and len(gone) == len(came) == 1
