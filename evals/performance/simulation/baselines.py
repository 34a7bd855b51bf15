"""What others do, on the same steps and at the same prices: reckoned with sizes alone, without texts.

- `single shot`: at 92 % of the window the agent waits for one summary of everything but the tail.
- `anchored summary`: the same at the raw tail that the square-root law asks for.
- `frozen`: a summary for each segment, made in the background; over the target the two oldest become one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from evals.performance.simulation.bill import Bill
from evals.performance.simulation.workload import MEDIAN, SYSTEM_TOKENS, Step
from summarizing_context.views.budget import CachePrices, cheapest_band

Kind = Literal["single shot", "anchored summary", "frozen"]

LATE = 0.92  # share of the window
ONE_SUMMARY = 4_000  # tokens of a summary of the whole past
SEGMENT, PART_SUMMARY = 4_400, 400  # tokens of a segment and of its summary
MEAN_STEP = 1.9 * MEDIAN  # tokens


class Shown(NamedTuple):
    """A part of a view: tokens that were written once, under a number of their own."""

    number: int
    tokens: int
    passes: int = 0


@dataclass(slots=True)
class Baseline:
    """A manager in numbers. `kept` is the raw tail that it leaves, `header` what frozen summaries may take."""

    kind: Kind
    window: int
    kept: int  # tokens
    header_target: int  # tokens
    idle: bool  # activates also where the cache is cold
    bill: Bill = field(default_factory=Bill)
    blocking: int = 0
    passes: int = 0
    view_tokens: int = 0  # of all views
    header_tokens: int = 0  # of all views
    _header: list[Shown] = field(default_factory=list)
    _raw: deque[Shown] = field(default_factory=deque)
    _last: list[Shown] = field(default_factory=list)
    _number: int = 0

    def run(self, steps: Sequence[Step]) -> Baseline:
        for step in steps:
            self._raw.append(self._new(step.tokens))
            if self._is_due(step):
                self._activate()
            self._send(step)
        return self

    def _new(self, tokens: int, passes: int = 0) -> Shown:
        self._number += 1
        return Shown(self._number, tokens, passes)

    def _is_due(self, step: Step) -> bool:
        raw = _sum(self._raw)
        if self.idle and step.cold and raw > self.kept + 2 * SEGMENT:
            return True
        if self.kind == "single shot":
            return SYSTEM_TOKENS + _sum(self._header) + raw > LATE * self.window
        return raw > cheapest_band(self.kept, ONE_SUMMARY / 2, MEAN_STEP, CachePrices())

    def _activate(self) -> None:
        covered, left = 0, _sum(self._raw)
        while left - self._raw[0].tokens >= self.kept:
            covered += self._raw[0].tokens
            left -= self._raw.popleft().tokens
        if self.kind == "frozen":
            self._freeze(covered)
        else:
            self._summarize_all(covered)

    def _summarize_all(self, covered: int) -> None:
        old = _sum(self._header)
        passes = 1 + max((shown.passes for shown in self._header), default=0)
        self._header = [self._new(min(ONE_SUMMARY, old + covered // 10), passes)]
        self._pay(old + covered, self._header[0].tokens)
        self.blocking += 1
        self.passes = max(self.passes, passes)

    def _freeze(self, covered: int) -> None:
        for _ in range(round(covered / SEGMENT)):
            self._header.append(self._new(PART_SUMMARY, 1))
            self._pay(SEGMENT, PART_SUMMARY)
        while _sum(self._header) > self.header_target:
            first, second = self._header[:2]
            merged = self._new(PART_SUMMARY, 1 + max(first.passes, second.passes))
            self._header[:2] = [merged]
            self._pay(first.tokens + second.tokens, PART_SUMMARY)
            self.passes = max(self.passes, merged.passes)

    def _pay(self, given: int, made: int) -> None:
        self.bill.summarizer_input += given
        self.bill.summarizer_output += made

    def _send(self, step: Step) -> None:
        view = [Shown(0, SYSTEM_TOKENS), *self._header, *self._raw]
        same = 0
        for old, new in zip(self._last, view, strict=False):
            if old is not new and old != new:
                break
            same += 1
        total = _sum(view)
        self.view_tokens += total
        self.header_tokens += _sum(self._header)
        self.bill.charge(total, _sum(view[:same]), _sum(self._last), cold=step.cold)
        self._last = view


def _sum(shown: Sequence[Shown] | deque[Shown]) -> int:
    return sum(part.tokens for part in shown)
