"""`eval run` and `eval record` of a suite with recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Runner
from tests.evaluation.real.test_scores import answered
from tests.privacy import open_to_others

SUITE = 'name = "real"\nclaim = "A claim."\nrecording = "data"\n[[bounds]]\nat_least = {least}\n'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    answered(tmp_path)
    (tmp_path / "evals" / "suites").mkdir(parents=True)
    (tmp_path / "evals" / "suites" / "real.toml").write_text(SUITE.format(least=0.9))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def test_a_recording_is_replayed_with_tables_and_reports(run: Runner, checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact,tail")
    assert ran.status == 0
    assert max(map(len, ran.out.splitlines()[:-1])) <= 80
    assert "For 2 of 3 views the answers belong to exactly this view." in ran.out
    assert "No answers are recorded for (1): heating tail." in ran.out
    report = json.loads((checkout / "eval-report" / "report.json").read_text())
    assert report["arms"]["ours"]["score"]["points"] == 4
    assert [shown["question"]["id"] for shown in report["questions"]] == ["q1", "q2", "q3", "q4", "q5"]
    assert open_to_others(checkout / "eval-report") == []


def test_a_bound_that_is_missed_is_status_1(run: Runner, checkout: Path):
    (checkout / "evals" / "suites" / "real.toml").write_text(SUITE.format(least=1.5))
    ran = run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact", "--json", "-")
    assert ran.status == 1
    assert ran.document["gates"][0]["result"] == "failed"


def test_equal_runs_write_equal_bytes(run: Runner, checkout: Path):
    for out in ("first", "second"):
        run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact", "--out", checkout / out)
    for name in ("report.json", "report.html"):
        assert (checkout / "first" / name).read_bytes() == (checkout / "second" / name).read_bytes()


def test_a_forecast_needs_no_key_and_sends_nothing(run: Runner, checkout: Path):
    command = (
        "eval",
        "record",
        "real",
        "--reader",
        "openai",
        "--reader-model",
        "gpt-5.4-mini",
        "--arms",
        "ours,compact,tail",
    )
    ran = run(*command, "--dry-run", "--json", "-")
    assert ran.status == 0
    assert ran.document["by_kind"] == {"reader": 1, "judge": 1}
    assert not (checkout / "evals" / "cassettes").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "real", "--arms", "hierarchical"), "there is no arm 'hierarchical'; there are ours"),
        (("record", "real"), "--reader-model"),
        (("record", "real", "--reader", "oracle", "--reader-model", "m"), "openai and anthropic"),
    ],
)
def test_wrong_arguments_are_told(run: Runner, checkout: Path, arguments: tuple[str, ...], words: str):
    ran = run("eval", *arguments)
    assert ran.status == 2
    assert words in ran.err
