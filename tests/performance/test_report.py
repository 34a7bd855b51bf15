"""What is made of runs: parameters, plans, rows, verdicts, the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.performance import report
from evals.performance.compare import search
from evals.performance.environments import PINS
from evals.performance.managers import MANAGERS
from evals.performance.metrics import Figures
from evals.performance.plan import parts
from evals.performance.report import sentences
from evals.performance.runs import Results, read
from evals.performance.tables import from_file
from evals.performance.targets import told, verdicts
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
    good, bad = row("truncate-batch", figures), row("langmem", reason="needs another | Python")
    for made in (good, bad):
        Results(path).keep(made)
    assert read(path) == [good, bad]
    again = Results(path, retry=True)
    assert again.get(good.ask) == good
    assert again.get(bad.ask) is None


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


def test_the_report_holds_every_run(tmp_path: Path, figures: Figures):
    folder = tmp_path / "2026-01-01"
    rows = [row("ours", figures), row("truncate-batch", figures), row("langmem", reason="needs another | Python")]
    rows += [row("ours", figures, kind="cold"), row("ours", figures, mode="always")]
    for made in rows:
        Results(folder / "runs.jsonl").keep(made)
    (tmp_path / "simulation.json").write_text(json.dumps({"title": "Simulation told", "rows": [{"a": 1}]}))
    report.write(folder)
    told = (folder / "report.md").read_text(encoding="utf-8")
    titles = ("In brief", "Numbers to reach", "Where a peer is better", "Cold load", "Simulation told", "Limits")
    assert [title for title in titles if f"## {title}\n" not in told] == []
    assert "| langmem | needs another / Python |" in told
    assert json.loads((folder / "report.json").read_text())["verdicts"]
