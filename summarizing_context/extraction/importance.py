"""How important a group of messages is: a number from 0 to 1, the same for the same log in any process.

Pure bookkeeping in memory, kept up as groups close. The score is 1 - (1 - w1)(1 - w2)..., over the factors that apply:

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

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from summarizing_context.extraction.traits import DECISION, ERROR, WRITE, Traits

_CRITICAL, _STRICT, _SOFT = 8, 16, 32

_WEIGHTS = {_CRITICAL: 1.0, _STRICT: 0.7, _SOFT: 0.4, DECISION: 0.5, WRITE: 0.4, ERROR: 0.35}

_REUSE, _MOST_USES, _RECENCY = 0.15, 3, 0.2

Bucket = tuple[int, int]  # flags and uses, which groups share


class Member(NamedTuple):
    """What counts of one message of a group."""

    traits: Traits
    critical: bool


class Ranked(NamedTuple):
    """A group by its number, and how important it is."""

    score: float
    group: int


def score(flags: int, uses: int, recency: float) -> float:
    """The score of a group; `recency` is 0 for the oldest and 1 for the newest."""
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
        self._buckets: dict[Bucket, list[int]] = {}

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
        """How important a group is now."""
        recency = group / (len(self) - 1) if len(self) > 1 else 1.0
        return score(self._flags[group], self._uses[group], recency)

    def ranked(self, groups: int, threshold: float) -> Iterator[Ranked]:
        """Of the first so many groups those that score at least `threshold`, the most important first, newer ones
        before older ones that score the same."""
        return merge(
            *(self._of_bucket(places, bisect_left(places, groups), threshold) for places in self._buckets.values()),
            reverse=True,
        )

    def _of_bucket(self, places: list[int], stop: int, threshold: float) -> Iterator[Ranked]:
        for at in range(stop - 1, -1, -1):  # the newest is the best of a bucket
            ranked = Ranked(self.score_of(places[at]), places[at])
            if ranked.score < threshold:
                return
            yield ranked

    def _add(self, flags: int, names: tuple[int, ...]) -> None:
        group = len(self)
        for old in sorted({old for name in names for old in self._by_name.get(name, ())}):
            self._use(old)
        self._flags.append(flags)
        self._uses.append(0)
        self._names.append(names)
        self._buckets.setdefault((flags, 0), []).append(group)
        for name in names:
            self._by_name.setdefault(name, []).append(group)

    def _use(self, group: int) -> None:
        """A later group names what this one names. One that was used often enough is not looked for any more."""
        flags, uses = self._flags[group], self._uses[group]
        held = self._buckets[flags, uses]
        del held[bisect_left(held, group)]
        self._uses[group] = uses + 1
        places = self._buckets.setdefault((flags, uses + 1), [])
        places.insert(bisect_left(places, group), group)
        if uses + 1 == _MOST_USES:
            for name in self._names[group]:
                self._by_name[name].remove(group)
