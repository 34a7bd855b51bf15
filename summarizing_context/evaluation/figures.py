"""The figures of a replay: counted view by view, added up over files, judged by the laws.

What a view is checked for is in `laws`; taking the views is `replay`'s work.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

TIMINGS = ("view_p50_ms", "view_p99_ms", "activation_p99_ms")  # all that two equal runs may differ in
LAW_FIGURES = (
    "over_budget_views",
    "tool_unsafe_views",
    "out_of_order_views",
    "newest_missing_views",
    "unseen_tokens",
    "append_only_breaks",
)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has been counted of one file at one budget, or of several together."""

    file: str
    budget: int | None  # None for a sum over several budgets
    strategy: str | None = None  # None for a sum over several strategies
    token_counter: str | None = None  # its name; None for a sum over several
    messages: int = 0
    history_tokens: int = 0
    views: int = 0
    refused_views: int = 0
    max_view_tokens: int = 0
    view_tokens: int = 0  # of all views
    hit_tokens: int = 0  # of these, what each view begins with as the view before did
    over_budget_views: int = 0
    tool_unsafe_views: int = 0
    out_of_order_views: int = 0
    newest_missing_views: int = 0
    unseen_tokens: int = 0
    activations: int = 0
    append_only_breaks: int = 0
    model_calls: int = 0
    model_input_tokens: int = 0
    model_output_tokens: int = 0
    stand_ins: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    view_ms: list[float] = field(default_factory=list)
    activation_ms: list[float] = field(default_factory=list)  # of the views with an activation

    def figures(self) -> dict[str, Any]:
        """The figures under their published names, as JSON values."""
        return {
            "file": self.file,
            "token_counter": self.token_counter,
            "messages": self.messages,
            "history_tokens": self.history_tokens,
            "views": self.views,
            "refused_views": self.refused_views,
            "budget": self.budget,
            "strategy": self.strategy,
            "max_view_tokens": self.max_view_tokens,
            "mean_view_tokens": round(self.view_tokens / self.views, 1) if self.views else 0.0,
            "over_budget_views": self.over_budget_views,
            "tool_unsafe_views": self.tool_unsafe_views,
            "out_of_order_views": self.out_of_order_views,
            "newest_missing_views": self.newest_missing_views,
            "unseen_tokens": self.unseen_tokens,
            "activations": self.activations,
            "append_only_breaks": self.append_only_breaks,
            "prefix_hit": round(self.hit_tokens / self.view_tokens, 4) if self.view_tokens else 0.0,
            "uncached_tokens": self.view_tokens - self.hit_tokens,
            "model_calls": self.model_calls,
            "model_input_tokens": self.model_input_tokens,
            "model_output_tokens": self.model_output_tokens,
            "stand_ins": self.stand_ins,
            "repairs": dict(sorted(self.repairs.items())),
            "view_p50_ms": percentile(self.view_ms, 50),
            "view_p99_ms": percentile(self.view_ms, 99),
            "activation_p99_ms": percentile(self.activation_ms, 99),
        }

    def broken_laws(self) -> list[str]:
        """Names of the figures that should be 0 and are not."""
        return [name for name in LAW_FIGURES if getattr(self, name)]


def add_up(tallies: Sequence[Tally], *, file: str = "total") -> Tally:
    """All of them as one; budget, strategy and counter stay where they share them."""
    total = Tally(file=file, budget=None)
    for name in _SHARED:
        found = {getattr(tally, name) for tally in tallies}
        setattr(total, name, found.pop() if len(found) == 1 else None)
    for tally in tallies:
        for name in _ADDED:
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.max_view_tokens = max(total.max_view_tokens, tally.max_view_tokens)
        total.repairs.update(tally.repairs)
        total.view_ms.extend(tally.view_ms)
        total.activation_ms.extend(tally.activation_ms)
    return total


def add_up_by_variant(tallies: Sequence[Tally]) -> list[Tally]:
    """One sum for each strategy and budget, in the order in which they first occur."""
    variants = dict.fromkeys((tally.strategy, tally.budget) for tally in tallies)
    return [add_up([tally for tally in tallies if (tally.strategy, tally.budget) == one]) for one in variants]


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile, to the thousandth; 0.0 of nothing."""
    if not values:
        return 0.0
    rank = math.ceil(len(values) * percent / 100)
    return round(sorted(values)[max(rank, 1) - 1], 3)


_SHARED = ("budget", "strategy", "token_counter")
_ADDED = tuple(
    f.name
    for f in fields(Tally)
    if f.name not in ("file", *_SHARED, "max_view_tokens", "repairs", "view_ms", "activation_ms")
)
