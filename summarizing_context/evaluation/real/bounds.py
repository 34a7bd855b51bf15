"""Bounds on the scores of recorded answers: the gates of a suite that has a recording. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from summarizing_context.evaluation.outcomes import GateOutcome
from summarizing_context.evaluation.real.arms import COMPACT, OURS
from summarizing_context.evaluation.real.scores import ArmScore, Count

ALL = "all"  # every question that has an answer


class Bound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the score of an arm must reach: a share, a lead over one-shot compaction, or no certain lag behind it."""

    category: str = ALL  # or `absent`
    arm: str = OURS
    at_least: float | None = None
    ahead_by: float | None = None  # of the mean difference
    not_behind: bool = False  # the interval of the difference does not lie wholly below zero

    @property
    def name(self) -> str:
        words = f"{self.arm}, {self.category}"
        words += f", at least {self.at_least:.0%}" if self.at_least is not None else ""
        words += f", {100 * self.ahead_by:g} points ahead of {COMPACT}" if self.ahead_by is not None else ""
        return words + (f", not behind {COMPACT}" if self.not_behind else "")


def check_bounds(scores: Sequence[ArmScore], bounds: Sequence[Bound]) -> list[GateOutcome]:
    """What became of the bounds, in their order."""
    by_arm = {score.arm: score for score in scores}
    return [_check(by_arm.get(bound.arm), bound) for bound in bounds]


def _check(score: ArmScore | None, bound: Bound) -> GateOutcome:
    count = _count(score, bound.category) if score is not None else None
    lead = count.ahead if count is not None else None
    compared = bound.ahead_by is not None or bound.not_behind
    if count is None or count.mean is None or (compared and lead is None):
        return GateOutcome(bound.name, "nothing to look at", "no marks are recorded for it")
    words = f"{count.mean.mean:.1%} [{count.mean.low:.1%}, {count.mean.high:.1%}]"
    kept = bound.at_least is None or count.mean.mean >= bound.at_least
    if lead is not None and compared:
        words += f", {100 * lead.mean:+.1f} points [{100 * lead.low:+.1f}, {100 * lead.high:+.1f}] from {COMPACT}"
        kept = kept and (bound.ahead_by is None or lead.mean >= bound.ahead_by)
        kept = kept and not (bound.not_behind and lead.high < 0)
    return GateOutcome(bound.name, "passed" if kept else "failed", words)


def _count(score: ArmScore, category: str) -> Count | None:
    if category == ALL:
        return score.score
    return score.absent if category == "absent" else score.categories.get(category)
