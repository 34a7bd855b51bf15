"""`demo`: the laws hold, at least five activations, and the beginning is still found."""

from __future__ import annotations

import pytest
from cli.commands import Runner

from summarizing_context.evaluation import demo as demonstration


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "_PACE", 0)


def test_the_demo_keeps_the_laws_and_finds_the_beginning(run: Runner):
    ran = run("demo", "--json", "-")
    document = ran.document
    assert ran.status == 0
    assert document["activations"] >= 5
    assert document["activations"] == sum(document["activations_by_reason"].values())
    assert document["max_view_tokens"] <= document["budget"] == 16_000
    assert document["history_tokens"] >= 150_000
    assert document["model_calls"] == 0
    assert document["summaries"] > 10
    found = {answer["question"]: answer["found"] for answer in document["questions"]}
    assert found["What is forbidden on main?"]
    assert sum(found.values()) >= 5
    assert sum(answer["without"] for answer in document["questions"]) < sum(found.values())
    assert document["sent_tokens"] * 5 < document["whole_history_sent_tokens"]
    assert 0 < document["dollars"] < document["whole_history_dollars"]


def test_the_demo_shows_answers_costs_and_what_to_type_next_in_80_columns(run: Runner, monkeypatch):
    short = demonstration.demo_session(turns=8)
    monkeypatch.setattr(demonstration, "demo_session", lambda: short)
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("demo", "--budget", "6k")
    assert ran.status == 0
    assert "tokens, counted by " in ran.out
    words = ("What happened", "waited for a model", "still answers", "newest", "Never push to main", "What it saved")
    assert all(word in ran.out for word in words)
    assert "tokens are free for the next messages" in " ".join(ran.out.split())
    commands = [line.strip() for line in ran.out.partition("What to type next\n")[2].splitlines()]
    assert [command.split()[1] for command in commands] == ["demo", "view", "recall", "replay"]
    assert max(len(line) for line in ran.out.splitlines() if line.startswith(" ")) <= 80  # of tables and commands
    assert ran.err.startswith("Replaying the demo session: ")


def test_the_demo_can_be_kept_and_looked_into(run: Runner, monkeypatch, tmp_path):
    short = demonstration.demo_session(turns=8)
    monkeypatch.setattr(demonstration, "demo_session", lambda: short)
    kept = tmp_path / "demo.db"
    assert f"view demo --budget 6k --explain --store {kept}" in run("demo", "--budget", "6k", "--keep", kept).out
    assert run("demo", "--budget", "6k", "--keep", kept, "--json", "-").document["session"] == "demo:2"
    assert run("view", "demo", "--store", kept, "--budget", "6k", "--explain").status == 0
