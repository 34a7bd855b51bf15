"""What is made of runs: parameters, plans, rows, charts, verdicts, the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from evals.performance import report
from evals.performance.better import sentences
from evals.performance.charts import Bar, Range, bars, ranges, ticks
from evals.performance.managers import MANAGERS
from evals.performance.metrics import Figures
from evals.performance.pins import PINS
from evals.performance.plan import parts
from evals.performance.results import Results, read
from evals.performance.tables import from_file
from evals.performance.targets import told, verdicts
from evals.performance.tuning import search
from tests.performance.runs import drive, row


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    return drive("truncate-batch", tmp_path_factory.mktemp("run"))


def test_the_search_finds_the_parameter_that_gives_the_wanted_size():
    found = search(lambda keep: 3_000 + keep / 2, 8_000, low=100, high=12_000)
    assert found is not None
    assert abs(found.tokens / 8_000 - 1) <= 0.02


def test_the_search_takes_the_nearest_where_the_wanted_size_is_out_of_reach():
    assert search(lambda keep: keep, 50_000, low=100, high=12_000) == (12_000, 12_000)
    assert search(lambda keep: None, 50_000, low=100, high=12_000) is None


def test_every_run_of_the_plan_has_a_key_of_its_own_and_a_known_manager():
    asks = [ask for part in parts({"langchain": 4_000.0}).values() for ask in part.runs]
    assert len({ask.key for ask in asks}) == len(asks)
    assert {ask.manager for ask in asks} == set(MANAGERS)
    assert [ask for ask in asks if ask.tuned and ask.keep is None] == []


def test_every_peer_has_an_environment_with_pinned_versions():
    peers = {entry.environment for entry in MANAGERS.values()} - {""}
    assert peers | {"cliffcompaction"} == set(PINS)  # the latter is a proxy, and manages no messages
    assert [pin for pins in PINS.values() for pin in pins.packages if "==" not in pin] == []


def test_a_run_that_is_in_the_file_is_found_again_and_a_failed_one_only_until_a_retry(tmp_path: Path, figures: Figures):
    path = tmp_path / "runs.jsonl"
    good, bad = row("truncate-batch", figures), row("langmem", reason="needs another Python")
    for made in (good, bad):
        Results(path).keep(made)
    assert read(path) == [good, bad]
    again = Results(path, retry=True)
    assert again.get(good.ask) == good
    assert again.get(bad.ask) is None


def test_an_axis_has_round_ticks_within_its_ends():
    assert ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]
    assert ticks(0, 1, 4) == [0, 0.25, 0.5, 0.75, 1.0]


def test_a_chart_escapes_its_labels_and_cuts_one_bar_far_beyond_the_others():
    drawn = bars([Bar("<b>", (1.0,), "1"), Bar("x", (1.1,), "1.1"), Bar("far", (90.0,), "90")], width=400)
    assert "&lt;b&gt;" in drawn
    assert drawn.count("cut") == 1


def test_a_log_chart_stands_within_its_width():
    drawn = ranges([Range("a", (0.05, 3.0, 740.0), ours=True)], width=350, unit="ms", limit=50)
    assert max(float(x) for x in re.findall(r'cx="([\d.]+)"', drawn)) < 350


def test_a_target_is_met_missed_or_not_measured():
    by_name = {verdict.what: verdict for verdict in verdicts({"main": {"view_p50_ms": 0.3, "view_p99_ms": 0.9}})}
    assert [by_name[name].met for name in ("view p50", "view p99", "event-loop stall")] == [False, True, None]


def test_a_figure_is_told_with_as_many_places_as_it_deserves():
    assert [told(value, "ms") for value in (0.0312, 0.5, 12.345, 1234.5)] == [
        "0.031 ms",
        "0.50 ms",
        "12.3 ms",
        "1,234 ms",
    ]


def test_a_peer_that_is_ahead_is_named(figures: Figures):
    ahead = sentences([row("ours", {**figures, "view_p50_ms": 1.0}), row("langchain", {**figures, "view_p50_ms": 0.5})])
    assert len(ahead) == 1
    assert "view p50: langchain 0.50 ms; ours 1 ms" in ahead[0]


def test_a_table_made_elsewhere_is_shown_and_a_list_is_refused(tmp_path: Path):
    path = tmp_path / "more.json"
    path.write_text(json.dumps({"title": "More", "note": "n", "rows": [{"manager": "ours, x", "cost_a_step": 2}]}))
    table = from_file(path)
    assert (table.header, table.rows, table.ours) == (["manager", "cost a step"], [["ours, x", "2"]], {0})
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"more\.json: a table is an object"):
        from_file(path)


def test_the_page_holds_every_run_and_loads_nothing_from_elsewhere(tmp_path: Path, figures: Figures):
    folder = tmp_path / "2026-01-01"
    rows = [row("ours", figures), row("truncate-batch", figures), row("langmem", reason="needs <another> Python")]
    rows += [row("ours", figures, kind="cold"), row("ours", figures, mode="always")]
    for made in rows:
        Results(folder / "runs.jsonl").keep(made)
    (tmp_path / "strategies.json").write_text(json.dumps({"title": "Strategies told", "rows": [{"a": 1}]}))
    report.write(folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "needs &lt;another&gt; Python" in page
    assert "Strategies told" in page
    assert re.findall(r"https?://|src=|@import|url\(", page) == []
    assert len(page) < 1_000_000
    assert json.loads((folder / "report.json").read_text())["verdicts"]
    assert (folder / "summary.md").read_text().count("\n") == 5
