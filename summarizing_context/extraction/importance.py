"""How important a group of messages is: a number from 0 to 1, the same for the same log in any process.

Traits are read from a message alone; of long texts only both ends are looked at. Scores are kept up in memory as groups
close. The score is 1 - (1 - w1)(1 - w2)..., over the factors that apply:

| factor | weight | applies where |
|---|---|---|
| critical | 1.0 | a message is marked `critical` |
| constraint | 0.7, preferences 0.4 | a human states a standing rule |
| decision | 0.5 | a human or the agent says what was chosen |
| write operation | 0.4 | a call changes something: a file, a record, a branch |
| error | 0.35 | a result reports one |
| reuse | 0.15 for each later group, at most 3 | later calls name a file that its calls name |
| recency | 0 for the oldest group to 0.2 for the newest | always |

So with the default threshold of 0.6 a constraint stays, an error that a change answered or brought stays, a decision or
a change stays while it is new or if it is used again, and what has no trait never does.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.tool_calls import CHANGES, COMMITS, verb_of
from summarizing_context.messages.reading import Reading

DECISION, ERROR, WRITE = 1, 2, 4
_END = 1_000  # characters of either end of a long text
_NAMES = 8  # files that one call names

_HINTS = (  # without which no line names an error; looking for them is quick
    *("rror:", "ERR", "FAIL", "xception", "fatal:", "panic:", "not found", "No such", "enied", "imed out", " failed"),
    *("Traceback", "xit code", "xit status", "xited with", "rror[", "rror ("),
)

_CHOOSING = ("decid", "decision", "chose", "choosing", "go with", "going with", "opt", "settled", "agreed", "switch")

_CHOICE = re.compile(
    r"\b(?:chose|chosen|choosing|decided (?:to|on|that|against)|going with|(?:let['’]?s|i['’]?ll) go with|"
    r"opt(?:ed|ing)? for|settled on|agreed (?:to|on|that)|decision (?:is|was)|switch(?:ed|ing) to)\b"
)

_COMMAND = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\]|\\.){1,400})')
_WORD = re.compile(r"[\w./~-]+")  # in which a file may be named; looked for first, for that is quick
_FILE = re.compile(r"[\w.~-]{0,60}/[\w./~-]{2,200}|\b[\w-]{1,60}\.[A-Za-z]{1,5}\b")


class Traits(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The traits of a message, and the names of the files in its calls, as numbers."""

    flags: int = 0
    names: tuple[int, ...] = ()


NO_TRAITS = Traits()


def read_traits(reading: Reading, typed: Sequence[str]) -> Traits:
    """Return what is noteworthy in a message; `typed` are its human texts."""
    flags, names = 0, dict[int, None]()
    for part in reading.parts:
        if part.kind == "result":
            ends = [text for text in map(_ends, part.texts) if any(map(text.__contains__, _HINTS))]
            flags |= ERROR * (part.failed or any(first_error_line(text, False) for text in ends))
        elif part.kind == "call":
            text = _ends("".join(part.texts))
            flags |= WRITE * _changes(part.name, text)
            words = (word for word in _WORD.findall(text) if "/" in word or "." in word)
            files = (name for word in words for name in _FILE.findall(word))
            names.update(dict.fromkeys(crc32(name.encode("utf-8", "replace")) for name in files))
    written = (text for part in reading.parts if part.kind == "text" for text in part.texts)
    if any(map(_decides, written if reading.role == "assistant" else typed)):
        flags |= DECISION
    return Traits(flags, tuple(names)[:_NAMES]) if flags or names else NO_TRAITS


def _decides(text: str) -> bool:
    said = _ends(text).lower()
    return any(map(said.__contains__, _CHOOSING)) and _CHOICE.search(" ".join(said.split())) is not None


def _changes(tool: str, arguments: str) -> bool:
    """Return whether a call changes something, by its tool's name, a patch, or the command that it runs."""
    if verb_of(tool) or "*** Begin Patch" in arguments:
        return True
    command = _COMMAND.search(arguments)
    if command is None:
        return False
    said = command[1]
    return bool(verb_of(said) if said.isidentifier() else COMMITS.search(said) or CHANGES.search(said))


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}"


_CRITICAL, _STRICT, _SOFT = 8, 16, 32
_WEIGHTS = {_CRITICAL: 1.0, _STRICT: 0.7, _SOFT: 0.4, DECISION: 0.5, WRITE: 0.4, ERROR: 0.35}
_REUSE, _MOST_USES, _RECENCY = 0.15, 3, 0.2


class Member(NamedTuple):
    """What counts of one message of a group."""

    traits: Traits
    critical: bool


class Ranked(NamedTuple):
    """A group by its number, and how important it is."""

    score: float
    group: int


def score(flags: int, uses: int, recency: float) -> float:
    """Return the score of a group; `recency` is 0 for the oldest and 1 for the newest."""
    rest = (1 - _REUSE) ** min(uses, _MOST_USES) * (1 - _RECENCY * recency)
    for flag, weight in _WEIGHTS.items():
        if flags & flag:
            rest *= 1 - weight
    return 1 - rest


class ImportanceIndex:
    """The groups of a growing log by what makes them important."""

    def __init__(self) -> None:
        self._flags = array("B")
        self._uses = array("B")
        self._names: list[tuple[int, ...]] = []
        self._by_name: dict[int, list[int]] = {}  # groups that may still be used again

    def __len__(self) -> int:
        return len(self._flags)

    def add(self, members: Sequence[Member], strengths: Collection[str] = ()) -> None:
        """The next group is closed. `strengths` are those of the rules that it states."""
        flags, names = _STRICT * ("must" in strengths) | _SOFT * ("prefer" in strengths), dict[int, None]()
        for member in members:
            flags |= member.traits.flags | _CRITICAL * member.critical
            names.update(dict.fromkeys(member.traits.names))
        self._add(flags & ~_SOFT if flags & _STRICT else flags, tuple(names))

    def forget(self, groups: int) -> None:
        """Only the first so many groups are left."""
        kept = list(zip(self._flags, self._names, strict=True))[:groups]
        if len(kept) < len(self):
            self.__init__()  # type: ignore[misc]
            for flags, names in kept:
                self._add(flags, names)

    def score_of(self, group: int) -> float:
        """Return how important a group is now."""
        recency = group / (len(self) - 1) if len(self) > 1 else 1.0
        return score(self._flags[group], self._uses[group], recency)

    def ranked(self, groups: int, threshold: float) -> Iterator[Ranked]:
        """Of the first so many groups those that score at least `threshold`, the most important first, newer ones
        before older ones that score the same."""
        kinds = list(zip(self._flags[:groups], self._uses[:groups], strict=True))
        likely = {kind for kind in set(kinds) if score(*kind, 1.0) >= threshold}  # few of a long log
        found = (Ranked(self.score_of(group), group) for group, kind in enumerate(kinds) if kind in likely)
        return iter(sorted((one for one in found if one.score >= threshold), reverse=True))

    def _add(self, flags: int, names: tuple[int, ...]) -> None:
        group = len(self)
        for old in {old for name in names for old in self._by_name.get(name, ())}:
            self._uses[old] += 1
            if self._uses[old] == _MOST_USES:
                for name in self._names[old]:
                    self._by_name[name].remove(old)
        self._flags.append(flags)
        self._uses.append(0)
        self._names.append(names)
        for name in names:
            self._by_name.setdefault(name, []).append(group)
