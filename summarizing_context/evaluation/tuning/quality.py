"""From scores of sessions to one figure of merit: hindsight retention and literal retention, half each.

Pure. A session that has but one of them counts by that one; a session that has neither does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

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
