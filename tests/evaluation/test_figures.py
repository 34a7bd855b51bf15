"""Counting and adding up."""

from __future__ import annotations

from collections import Counter

import pytest

from summarizing_context.evaluation.replay import LAW_FIGURES, TIMINGS, Tally, add_up, add_up_by_variant, percentile

NAMES = """file token_counter messages history_tokens views refused_views budget strategy max_view_tokens
mean_view_tokens over_budget_views tool_unsafe_views out_of_order_views newest_missing_views unseen_tokens activations
append_only_breaks prefix_hit uncached_tokens model_calls model_input_tokens model_output_tokens
stand_ins repairs skipped skipped_lines compactions view_p50_ms view_p99_ms activation_p99_ms"""


def tally(file: str = "a", budget: int = 100, **counts: object) -> Tally:
    return Tally(file=file, budget=budget, **counts)  # type: ignore[arg-type]


def test_the_figures_bear_their_published_names():
    figures = tally().figures()
    assert list(figures) == NAMES.split()
    assert set(TIMINGS) < set(figures)
    assert set(LAW_FIGURES) < set(figures)


def test_what_a_file_skipped_counts_once_at_however_many_budgets():
    tallies = [tally(budget=budget, skipped=Counter({"summary": 2})) for budget in (100, 200)]
    assert add_up([*tallies, tally("b", skipped=Counter({"mode": 1}))]).figures()["skipped"] == {
        "mode": 1,
        "summary": 2,
    }


def test_means_and_shares_come_from_sums():
    figures = tally(views=3, view_tokens=100, hit_tokens=75).figures()
    assert (figures["mean_view_tokens"], figures["prefix_hit"], figures["uncached_tokens"]) == (33.3, 0.75, 25)


def test_nothing_counted_is_all_zero():
    figures = tally().figures()
    assert (figures["mean_view_tokens"], figures["prefix_hit"], figures["view_p99_ms"]) == (0.0, 0.0, 0.0)


def test_a_total_adds_what_can_be_added_and_takes_the_largest_view():
    one = tally(views=1, view_tokens=10, max_view_tokens=10, repairs=Counter(shrunk=1), view_ms=[1.0])
    two = tally(views=3, view_tokens=50, max_view_tokens=30, repairs=Counter(shrunk=2, pin_note=1), view_ms=[3.0])
    total = add_up([one, two])
    assert (total.file, total.budget, total.views, total.max_view_tokens) == ("total", 100, 4, 30)
    assert total.figures()["mean_view_tokens"] == 15
    assert total.figures()["repairs"] == {"pin_note": 1, "shrunk": 3}
    assert total.figures()["view_p99_ms"] == 3.0


def test_sums_over_several_budgets_have_none():
    tallies = [tally(budget=8), tally(budget=16), tally("b", budget=8)]
    assert [(one.budget, one.file) for one in add_up_by_variant(tallies)] == [(8, "total"), (16, "total")]
    assert add_up(tallies).budget is None
    assert add_up([]).budget is None


@pytest.mark.parametrize("name", LAW_FIGURES)
def test_any_law_figure_above_zero_is_a_broken_law(name):
    assert tally().broken_laws() == []
    assert tally(**{name: 1}).broken_laws() == [name]


def test_percentiles_are_of_the_nearest_rank():
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 99) == 99.0
    assert percentile([5.0], 99) == 5.0
