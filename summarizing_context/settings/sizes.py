"""Sizes of summaries and of merges, from the settings.

They grow with the budget in three steps, not with each token: a budget that changes a little changes no recipe.
"""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.settings.checks import SUMMARIES_PER_SEGMENT
from summarizing_context.settings.values import Settings

_CAPS = ((12_000, 400, 800), (24_000, 640, 1_600), (None, 900, 2_000))  # below this budget: a summary, a merge

DEFAULT_CAPS = tuple(leaf for _, leaf, _ in _CAPS)

FIRST_CAP = 400  # the default of the first release

_USUAL = 0.7  # of its cap, that a summary takes, about

_LEAST_STEP, _MOST_STEP = 4, 16  # segments


class SummarySizes(NamedTuple):
    """Sizes in tokens, and how many segments at a time go from the unrolled part of a header into its merge."""

    leaf: int  # cap of one segment's summary
    merge: int  # cap of a merge
    step: int  # segments; a power of two
    target: float  # tokens of a header above which more is merged, in a view of `max_tokens`


def summary_sizes(settings: Settings) -> SummarySizes:
    """The sizes that the settings ask for: those that are given, else by `max_tokens`.

    A step is as many segments as fill half of the header's target.
    """
    by_budget, merge_by_budget = next(caps for below, *caps in _CAPS if below is None or settings.max_tokens < below)
    leaf = settings.summary_max_tokens or max(16, min(by_budget, settings.segment_target // SUMMARIES_PER_SEGMENT))
    merge = settings.merge_max_tokens or min(merge_by_budget, 5 * leaf // 2)
    target = settings.header_target * settings.max_tokens
    step = _LEAST_STEP
    while 2 * step <= min(_MOST_STEP, target / 2 / (_USUAL * leaf)):
        step *= 2
    return SummarySizes(leaf, merge, step, target)
