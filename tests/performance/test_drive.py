"""Tiny runs: what is measured of a manager that works, and of summarizers that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.performance.runs import drive


def test_our_run_keeps_every_law_and_reads_all_that_it_evicts(tmp_path: Path):
    figures = drive("ours", tmp_path)
    assert figures["prefix_breaks"] > 0
    assert figures["model_calls"] > 0
    assert [figures[name] for name in ("unsafe_views", "over_budget_views", "view_errors", "hung_views")] == [0] * 4
    assert figures["notes"]["unseen_tokens"] == 0
    assert set(figures["cost_per_step"]) == {
        "5-minute cache",
        "automatic, read 0.10",
        "automatic, read 0.50",
        "no cache",
    }


@pytest.mark.parametrize("mode", ["always", "never", "burst"])
def test_a_summarizer_that_is_down_costs_us_no_view(mode, tmp_path: Path):
    figures = drive("ours", tmp_path, mode=mode)
    assert (figures["view_errors"], figures["hung_views"], figures["over_budget_views"]) == (0, 0, 0)
    assert figures["stopped"] == ""


def test_truncation_evicts_text_that_nothing_has_read(tmp_path: Path):
    figures = drive("truncate-batch", tmp_path)
    assert (figures["evicted_unread"], figures["evicted_lost"], figures["model_calls"]) == (1.0, 1.0, 0)


def test_a_smaller_share_that_truncation_keeps_makes_smaller_views(tmp_path: Path):
    sizes = [drive("truncate-batch", tmp_path, keep=keep)["mean_view_tokens"] for keep in (0.2, 0.9)]
    assert sizes[0] < sizes[1]


def test_a_cold_load_gives_one_view_and_inputs_of_bounded_size(tmp_path: Path):
    figures = drive("ours", tmp_path, kind="cold", turns=40, latency=0.0)
    assert (figures["views"], figures["over_budget_views"]) == (1, 0)
    assert 0 < figures["largest_model_input"] <= 8_500


def test_a_session_opened_again_calls_no_model_and_a_copy_asks_for_its_rules_alone(tmp_path: Path):
    figures = drive("ours", tmp_path, kind="reopen", turns=30)
    assert figures["model_calls"] > 0
    assert (figures["reopen_calls"], figures["fork_calls"]) == (0, 1)
