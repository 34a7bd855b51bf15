"""Where text went: which pieces were added, which of them summarizers read, and what a summary stands for.

Pure. A summary that reads an earlier one inherits what that stands for, one pass further from the source.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from evals.performance.fake_model import Reading
from evals.performance.scenario import marks_in, marks_of
from evals.performance.tokens import Message, message_text

SUMMARY = re.compile(r"\bs(\d{6})\b")


class Passes(NamedTuple):
    """Summarizations that a piece of the past went through."""

    most: int
    mean: float


class Fate(NamedTuple):
    """What became of the text that is no longer in the last view; shares of that text."""

    pieces: int
    unread: float  # no summarizer was shown it
    lost: float  # it is not behind any model-made summary of that view either


@dataclass(frozen=True, slots=True)
class Origin:
    """What one summary was made from."""

    pieces: tuple[range, ...]
    parents: frozenset[int]
    depths: Mapping[int, int]  # pieces by the number of passes


@dataclass
class Lineage:
    """The pieces of a session in the order in which they were added."""

    first: dict[int, int] = field(default_factory=dict)  # text number -> its first piece
    pieces: int = 0
    viewable: int = 0  # pieces that the last view could have shown
    read: bytearray = field(default_factory=bytearray)
    origins: dict[int, Origin] = field(default_factory=dict)

    def added(self, message: Message) -> None:
        for text, _ in marks_of(message):
            self.first.setdefault(text, self.pieces)
            self.pieces += 1
            self.read.append(0)

    def learn(self, readings: list[Reading]) -> None:
        """Look at what the model was shown since; the texts are let go."""
        for reading in readings:
            known = sorted({self.first[text] + piece for text, piece in marks_in(reading.text) if text in self.first})
            for at in known:
                self.read[at] = 1
            parents = frozenset(map(int, SUMMARY.findall(reading.text))) & self.origins.keys()
            self.origins[reading.summary] = Origin(tuple(runs(known)), parents, self._depths(len(known), parents))
        readings.clear()

    def fate(self, view: Iterable[Message]) -> Fate:
        """Judged by the last view."""
        messages = list(view)
        shown = {self.first[text] + piece for message in messages for text, piece in marks_of(message)}
        evicted = [at for at in range(self.viewable) if at not in shown]
        if not evicted:
            return Fate(0, 0.0, 0.0)
        kept = self._behind(summaries_in(messages))
        unread = sum(1 for at in evicted if not self.read[at])
        return Fate(len(evicted), unread / len(evicted), sum(1 for at in evicted if at not in kept) / len(evicted))

    def passes(self, view: Iterable[Message] | None = None) -> Passes:
        """Of what the summaries of a view stand for; without one, of every summary that was ever made."""
        summaries = self.origins.keys() if view is None else summaries_in(view) & self.origins.keys()
        total: Counter[int] = Counter()
        for summary in summaries:
            total.update(self.origins[summary].depths)
        pieces = sum(total.values())
        mean = sum(depth * many for depth, many in total.items()) / pieces if pieces else 0.0
        return Passes(max(total, default=0), mean)

    def _depths(self, pieces: int, parents: frozenset[int]) -> Mapping[int, int]:
        depths: Counter[int] = Counter({1: pieces} if pieces else {})
        for parent in parents:
            depths.update({depth + 1: many for depth, many in self.origins[parent].depths.items()})
        return dict(depths)

    def _behind(self, summaries: Iterable[int]) -> set[int]:
        """Pieces that these summaries stand for, their parents' included."""
        waiting, seen, kept = list(summaries), set[int](), set[int]()
        while waiting:
            summary = waiting.pop()
            if summary in seen or summary not in self.origins:
                continue
            seen.add(summary)
            kept.update(at for run in self.origins[summary].pieces for at in run)
            waiting.extend(self.origins[summary].parents)
        return kept


def summaries_in(messages: Iterable[Message]) -> set[int]:
    return {int(number) for message in messages for number in SUMMARY.findall(message_text(message))}


def runs(numbers: Iterable[int]) -> Iterable[range]:
    """Ascending numbers as ranges."""
    start = stop = -1
    for number in numbers:
        if number != stop:
            if stop > start:
                yield range(start, stop)
            start = number
        stop = number + 1
    if stop > start:
        yield range(start, stop)
