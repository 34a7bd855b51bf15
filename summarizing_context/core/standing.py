"""Standing rules of a session: which of them hold, which a later one has replaced. Kept up as the log grows.

Pure bookkeeping in memory. A rule is looked at once, when its message comes, beside the few that speak of the same
things; nothing here reads the log. What counts as a rule is said in `constraints`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from summarizing_context.core.constraints import Rule, plain
from summarizing_context.core.lifting import Kind, Lift, lifts, read_lifts, speaks_of_rules
from summarizing_context.core.subjects import Subject, contradicts, read_subject
from summarizing_context.core.topics import read_topic, stem
from summarizing_context.core.words import words_of

_COMPARED = 32  # newest rules of one kind and word that a new rule is compared with
_OFFERED = 200  # rules of one kind that are handed out; more never fit
_REPLACED = 8  # replaced rules that are handed out


class StandingRule(NamedTuple):
    """A rule and the message it stands in."""

    message: int
    text: str
    replaced_by: int | None = None  # message


class StandingRules(NamedTuple):
    """The rules of some past, of each kind the newest first."""

    strict: Sequence[StandingRule]
    soft: Sequence[StandingRule]
    replaced: Sequence[StandingRule]  # strict ones
    held: int = 0  # of all that hold, handed out or not
    first: int = 0  # message of the oldest that holds

    def without(self, indexes: Collection[int]) -> StandingRules:
        """Without those that hold and stand in these messages."""
        kept = [[rule for rule in rules if rule.message not in indexes] for rules in (self.strict, self.soft)]
        gone = len(self.strict) + len(self.soft) - sum(map(len, kept))
        return self._replace(strict=kept[0], soft=kept[1], held=self.held - gone)


NO_RULES = StandingRules((), (), ())


class _Known:
    __slots__ = ("gone_at", "index", "repeated", "stems", "strict", "subject", "text")

    def __init__(self, index: int, rule: Rule) -> None:
        self.index = index
        self.strict, self.text = rule.strict, rule.text
        self.subject = read_subject(words_of(plain(rule.text)))
        self.stems = frozenset(map(stem, self.subject.names))
        self.gone_at: int | None = None  # the first message that replaced or repeated it
        self.repeated = False


class RuleBook:
    """The rules of a growing log."""

    def __init__(self) -> None:
        self._known: list[_Known] = []  # in the order of the log
        self._by_name: dict[tuple[bool, bytes], list[int]] = {}  # of those that hold: places in `_known`
        self._holding: tuple[list[int], list[int]] = ([], [])  # soft, strict
        self._replaced: list[int] = []
        self._last_end = -1  # newest message that ended a rule

    def add(self, index: int, rules: Iterable[Rule]) -> None:
        """The rules of the message at `index`, which is newer than all before."""
        for rule in rules:
            lifted = [self._lift(index, lift) for lift in read_lifts(rule.text)]
            if not rule.binds and (any(lifted) or not any(self._holding) or not speaks_of_rules(rule.text)):
                continue  # it has done its work; where it speaks of a rule that was not found, it is shown beside it
            new, at = _Known(index, rule), len(self._known)
            for old in self._alike(new.stems):
                self._compare(new, old)
            self._known.append(new)
            self._hold(at)

    def forget(self, stop: int) -> None:
        """The log ends at `stop` now: what was said after it has never been said."""
        kept = bisect_left(self._known, stop, key=lambda known: known.index)
        if kept == len(self._known) and self._last_end < stop:
            return
        del self._known[kept:]
        self._by_name, self._holding, self._replaced = {}, ([], []), []
        for at, known in enumerate(self._known):
            if known.gone_at is not None and known.gone_at >= stop:
                known.gone_at, known.repeated = None, False
            if known.gone_at is None:
                self._hold(at)
            elif known.strict and not known.repeated:
                self._replaced.append(at)

    def before(self, cut: int) -> StandingRules:
        """The rules that stand in messages before `cut`; what a later message says of them counts, wherever it is."""
        soft, strict = (bisect_left(held, cut, key=self._index) for held in self._holding)
        replaced = bisect_left(self._replaced, cut, key=self._index)
        return StandingRules(
            self._shown(self._holding[1][:strict], _OFFERED),
            self._shown(self._holding[0][:soft], _OFFERED),
            self._shown(self._replaced[:replaced], _REPLACED),
            soft + strict,
            min((self._index(held[0]) for held in self._holding if held), default=0),
        )

    def replaced(self) -> set[int]:
        """The messages whose strict rules a later one has replaced or lifted."""
        return set(map(self._index, self._replaced))

    def _hold(self, at: int) -> None:
        known = self._known[at]
        self._holding[known.strict].append(at)
        for name in known.stems:
            self._by_name.setdefault((known.strict, name), []).append(at)

    def _index(self, at: int) -> int:
        return self._known[at].index

    def _shown(self, places: Sequence[int], most: int) -> list[StandingRule]:
        newest = (self._known[at] for at in places[: -most - 1 : -1])
        return [StandingRule(known.index, known.text, known.gone_at) for known in newest]

    def _alike(self, stems: frozenset[bytes]) -> list[int]:
        """Rules that share half of their names with these, of the newest of each name."""
        shared = Counter(at for name in stems for at in self._named(name))
        return sorted(at for at, names in shared.items() if 2 * names >= len(self._known[at].stems))

    def _named(self, name: bytes) -> list[int]:
        return [at for strict in (True, False) for at in self._by_name.get((strict, name), ())[-_COMPARED:]]

    def _compare(self, new: _Known, at: int) -> None:
        old = self._known[at]
        replaced = contradicts(new.subject, old.subject)
        if not replaced and (old.strict > new.strict or not _repeats(new.subject, old.subject)):
            return
        new.strict = new.strict or old.strict  # it binds as what it stands for
        self._end(at, new.index, repeated=not replaced)

    def _lift(self, index: int, lift: Lift) -> bool:
        """End the rules that a later message lifts; whether there are any."""
        if lift.kind is Kind.ALL:
            ended = [*self._holding[True], *self._holding[False]]
        elif lift.kind is Kind.LAST:
            ended = self._newest()
        else:
            near = {at for name in lift.topic.names for at in self._named(name)}
            ended = [at for at in near if lifts(lift, read_topic(words_of(plain(self._known[at].text))))]
        for at in sorted(ended):
            self._end(at, index, repeated=False)
        return bool(ended)

    def _newest(self) -> list[int]:
        """The rule of the newest message that has some; none where it has several, for it is unsure which is meant."""
        newest = sorted(at for held in self._holding for at in held[-2:])[-2:]
        return newest[-1:] if len({self._index(at) for at in newest}) == len(newest) else []

    def _end(self, at: int, index: int, *, repeated: bool) -> None:
        """A rule holds no more since the message at `index`."""
        old = self._known[at]
        old.gone_at, old.repeated = index, repeated
        self._last_end = index
        held = self._holding[old.strict]
        del held[bisect_left(held, at)]
        for name in old.stems:
            self._by_name[old.strict, name].remove(at)
        if old.strict and not repeated:
            self._replaced.insert(bisect_left(self._replaced, at), at)


def _repeats(new: Subject, old: Subject) -> bool:
    """Whether both say the same, so that the later one is enough."""
    return bool(old.names) and new._replace(places=frozenset(), corrects=old.corrects, anew=old.anew) == old._replace(
        places=frozenset()
    )
