"""`summarizing-context eval`: transcripts of one's own, comparing runs, and suites with recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Runner
from tests.evaluation.real.test_scores import answered
from tests.evaluation.sessions import write
from tests.privacy import open_to_others


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two transcripts without any label."""
    return write(tmp_path_factory.mktemp("logs"), 1, 2)


def test_transcripts_without_labels_are_run_and_runs_are_compared(run: Runner, folder: Path, tmp_path: Path):
    ran = run("eval", "run", "--cases", folder, "--budget", "3k", "--jobs", 1, "--out", tmp_path / "a", "--json", "-")
    assert ran.status == 0
    assert set(ran.document["arms"]) == {"ours", "tail", "masking"}
    assert ran.document["probes"] > 0
    assert open_to_others(tmp_path) == []
    page = (tmp_path / "a" / "report.html").read_text("utf8")
    assert "session-1" in page
    assert "http" not in page.replace("http-equiv", "")
    again = run("eval", "run", "--cases", folder, "--budget", "3k", "--jobs", 1, "--out", tmp_path / "b")
    assert "Values needed later" in again.out
    assert (tmp_path / "a" / "report.html").read_bytes() == (tmp_path / "b" / "report.html").read_bytes()
    compared = run("eval", "compare", tmp_path / "a", tmp_path / "b", "--json", "-")
    assert compared.status == 0
    assert compared.document["verdict"] == "not surely different"


def test_a_worse_run_is_told_and_is_exit_status_1(run: Runner, folder: Path, tmp_path: Path):
    for name, budget in (("wide", "4k"), ("narrow", "2k")):
        place = ("--cases", folder, "--budget", budget, "--jobs", 1, "--out", tmp_path / name)
        assert run("eval", "run", *place).status == 0
    told = run("eval", "compare", tmp_path / "wide", tmp_path / "narrow", "--json", "-")
    assert (told.document["verdict"] == "worse") == (told.status == 1)
    assert run("eval", "compare", tmp_path / "wide", tmp_path / "nowhere").status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "run", "--cases"),
        ("eval", "record", "--model", "m", "--cassette", "none.jsonl", "--dry-run", "--cases"),
        ("tune", "--model", "m", "--cassette", "c.jsonl", "--gepa"),
        ("eval", "ask", "--model", "m", "--judge-model", "n", "--dry-run"),
    ],
)
def test_a_format_of_ones_own_choice_is_how_the_transcript_is_read(
    run: Runner, folder: Path, tmp_path: Path, arguments: tuple[str, ...]
):
    log = folder / "session-1.jsonl"
    ran = run(*arguments, log, "--format", "gemini", "--out", tmp_path / "out")
    assert ran.status == 2
    assert f"{log}:1: a content without a list of parts" in " ".join(ran.err.split())


def test_settings_of_ones_own_reach_the_run(run: Runner, folder: Path, tmp_path: Path):
    config = tmp_path / "mine.json"
    config.write_text('{"segment_target": 900, "segment_max": 1200, "segment_min": 300}', encoding="utf8")
    place = ("--cases", folder, "--budget", "3k", "--jobs", 1, "--config", config)
    assert run("eval", "run", *place, "--out", tmp_path / "report").status == 0
    settings = json.loads((tmp_path / "report" / "report.json").read_text("utf8"))["settings"]
    assert settings["segment_target"] == 900
    ran = run("eval", "run", *place, "--model", "m")
    assert (ran.status, "--cassette" in ran.err) == (2, True)
    assert run("eval", "run", *place, "--prompts", tmp_path / "nowhere").status == 2


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
    assert "Others: heating tail: not read." in ran.out
    report = json.loads((checkout / "eval-report" / "report.json").read_text())
    assert report["arms"]["ours"]["score"]["points"] == 4
    assert [shown["question"]["id"] for shown in report["questions"]] == ["q1", "q2", "q3", "q4", "q5"]
    assert open_to_others(checkout / "eval-report") == []


def test_a_bound_that_is_missed_is_status_1(run: Runner, checkout: Path):
    (checkout / "evals" / "suites" / "real.toml").write_text(SUITE.format(least=1.5))
    ran = run("eval", "run", "real", "--jobs", 1, "--arms", "ours,compact", "--json", "-")
    assert ran.status == 1
    assert ran.document["gates"][0]["result"] == "failed"
