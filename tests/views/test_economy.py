"""Where the high water stands: the square-root law against a search for the cheapest band, and its limits."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.views.budget import CachePrices, Economy, Thresholds, cheapest_band, economy_thresholds
from tests.making import room

FIVE_MINUTES, HOUR, FLAT_WRITE = CachePrices(0.1, 1.25), CachePrices(0.1, 2.0), CachePrices(0.25, 1.0)
RNG = random.Random(5)
STEPS = [min(30_000, int(RNG.lognormvariate(math.log(770), 1.137))) for _ in range(3_000)]
MEAN = sum(STEPS) / len(STEPS)
ADDED = 1_600  # tokens of summaries an activation adds


def cost_of(band: float, kept: float, prices: CachePrices, steps: Sequence[int] = STEPS) -> float:
    """What raw tail, summaries and rewriting cost, step by step, when an activation comes at `band` raw tokens."""
    raw, cost = kept, 0.0
    for step in steps:
        cost += prices.read * raw + prices.write * step
        raw += step
        if raw > band:
            raw = kept
            cost += (prices.write - prices.read) * (kept + ADDED)
    return cost


@pytest.mark.parametrize("prices", [FIVE_MINUTES, HOUR, FLAT_WRITE])
@pytest.mark.parametrize("kept", [8_000, 20_000, 40_000])
def test_the_law_costs_within_five_percent_of_the_best_band_on_a_grid(kept: int, prices: CachePrices):
    law = cheapest_band(kept, ADDED, MEAN, prices)
    grid = [kept + 1_000 * 1.15**n for n in range(38)]
    best = min(cost_of(band, kept, prices) for band in grid)
    assert kept + 1_000 < law < grid[-1]
    assert cost_of(law, kept, prices) <= 1.05 * best
    assert cost_of(kept + 2_000, kept, prices) > 1.05 * best  # there is something to find


def test_the_law_reads_as_it_is_written():
    assert cheapest_band(20_000, 2_000, 1_470, FIVE_MINUTES) == 20_000 + math.sqrt(1.15 / 0.05 * 22_000 * 1_470)


def test_a_cache_that_costs_nothing_to_read_asks_for_no_activation_and_one_that_saves_nothing_for_many():
    assert cheapest_band(1_000, 100, 50, CachePrices(0.0, 1.25)) == math.inf
    assert cheapest_band(1_000, 100, 50, CachePrices(1.0, 1.0)) == 1_000
    assert cheapest_band(1_000, 100, 50, CachePrices(1.0, 0.5)) == 1_000


def economy(segment_max: int = 8_000, added: float = ADDED) -> Economy:
    return Economy(FIVE_MINUTES, segment_max, added)


def test_economy_activates_earlier_and_counts_its_own_header_besides():
    wide = room(180_000)
    thresholds = economy_thresholds(wide, economy(), MEAN)
    assert thresholds.raw == cheapest_band(wide.low, ADDED, MEAN, FIVE_MINUTES)
    assert thresholds.high(10_000) == 10_000 + thresholds.raw < wide.high
    assert Thresholds(wide).high(10_000) == wide.high


@given(st.integers(40, 2_000_000), st.integers(16, 20_000), st.floats(0, 10**6), st.floats(0, 0.3))
def test_the_band_is_never_above_high_water_and_leaves_an_activation_something_to_free(tokens, most, step, head):
    wide = room(tokens)
    thresholds = economy_thresholds(wide, economy(most), step)
    assert thresholds.high(head * tokens) <= wide.high
    assert thresholds.raw >= wide.low + max(2 * most, wide.min_free + most)
    assert thresholds.goal(0) == thresholds.high(0) - wide.min_free
