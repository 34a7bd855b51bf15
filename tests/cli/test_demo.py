"""`demo`: the laws hold, at least five activations, and the beginning is still found."""

import json
import shlex
from pathlib import Path

from cli.commands import Runner


def test_the_demo_keeps_the_laws_and_finds_the_beginning(run: Runner, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("demo", "--keep", tmp_path / "demo.db", "--json", tmp_path / "demo.json")
    document = json.loads((tmp_path / "demo.json").read_text())
    assert (ran.status, document["model_calls"]) == (0, 0)
    assert document["activations"] == sum(document["activations_by_reason"].values()) >= 5
    assert document["max_view_tokens"] <= document["budget"] == 16_000
    assert document["history_tokens"] >= 150_000
    assert document["summaries"] > 10
    found = {answer["question"]: answer["found"] for answer in document["questions"]}
    assert found["What must not be done on main?"]
    assert sum(found.values()) >= 5
    assert sum(answer["without"] for answer in document["questions"]) < sum(found.values())
    assert document["sent_tokens"] * 5 < document["whole_history_sent_tokens"]
    assert 0 < document["dollars"] < document["whole_history_dollars"]

    # What a person reads: answers, costs, and what to type next.
    assert ran.err.startswith("Replaying the demo session: ")
    headings = ("What happened", "no view waits for a model", "still answers", "newest", "Never push to main")
    headings += ("What it saved",)
    assert all(words in ran.out for words in (*headings, "tokens, counted by "))
    assert "tokens are free for the next messages" in " ".join(ran.out.split())
    commands = [shlex.split(line) for line in ran.out.partition("What to type next\n")[2].splitlines()]
    assert [command[1] for command in commands] == ["status", "recall", "replay"]
    for command in commands[:2]:
        assert run(*command[1:]).status == 0
    table = [line for line in ran.out.splitlines() if line.startswith(" ") and str(tmp_path) not in line]
    assert max(map(len, table)) <= 80

    ran = run("demo", "--budget", 100)  # in which no view fits
    assert (ran.status, "give a larger --budget" in ran.out) == (3, True)
    assert not any(words in ran.out for words in ("the whole session fits", "What to type next"))
