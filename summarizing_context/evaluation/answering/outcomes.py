"""What came of a probe that was put to a reader: each replicate's answer and mark. Values that are JSON."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from summarizing_context.evaluation.scoring.figures import Sum, Sums


class AnswerOutcome(msgspec.Struct, frozen=True):
    """One answer."""

    words: str
    right: bool
    by: str  # literals or judge
    why: str
    abstained: bool = False


def is_right(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether a probe is passed: every replicate is right. A disagreement is no pass."""
    return bool(answers) and all(answer.right for answer in answers)


def agrees(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether all replicates came to the same end."""
    return len({answer.right for answer in answers}) <= 1


def misleads(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether any replicate says something wrong rather than that it does not know."""
    return any(not answer.right and not answer.abstained for answer in answers)


def answer_sums(answered: Sequence[Sequence[AnswerOutcome]]) -> Sums:
    """The figures of one arm at one cut."""
    count = len(answered)
    return {
        "answered": Sum(sum(map(is_right, answered)), count),
        "misled": Sum(sum(map(misleads, answered)), count),
        "agreement": Sum(sum(map(agrees, answered)), count),
    }
