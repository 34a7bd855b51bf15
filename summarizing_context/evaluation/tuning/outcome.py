"""From scores of sessions to one figure of merit: hindsight retention and literal retention, half each.

Pure. A session that has but one of them counts by that one; a session that has neither does not count.

What a run of tuning has found. Values that are JSON, the same on every machine and on every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from summarizing_context.evaluation.intervals import Interval, mean_of
from summarizing_context.evaluation.tuning.trials import SessionScore

FIGURES = ("used", "literals")

MODEL_COST = "tokens a model reads and writes for 1,000 tokens of history"

VIEW_COST = "tokens that summaries take in a view"

TOLD = "the mean of hindsight retention and literal retention"


def qualities(scores: Sequence[SessionScore]) -> dict[str, float]:
    """The quality of each session; one session at several budgets is one."""
    sums: dict[str, dict[str, tuple[float, float]]] = {}
    for score in scores:
        mine = sums.setdefault(score.group, {})
        for figure in FIGURES:
            of, out_of = score.sums.get(figure, (0, 0))
            known = mine.get(figure, (0, 0))
            mine[figure] = known[0] + of, known[1] + out_of
    return {group: value for group, mine in sums.items() if (value := _mean(mine)) is not None}


def _mean(sums: dict[str, tuple[float, float]]) -> float | None:
    shares = [of / out_of for of, out_of in sums.values() if out_of]
    return sum(shares) / len(shares) if shares else None


def quality(scores: Sequence[SessionScore]) -> Interval | None:
    """The mean over sessions with its interval; None where nothing was asked."""
    return mean_of(qualities(scores))


def cost(scores: Sequence[SessionScore]) -> float:
    """What the summaries cost: where a model makes them, what it reads and writes, else their tokens in a view."""
    if spent := sum(score.model_tokens for score in scores):
        return 1_000 * spent / max(1, sum(score.history_tokens for score in scores))
    return sum(score.summary_tokens for score in scores) / max(1, sum(score.views for score in scores))


FORMAT = 1

LEAST_SESSIONS = 5  # held-out ones, from which on an interval says something


class Figures(msgspec.Struct, frozen=True):
    """What one variant came to on one side."""

    quality: Interval
    figures: dict[str, float]  # means over sessions of its parts
    cost: float  # in what the run says
    view_tokens: float  # a view


class Tried(msgspec.Struct, frozen=True):
    """One variant."""

    number: int  # in the order in which they were tried, from 0
    name: str
    key: str
    train: Figures
    validation: Figures | None  # only of those that the report is about
    changes: list[str]  # against the start


class Verdict(msgspec.Struct, frozen=True):
    """What the held-out sessions say about the winner."""

    gain: Interval | None  # over the start
    gap: Interval | None  # of the shipped over the start
    recovered: Interval | None  # share of that gap
    wanted: float  # of it; 0 where nothing was asked

    @property
    def is_sure(self) -> bool:
        """Whether the winner is better than the start, by enough sessions and outside of the interval."""
        return self.gain is not None and self.gain.low > 0 and self.gain.sessions >= LEAST_SESSIONS

    @property
    def failed(self) -> bool:
        if not self.wanted:
            return False
        return not self.is_sure or self.recovered is None or self.recovered.mean < self.wanted


class TuneOutcome(msgspec.Struct, frozen=True):
    """A whole run."""

    suite: str
    claim: str
    optimizer: str
    seed: int
    stopped: str  # why it ended
    cost: str  # what the variants' cost is counted in
    sessions: dict[str, list[str]]  # by side
    tried: list[Tried]
    start: int  # numbers of variants
    winner: int
    shipped: int
    verdict: Verdict
    winner_tables: dict[str, dict[str, int]]  # its figures
    winner_prompts: dict[str, str]  # hashes by purpose
    settings: dict[str, Any]
    format: int = FORMAT

    def at(self, number: int) -> Tried:
        return self.tried[number]
