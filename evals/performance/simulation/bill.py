"""The bill: what the requests of a session cost with a prompt cache, in input tokens of the agent's model.

Prices are ratios, not money: a cached token is read for 0.1, an uncached one is written for 1.25, the summarizer's
input costs a third, its output five times that. The agent's own output is the same for everybody and left out.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evals.performance.metrics import OUTPUT, PRESETS, SUMMARIZER

FIVE_MINUTES = PRESETS[0]
READ, WRITE = FIVE_MINUTES.read, FIVE_MINUTES.write


@dataclass(slots=True)
class Bill:
    """Tokens so far, and what they cost."""

    steps: int = 0
    read: float = 0.0
    written: float = 0.0
    breaks: int = 0  # warm requests that did not begin with the whole request before
    summarizer_input: int = 0
    summarizer_output: int = 0

    def charge(self, total: float, common: float, before: float, *, cold: bool) -> None:
        """One request of `total` tokens, of which `common` are those that the last one, of `before`, began with."""
        read = 0.0 if cold else common
        self.steps += 1
        self.read += read
        self.written += total - read
        self.breaks += not cold and common < before

    @property
    def hit(self) -> float:
        """Share of the input tokens that were read from the cache."""
        return self.read / max(1.0, self.read + self.written)

    @property
    def summaries_per_step(self) -> float:
        return SUMMARIZER * (self.summarizer_input + OUTPUT * self.summarizer_output) / max(1, self.steps)

    @property
    def per_step(self) -> float:
        return (READ * self.read + WRITE * self.written) / max(1, self.steps) + self.summaries_per_step


class Requests:
    """Prices real views: what two views in a row have in common is compared to the byte."""

    def __init__(self, price: Callable[[dict[str, Any]], int]) -> None:
        self._price = price
        self._last: Sequence[dict[str, Any]] = ()
        self._costs: list[int] = []
        self.bill = Bill()

    def send(self, view: Sequence[dict[str, Any]], *, cold: bool) -> None:
        same = 0
        for old, new in zip(self._last, view, strict=False):
            if old != new:
                break
            same += 1
        before, costs = sum(self._costs), [*self._costs[:same], *map(self._price, view[same:])]
        common = sum(costs[:same])
        part = 0.0
        if same < len(self._last) and same < len(view):
            part = _common_share(self._last[same], view[same]) * costs[same]
        self.bill.charge(sum(costs), common + part, before, cold=cold)
        self._last, self._costs = view, costs


def _common_share(old: dict[str, Any], new: dict[str, Any]) -> float:
    """The part of a message's bytes that another one begins with."""
    a, b = (json.dumps(message, ensure_ascii=False).encode() for message in (old, new))
    return bisect_left(range(min(len(a), len(b))), True, key=lambda at: a[: at + 1] != b[: at + 1]) / len(b)
