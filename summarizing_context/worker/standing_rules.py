"""The standing rules of one session, by one verdict for all that shows or keeps them.

In memory only; never waits. Where a model has summarized a segment, its quotes count for the messages of the segment;
for all others cues do. Nothing is stored for it: rules are read off the texts of summaries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from summarizing_context.extraction.ledger import SAID, Fact
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.rules import StandingRule, StandingRules, holding, settled
from summarizing_context.messages.reading import human_texts
from summarizing_context.summarizers.verification.rules import is_verdict, read_ended, read_rules, split_rules


class RuleSources(NamedTuple):
    """Where a model's words on rules come from."""

    segment: Callable[[int], str | None]  # a model's summary of a segment, where it is ready
    pieces: Callable[[], Iterable[tuple[range, str]]]  # those of pieces of the open segment
    merges: Callable[[], Iterable[tuple[range, str]]]  # those of several segments
    changes: Callable[[], int]  # another number whenever any of them is new


class RuleBook:
    """The rules of a growing log."""

    def __init__(self, log: MessageLog, sources: RuleSources) -> None:
        self._log = log
        self._sources = sources
        self._quoted: dict[tuple[str, int], tuple[StandingRule, ...] | None] = {}  # by text and first entry
        self._known_at: tuple[int, ...] = ()
        self._rules: list[StandingRule] = []

    def all(self) -> list[StandingRule]:
        """Every rule in the order of the log, with the message that ends it."""
        log = self._log
        now = (log.version, len(log.segments), len(log.rules), self._sources.changes())
        if now != self._known_at:
            if now[:1] != self._known_at[:1]:
                self._quoted.clear()
            self._known_at, self._rules = now, settled(self._gathered())
        return self._rules

    def before(self, cut: int) -> StandingRules:
        """Those that hold and stand in messages before `cut`."""
        return holding(self.all(), cut)

    def facts(self) -> list[Fact]:
        """All of them as a ledger lists them."""
        return [
            Fact("constraint", rule.quote, SAID, rule.message, rule.message + 1, rule.ended_by is not None)
            for rule in self.all()
        ]

    def within(self, segments: range) -> list[StandingRule]:
        """What a model's summaries of some segments quote, in order: so a merge numbers them."""
        return [rule for number in segments for rule in self._of_segment(number) or ()]

    def _gathered(self) -> list[StandingRule]:
        found: list[StandingRule] = []
        judged: list[tuple[int, int]] = []
        for (start, stop), verdict in self._verdicts():
            if not judged or start >= judged[-1][1]:
                judged.append((start, stop))
                found += verdict
        for cue in self._log.rules:
            at = bisect_right(judged, cue.message, key=lambda place: place[0]) - 1
            if at < 0 or cue.message >= judged[at][1]:
                found.append(cue)
        ends = self._ends()
        found = [rule._replace(ended_by=ends.get((rule.message, rule.quote), rule.ended_by)) for rule in found]
        return sorted(found, key=lambda rule: rule.message)

    def _verdicts(self) -> Iterator[tuple[tuple[int, int], list[StandingRule]]]:
        """The entries on which a model has said what the rules are, and the rules; of a group in parts, once it has on
        all of them."""
        number, segments = 0, self._log.segments
        while number < len(segments):
            segment = segments[number]
            parts = [self._of_segment(part) for part in range(number, number + segment.parts)]
            if all(part is not None for part in parts):
                yield (segment.start, segment.stop), [rule for part in parts for rule in part or ()]
            number += segment.parts
        for piece, text in sorted(self._sources.pieces(), key=lambda each: each[0].start):
            if (verdict := self._read(text, piece.start, piece.stop)) is not None:
                yield (piece.start, piece.stop), list(verdict)

    def _of_segment(self, number: int) -> tuple[StandingRule, ...] | None:
        text = self._sources.segment(number)
        segment = self._log.segments[number]
        return None if text is None else self._read(text, segment.start, segment.stop)

    def _read(self, text: str, start: int, stop: int) -> tuple[StandingRule, ...] | None:
        """The rules of a summary of these entries, read once; None where it does not tell of rules."""
        if (text, start) not in self._quoted:
            self._quoted[text, start] = self._quotes(text, start, stop) if is_verdict(text) else None
        return self._quoted[text, start]

    def _quotes(self, text: str, start: int, stop: int) -> tuple[StandingRule, ...]:
        if not (lines := split_rules(text)[1]):
            return ()
        entries = self._log.entries[start:stop]
        typed = {
            place: human_texts(entry.read(start).reading) for place, entry in enumerate(entries, 1) if entry.facts.human
        }
        return tuple(
            StandingRule(
                start + rule.message - 1,
                rule.quote,
                rule.strength,
                None if rule.ended_by is None else start + rule.ended_by - 1,
                "model",
            )
            for rule in read_rules(lines, typed)
        )

    def _ends(self) -> dict[tuple[int, str], int]:
        """Of rules that a merge says are ended: the message of the later rule."""
        ends: dict[tuple[int, str], int] = {}
        for segments, text in self._sources.merges():
            if lines := split_rules(text)[2]:
                rules = self.within(segments)
                for earlier, later in read_ended(lines, len(rules)):
                    one, by = rules[earlier - 1], rules[later - 1]
                    if one.message < by.message:
                        ends[one.message, one.quote] = by.message
        return ends
