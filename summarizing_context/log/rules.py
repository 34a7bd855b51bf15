"""The standing rules of one session, by message: read once, kept beside the log, repeated ones told apart.

Pure bookkeeping in memory. What is a rule is said in `rules`, and what it is about in `rule_topics`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

from summarizing_context.extraction.rule_topics import rule_topic
from summarizing_context.extraction.rules import Rule, RuleExtractor
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import human_texts
from summarizing_context.stores.base import StoredRules


class StandingRule(NamedTuple):
    """A rule of the human's, and the message it stands in."""

    message: int  # log entry
    quote: str  # verbatim, but for white space
    strength: Literal["must", "prefer"]
    ended_by: int | None = None  # the later message that takes it back or replaces it
    source: Literal["model", "cues"] = "cues"  # who found it


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
        version = self._extractor.version
        for row in stored:
            if row.version == version:
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
        """Take what is known of a message that a human wrote in; whether that was all."""
        if entry.rules is None:
            entry.rules = self._known.get(_digest(entry))
        return entry.rules is not None

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


class RuleLog:
    """The rules that cues tell in a growing log, in its order."""

    def __init__(self) -> None:
        self._rules: list[StandingRule] = []

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[StandingRule]:
        return iter(self._rules)

    def add(self, index: int, rules: Iterable[Rule]) -> None:
        """The rules of the message at `index`, which is newer than all before."""
        self._rules += (StandingRule(index, rule.quote, rule.strength) for rule in rules)

    def forget(self, stop: int) -> None:
        """The log ends at `stop` now: what was said after it has never been said."""
        del self._rules[bisect_left(self._rules, stop, key=_message) :]

    def strengths(self, start: int, stop: int) -> set[str]:
        """How strictly the rules in some messages bind."""
        if not self._rules or _message(self._rules[-1]) < start:  # as of most groups that close
            return set()
        low, high = (bisect_left(self._rules, at, key=_message) for at in (start, stop))
        return {rule.strength for rule in self._rules[low:high]}


def settled(rules: Sequence[StandingRule]) -> list[StandingRule]:
    """Rules, oldest first, each with the message that ends it: a later one repeats it, or rules on the same."""
    found: list[StandingRule] = []
    later: dict[tuple[str, str], int] = {}  # the message of the next rule by what it is about
    for rule in reversed(rules):
        about = [(name, text) for name, text in _about(rule.quote) if text]
        ends = [later[one] for one in about if one in later]
        found.append(rule if rule.ended_by is not None or not ends else rule._replace(ended_by=min(ends)))
        later.update(dict.fromkeys(about, rule.message))
    return found[::-1]


def holding(rules: Sequence[StandingRule], cut: int) -> StandingRules:
    """Those of some rules, oldest first, that hold and stand before entry `cut`."""
    held = [rule for rule in rules if rule.ended_by is None and rule.message < cut]
    return StandingRules(held[: -_OFFERED - 1 : -1], len(held), held[0].message if held else 0)


def _about(quote: str) -> tuple[tuple[str, str], ...]:
    topic = rule_topic(quote)
    return ("quote", " ".join(quote.split()).casefold()), ("order", topic.order), ("choice", topic.choice)


def _message(rule: StandingRule) -> int:
    return rule.message


def _digest(entry: Entry) -> bytes:
    return sha256(entry.data).digest()
