"""`summarizing-context eval`: runs of one's own transcripts, comparing, linting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from summarizing_context.evaluation.cases.sources import write_case
from tests.cli.commands import Runner, write_transcript
from tests.evaluation.scored.building import generated
from tests.privacy import open_to_others


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One transcript without any label."""
    made = tmp_path_factory.mktemp("logs")
    write_transcript(made / "session.jsonl", generated(tokens=6_000).messages)
    return made


def test_transcripts_without_labels_are_run(run: Runner, folder: Path, tmp_path: Path):
    out = tmp_path / "report"
    arguments = (
        "eval",
        "run",
        "--cases",
        folder,
        "--budget",
        "3k",
        "--jobs",
        1,
        "--arms",
        "tail,nothing",
        "--out",
        out,
    )
    ran = run(*arguments, "--json", "-")
    assert ran.status == 0
    assert set(ran.document["table"]) == {"hierarchical", "tail", "nothing"}
    assert open_to_others(tmp_path) == []
    assert {path.name for path in out.iterdir()} == {"report.html", "report.json", "report.md", "timings.json"}
    assert run("eval", "compare", out, out).status == 0
    assert run("eval", "report", out, "--out", tmp_path / "again").status == 0
    assert (tmp_path / "again" / "report.html").read_bytes() == (out / "report.html").read_bytes()


def test_a_named_suite_needs_a_checkout(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    ran = run("eval", "run")
    assert ran.status == 2
    assert "--cases" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--arms", "best"), "there is no arm"),
        (("--cases", "x.jsonl", "--dataset", "locomo", "y"), "give one of them"),
        (("--cases", "missing.jsonl"), "no such file"),
        (("--cases", "one.jsonl", "two.jsonl"), "--cases two.jsonl"),
    ],
)
def test_wrong_arguments_are_explained(run: Runner, arguments: tuple[str, ...], words: str):
    ran = run("eval", "run", *arguments)
    assert ran.status == 2
    assert words in ran.err


def test_every_broken_file_is_told_before_anything_is_run(run: Runner, folder: Path, tmp_path: Path):
    for name, content in (("cut", '{"role": "us'), ("roleless", '{"content": "hi"}')):
        (tmp_path / f"{name}.jsonl").write_text(content, encoding="utf8")
    ran = run("eval", "run", "--cases", folder, "--cases", tmp_path, "--out", tmp_path / "report")
    assert ran.status == 2
    assert "cut.jsonl:1: not JSON" in ran.err
    assert "1 more cannot be used" in ran.err
    assert "roleless.jsonl:1" in ran.err
    assert "Running" not in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "run", "--cases"),
        (
            "eval",
            "record",
            "--summarizer",
            "openai",
            "--model",
            "m",
            "--cassette",
            "none.jsonl",
            "--dry-run",
            "--cases",
        ),
        ("tune", "--cases"),
        ("eval", "ask", "--model", "m", "--judge-model", "n", "--dry-run"),
    ],
)
def test_a_format_of_ones_own_choice_is_how_the_transcript_is_read(
    run: Runner, folder: Path, tmp_path: Path, arguments: tuple[str, ...]
):
    log = folder / "session.jsonl"
    ran = run(*arguments, log, "--format", "gemini", "--out", tmp_path / "out")
    assert ran.status == 2
    assert f"{log}:1: a content without a list of parts" in " ".join(ran.err.split())


def test_a_run_that_measures_nothing_says_why(run: Runner, tmp_path: Path):
    write_transcript(tmp_path / "short.jsonl", [{"role": "user", "content": "hi"}])
    ran = run("eval", "run", "--cases", tmp_path, "--arms", "tail", "--out", tmp_path / "report")
    assert ran.status == 0
    assert "Nothing was measured" in ran.out
    assert "Nothing was measured" in (tmp_path / "report" / "report.html").read_text("utf8")


def test_lint_tells_what_is_wrong_and_seals_what_is_sound(run: Runner, tmp_path: Path):
    path = write_case(generated(tokens=6_000), tmp_path)
    assert run("eval", "lint", tmp_path).status == 0
    sidecar = tmp_path / f"{path.name.removesuffix('.jsonl')}.probes.json"
    sidecar.write_text(sidecar.read_text("utf8").replace('"title": "', '"title": "another '), encoding="utf8")
    assert "hash does not fit" in run("eval", "lint", tmp_path).err
    assert run("eval", "lint", tmp_path, "--seal").status == 0
    assert run("eval", "lint", tmp_path).status == 0


def test_settings_of_ones_own_reach_the_run(run: Runner, folder: Path, tmp_path: Path):
    config = tmp_path / "mine.json"
    config.write_text('{"segment_target": 900, "segment_max": 1200, "segment_min": 300}', encoding="utf8")
    place = ("--cases", folder, "--budget", "3k", "--jobs", 1, "--arms", "tail", "--config", config)
    assert run("eval", "run", *place, "--out", tmp_path / "report").status == 0
    settings = json.loads((tmp_path / "report" / "report.json").read_text("utf8"))["settings"]
    assert settings["segment_target"] == 900
    ran = run("eval", "run", *place, "--summarizer", "openai", "--model", "m")
    assert (ran.status, "--cassette" in ran.err) == (2, True)
    assert run("eval", "run", *place, "--prompts", tmp_path / "nowhere").status == 2


def test_a_model_of_ones_own_is_forecast_as_summarizer(run: Runner, folder: Path, tmp_path: Path):
    model = ("--summarizer", "openai", "--model", "gpt-5.4-mini", "--cassette", tmp_path / "c.jsonl")
    ran = run(
        "eval", "record", "--cases", folder, "--budget", "3k", "--arms", "tail", *model, "--dry-run", "--json", "-"
    )
    assert ran.status == 0
    assert ran.document["by_kind"]["segment"] > 0
    assert ran.document["estimated_cost"] > 0
    assert not (tmp_path / "c.jsonl").exists()


@pytest.mark.parametrize("command", [("eval", "run", "default"), ("tune", "tuning_start")])
def test_a_suite_has_its_own_settings(run: Runner, tmp_path: Path, command: tuple[str, ...]):
    ran = run(*command, "--config", tmp_path / "mine.toml")
    assert ran.status == 2
    assert "a suite has its own" in ran.err
