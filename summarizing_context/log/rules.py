"""The standing rules of one session, by message: read once, kept beside the log, repeated ones told apart.

Pure bookkeeping in memory. Cues tell what is a rule (`rules`) until a model has said it of the message. What a rule is
about is said in `extraction.rules`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from math import inf
from typing import Literal, NamedTuple

from summarizing_context.extraction.rules import Rule, rule_topic
from summarizing_context.log.entries import Verdict
from summarizing_context.log.ledger import SAID, Fact


class StandingRule(NamedTuple):
    """A rule of the human's, and the message it stands in."""

    message: int  # log entry
    quote: str  # verbatim, but for white space
    strength: Literal["must", "prefer"]
    ended_by: int | None = None  # the later message that takes it back or replaces it
    source: Literal["model", "cues"] = "cues"  # who found it


class StandingRules(NamedTuple):
    newest: Sequence[StandingRule]  # first
    held: int = 0  # of all that hold, handed out or not
    first: int = 0  # message of the oldest that holds


NO_RULES = StandingRules(())
_OFFERED = 400  # rules that are handed out, the newest; more never fit


class RuleLog:
    """The rules of a growing log, in its order."""

    def __init__(self) -> None:
        self._rules: list[StandingRule] = []
        self._ends: list[tuple[int, str]] = []  # the message that ends earlier rules of this quote
        self.open = array("q")  # messages on which a model may still be asked
        self.is_judged = False  # whether it has been asked on any

    @property
    def size(self) -> int:
        return len(self._rules)

    def add(self, index: int, rules: Iterable[Rule], verdict: Verdict | None = None) -> None:
        """The message at `index`, which is newer than all before, with what cues tell, and a model's verdict."""
        self.open.append(index)
        self._rules += (StandingRule(index, rule.quote, rule.strength) for rule in rules)
        if verdict is not None:
            self.judge(index, verdict)

    def judge(self, index: int, verdict: Verdict) -> None:
        """A model has said what the rules of an open message are, or is not asked about it again."""
        del self.open[bisect_left(self.open, index)]
        self.is_judged = True
        if verdict.given:
            rules = [StandingRule(index, rule.quote, rule.strength, None, "model") for rule in verdict.rules]
            others = [rule for rule in self._rules if rule.message != index]
            self._rules = sorted([*others, *rules], key=lambda rule: rule.message)
            self._ends += ((index, quote) for quote in verdict.ends)

    def all(self, cut: float = inf) -> list[StandingRule]:
        """Return every rule in the order of the log, each with the message that ends it: a model says so, or a later
        rule repeats it, or rules on the same. What was said from entry `cut` on counts for nothing."""
        ends: dict[str, list[int]] = {}
        for index, quote in sorted(end for end in self._ends if end[0] < cut):
            ends.setdefault(quote, []).append(index)
        found: list[StandingRule] = []
        later: dict[tuple[str, str], int] = {}  # the message of the next rule by what it is about
        for rule in reversed([rule for rule in self._rules if rule.message < cut]):
            topic, quote = rule_topic(rule.quote), " ".join(rule.quote.split()).casefold()
            named = (("quote", quote), ("order", topic.order), ("choice", topic.choice))
            about = [(name, text) for name, text in named if text]
            end = next((index for index in ends.get(rule.quote, ()) if index > rule.message), None)
            if end is None:
                end = min((later[one] for one in about if one in later), default=None)
            found.append(rule._replace(ended_by=end))
            later.update(dict.fromkeys(about, rule.message))
        return found[::-1]

    def before(self, cut: int, but: Collection[int] = ()) -> StandingRules:
        """Those that hold and stand in messages before `cut`, none of them in `but`."""
        held = [rule for rule in self.all() if rule.ended_by is None and rule.message < cut]
        offered = held[: -_OFFERED - 1 : -1]
        newest = [rule for rule in offered if rule.message not in but]
        return StandingRules(newest, len(held) - len(offered) + len(newest), held[0].message if held else 0)

    def known_before(self, cut: int) -> list[StandingRule]:
        """Those that held when entry `cut` came, whatever was said from there on, the newest first."""
        return [rule for rule in reversed(self.all(cut)) if rule.ended_by is None]

    def facts(self) -> list[Fact]:
        """All of them as a ledger lists them."""
        return [
            Fact("constraint", rule.quote, SAID, rule.message, rule.message + 1, rule.ended_by is not None)
            for rule in self.all()
        ]
