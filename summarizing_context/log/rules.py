"""The standing rules of one session, by message: read once, kept beside the log, repeated ones told apart.

Pure bookkeeping in memory. What is a rule is said in `rules`. Only an identical later rule ends one: it repeats it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

from summarizing_context.extraction.rules import Rule, RuleExtractor
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import human_texts
from summarizing_context.stores.base import StoredRules


class StandingRule(NamedTuple):
    """A rule and the message it stands in."""

    message: int
    quote: str
    strength: Literal["must", "prefer"]


class StandingRules(NamedTuple):
    """The rules of some past."""

    newest: Sequence[StandingRule]  # first
    held: int = 0  # of all that hold, handed out or not
    first: int = 0  # message of the oldest that holds

    def without(self, messages: Collection[int]) -> StandingRules:
        """Without those that stand in these messages."""
        kept = [rule for rule in self.newest if rule.message not in messages]
        return self._replace(newest=kept, held=self.held - len(self.newest) + len(kept))


NO_RULES = StandingRules(())

_OFFERED = 400  # rules that are handed out, the newest; more never fit

_encode, _decoder = msgspec.json.encode, msgspec.json.Decoder(tuple[Rule, ...])


class RuleReader:
    """Reads the rules of log entries, each message once. A message is named by its bytes."""

    def __init__(self, extractor: RuleExtractor) -> None:
        self._extractor = extractor
        self._known: dict[bytes, tuple[Rule, ...]] = {}  # of most messages there are none: these are not kept here

    def learn(self, stored: Iterable[StoredRules]) -> None:
        """Take what a store has kept of the present version, until `settle`."""
        for row in stored:
            if row.version == self._extractor.version:
                try:
                    self._known[row.digest] = _decoder.decode(row.rules) if row.rules else ()
                except msgspec.MsgspecError:  # it is read again
                    continue

    def of(self, entry: Entry) -> tuple[Rule, ...]:
        """The rules in a message; none where no human wrote in it."""
        return self._read(entry) if entry.facts.human else ()

    def stored(self, entry: Entry) -> StoredRules | None:
        """What the store keeps of the rules of a message; None where no human wrote in it."""
        if not entry.facts.human:
            return None
        rules = self._read(entry)
        return StoredRules(_digest(entry), self._extractor.version, _encode(rules) if rules else b"")

    def recognize(self, entry: Entry) -> bool:
        """Take what is known of a message; whether nothing of it is left to be read."""
        if entry.facts.human and entry.rules is None:
            entry.rules = self._known.get(_digest(entry))
        return not entry.facts.human or entry.rules is not None

    def settle(self) -> None:
        """The entries of the log have what was learnt: what is left of it need not be kept."""
        self._known = {digest: rules for digest, rules in self._known.items() if rules}

    def _read(self, entry: Entry) -> tuple[Rule, ...]:
        if not self.recognize(entry):
            entry.rules = self._extractor.rules(
                human_texts(entry.read(0).reading) if entry.typed is None else entry.typed
            )
            if entry.rules:
                self._known[_digest(entry)] = entry.rules
        entry.typed = None
        rules: tuple[Rule, ...] = entry.rules
        return rules


class _Said(NamedTuple):
    rule: StandingRule
    key: str  # which repeats share


class RuleLog:
    """The rules of a growing log."""

    def __init__(self) -> None:
        self._said: list[_Said] = []  # in the order of the log
        self._latest: dict[str, int] = {}  # places in `_said`
        self._holding: list[int] = []  # places of those that no later one repeats

    def add(self, index: int, rules: Iterable[Rule]) -> None:
        """The rules of the message at `index`, which is newer than all before."""
        for rule in rules:
            self._hold(len(self._said), key := " ".join(rule.quote.split()).casefold())
            self._said.append(_Said(StandingRule(index, rule.quote, rule.strength), key))

    def forget(self, stop: int) -> None:
        """The log ends at `stop` now: what was said after it has never been said."""
        del self._said[bisect_left(self._said, stop, key=_message) :]
        self._latest, self._holding = {}, []
        for at, said in enumerate(self._said):
            self._hold(at, said.key)

    def before(self, cut: int) -> StandingRules:
        """The rules that stand in messages before `cut` and that no later message repeats, wherever it is."""
        held = bisect_left(self._holding, cut, key=lambda at: _message(self._said[at]))
        newest = self._holding[:held][: -_OFFERED - 1 : -1]
        first = self._said[self._holding[0]].rule.message if held else 0
        return StandingRules([self._said[at].rule for at in newest], held, first)

    def strengths(self, start: int, stop: int) -> set[str]:
        """How strictly the rules in some messages bind."""
        if not self._said or _message(self._said[-1]) < start:  # as of most groups that close
            return set()
        low, high = (bisect_left(self._said, at, key=_message) for at in (start, stop))
        return {said.rule.strength for said in self._said[low:high]}

    def _hold(self, at: int, key: str) -> None:
        if (before := self._latest.get(key)) is not None:
            del self._holding[bisect_left(self._holding, before)]
        self._latest[key] = at
        self._holding.append(at)


def _message(said: _Said) -> int:
    return said.rule.message


def _digest(entry: Entry) -> bytes:
    return sha256(entry.data).digest()
