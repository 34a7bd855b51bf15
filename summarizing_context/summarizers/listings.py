"""Lines that list things: files that were changed or looked at, ids that calls were made with.

Pure. What was done to many files takes one line for each kind of deed, so that exact names are cheap; lists of several
summaries are united, each name once, where it was last dealt with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.sentences import GONE, shown

LOOKED, CALLED = "looked at", "called with"
CHANGED = (
    *("edited", "updated", "modified", "wrote", "created", "saved", "moved", "renamed", "undid"),
    *("deleted", "removed", "dropped", "closed", "archived"),
)

_LISTED = re.compile(rf"({'|'.join((*CHANGED, LOOKED, CALLED))}) ([^\n]+)\Z")
_TIMES = re.compile(r" \(\d{1,9} times\)\Z")
_ID = re.compile(r"#?[A-Za-z0-9][\w#.:@-]{3,39}\Z")
_LENGTHS = {LOOKED: 420, CALLED: 320}  # characters of a line
_CHANGED_LENGTH = 420
_RANKS = {LOOKED: 7, CALLED: 6}
_CHANGED_RANK = 12


class Listings:
    """What has been dealt with, and how it was dealt with last."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}  # name: verb, the newest last

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
        return [
            Line(
                f"{verb} {list_newest([name for name, last in self._last.items() if last == verb], _length(verb))}",
                _RANKS.get(verb, _CHANGED_RANK),
            )
            for verb in (*CHANGED, CALLED, LOOKED)
            if verb in verbs
        ]


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


def _length(verb: str) -> int:
    return _LENGTHS.get(verb, _CHANGED_LENGTH)
