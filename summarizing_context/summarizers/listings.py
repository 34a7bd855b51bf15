"""Lines that list things: files that were changed or looked at, ids that calls were made with.

Pure. What was done to many files takes one line for each kind of deed, so that exact names are cheap; lists of several
summaries are united, each name once, where it was last dealt with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

from summarizing_context.core.sentences import GONE, list_whole, shown
from summarizing_context.summarizers.parameters import ExtractiveParameters
from summarizing_context.summarizers.sections import Line

LOOKED, CALLED = "looked at", "called with"
NAMED = "also named"
CHANGED = (
    *("edited", "updated", "modified", "wrote", "created", "saved", "moved", "renamed", "undid"),
    *("deleted", "removed", "dropped", "closed", "archived"),
)

_FIRST = 1_000_000  # rank
_LISTED = re.compile(rf"({'|'.join((*CHANGED, LOOKED, CALLED))}) ([^\n]+)\Z")
_TIMES = re.compile(r" \(\d{1,9} times\)\Z")
_ID = re.compile(r"#?[A-Za-z0-9][\w#.:@-]{3,39}\Z")


class Listings:
    """What has been dealt with, and how it was dealt with last."""

    def __init__(self, by: ExtractiveParameters) -> None:
        self._last: dict[str, str] = {}  # name: verb, the newest last
        self._lengths = {LOOKED: by.lengths.looked, CALLED: by.lengths.called}
        self._ranks = {LOOKED: by.ranks.looked, CALLED: by.ranks.called}
        self._changed = by.lengths.changed, by.ranks.changed

    def add(self, verb: str, name: str) -> None:
        """Note a name. What was changed stays changed when it is looked at later."""
        before = self._last.get(name, "")
        if verb in (LOOKED, CALLED) and before in CHANGED:
            verb = before
        self._last.pop(name, None)
        self._last[name] = verb

    def read(self, text: str) -> bool:
        """Take in a line of an earlier summary; False if it lists nothing."""
        found = _LISTED.match(text)
        if found is None or " → " in text:
            return False
        for name in found[2].split(", "):
            bare = _TIMES.sub("", name.strip())
            if bare and bare != GONE:
                self.add(found[1], bare)
        return True

    def lines(self) -> list[Line]:
        """A line for each verb, the names dealt with last kept first where there are too many."""
        verbs = dict.fromkeys(self._last.values())
        return [self._line(verb) for verb in (*CHANGED, CALLED, LOOKED) if verb in verbs]

    def _line(self, verb: str) -> Line:
        length, rank = self._changed
        names = [name for name, last in self._last.items() if last == verb]
        return Line(f"{verb} {list_newest(names, self._lengths.get(verb, length))}", self._ranks.get(verb, rank))


def ids_in(values: Iterable[str]) -> list[str]:
    """Those of a call's arguments that are ids: one word with a digit in it, and more than a number."""
    return [
        value
        for value in values
        if _ID.match(value) and any(map(str.isdigit, value)) and not value.replace(".", "").isdigit()
    ]


def list_newest(names: list[str], limit: int) -> str:
    """The last of `names`, none of them cut, in about `limit` characters; at least one."""
    kept: list[str] = []
    size = 0
    for name in reversed(names):
        told = shown(name)
        if kept and size + len(told) > limit:
            kept.append(GONE)
            break
        kept.append(told)
        size += len(told) + 2
    return ", ".join(reversed(kept))


def named_line(values: Iterable[str], by: ExtractiveParameters) -> Line:
    """Values that a summary tells nothing else of, the most used first: kept before other facts, for where to look."""
    return Line(f"{NAMED} {list_whole(values, by.lengths.named)}", _FIRST)


def unite_named(facts: Iterable[str], by: ExtractiveParameters) -> tuple[list[Line], list[str]]:
    """One line of all named values, the newest of them, and the other facts."""
    listed, others = [], []
    for text in facts:
        if text.startswith(f"{NAMED} "):
            listed.append([name for name in text[len(NAMED) + 1 :].split(", ") if name != GONE])
        else:
            others.append(text)
    names = dict.fromkeys(name for place in zip_longest(*reversed(listed)) for name in place if name is not None)
    return ([named_line(names, by)] if names else []), others
