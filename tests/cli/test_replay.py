"""`replay`: tables, JSON, exit statuses, and what `--dry-run` forecasts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Runner, says, write_transcript

from summarizing_context.evaluation.demo import demo_session
from summarizing_context.summarizers.prices import load_prices
from tests.docs.checkout import run_python
from tests.exact_counts import exact_counter

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
SHORT = [says("user", "hello"), says("assistant", "hi"), says("user", "bye"), says("assistant", "see you")]
TALL_SYSTEM = [says("system", "word " * 400), says("user", "a"), says("assistant", "b")]


def untimed(document: dict[str, Any]) -> str:
    rows = [document["total"], *document["totals"], *document["rows"]]
    return json.dumps([{name: row[name] for name in row if name not in document["timings"]} for row in rows])


def test_a_replay_shows_its_files_and_a_total(run: Runner, tmp_path):
    write_transcript(tmp_path / "one.jsonl", SHORT)
    write_transcript(tmp_path / "two.jsonl", SHORT)
    ran = run("replay", tmp_path, "--budget", "1k,2k", "--budget", "4000")
    assert ran.status == 0
    assert all(word in ran.out for word in ("one.jsonl", "two.jsonl", "total", "1,000", "4,000", "unsafe", "reused"))
    assert ran.err == "Replaying 2 files at 1,000, 2,000, 4,000 tokens.\n"


@pytest.mark.parametrize(("asked", "name"), [("estimate", "estimate/3"), ("auto", "tiktoken/o200k_base")])
def test_a_replay_says_which_counter_it_uses(run: Runner, tmp_path, monkeypatch, asked: str, name: str):
    if asked == "auto":
        exact_counter()
    monkeypatch.setenv("SUMMARIZING_CONTEXT_TOKEN_COUNTER", asked)
    path = write_transcript(tmp_path / "one.jsonl", SHORT)
    ran = run("replay", path, "--budget", "1k,2k", "--json", tmp_path / "figures.json")
    assert f"Tokens are counted by {name}." in ran.out
    document = json.loads((tmp_path / "figures.json").read_text())
    assert {row["token_counter"] for row in (*document["rows"], *document["totals"], document["total"])} == {name}


def test_json_is_the_same_on_a_second_run_whatever_the_number_of_jobs(run: Runner, tmp_path):
    for number in (1, 2):
        first = {"role": "user", "content": f"File {number}."}
        write_transcript(tmp_path / f"{number}.jsonl", [first, *demo_session(turns=6)])
    out = tmp_path / "figures.json"
    found = []
    for jobs in (1, 2):
        assert run("replay", tmp_path, "--budget", "4k", "--jobs", jobs, "--json", out).status == 0
        found.append(untimed(json.loads(out.read_text())))
    assert found[0] == found[1]
    assert '"activations": 0' not in found[0]


def test_a_refused_view_ends_with_3(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "one.jsonl", TALL_SYSTEM)
    ran = run("replay", path, "--budget", "100,4k", "--json", "-")
    assert ran.status == 3
    assert [row["refused_views"] for row in ran.document["rows"]] == [1, 0]


def test_a_bad_file_among_others_is_named_and_does_not_end_the_folder(run: Runner, tmp_path):
    bad = write_transcript(tmp_path / "a.jsonl", [*SHORT, {"content": "no role"}])
    write_transcript(tmp_path / "b.jsonl", SHORT)
    ran = run("replay", tmp_path, "--budget", "1k", "--json", tmp_path / "figures.json")
    assert ran.status == 2
    assert "b.jsonl" in ran.out
    assert f"not read: {bad}:5: " in "".join(ran.err.split("\n"))
    document = json.loads((tmp_path / "figures.json").read_text())
    assert [Path(row["file"]).name for row in document["rows"]] == ["b.jsonl"]
    assert [error.startswith(f"{bad}:5: ") for error in document["unreadable"]] == [True]


def test_the_log_of_a_client_shows_its_compaction_beside_our_view_and_what_was_skipped(run: Runner):
    ran = run("replay", CLIENTS / "codex", "--budget", "1k,2k")
    assert ran.status == 0
    assert "Where the client compacted its own context" in ran.out
    assert [ran.out.count(size) for size in ("70,040", "6,116")] == [2, 2]
    assert "11 event_msg:token_count" in " ".join(ran.out.split())


def test_a_first_replay_needs_no_budget_and_says_what_to_type_next(run: Runner):
    ran = run("replay", CLIENTS / "claude-code", CLIENTS / "codex")
    assert ran.status == 0
    assert "32,000" in ran.out
    assert "summarizing-context import PATH --store logs.db" in ran.out
    words = " ".join(ran.out.split())
    assert re.search(r"Skipped, being no messages: (\d+ [\w:-]+, ){6}and others", words)


MODEL = "gpt-5.4-mini"
ASK = ("--budget", "4k", "--dry-run", "--summarizer", "openai", "--model", MODEL)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_transcript(folder / "a.jsonl", demo_session(turns=8))
    return write_transcript(folder / "b.jsonl", demo_session(turns=6)).parent


def test_a_dry_run_needs_no_key_no_sdk_and_no_network(logs: Path, tmp_path: Path):
    script = (
        "import sys, socket\n"
        "sys.modules['openai'] = sys.modules['anthropic'] = None\n"
        "socket.socket.connect = socket.getaddrinfo = None\n"
        "from summarizing_context.cli import main\n"
        f"sys.exit(main({['replay', str(logs), *ASK, '--jobs', '1', '--json', '-']!r}))"
    )
    done = run_python(["-c", script], cwd=tmp_path, env={"OPENAI_API_KEY": ""})
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout[done.stdout.index("{") :])
    total, price = document["total"], load_prices().models[MODEL]
    assert [Path(row["file"]).name for row in document["rows"]] == ["a.jsonl", "b.jsonl"]
    assert total["calls"] == sum(row["calls"] for row in document["rows"]) > 3
    assert total["estimated_cost"] == pytest.approx(price.cost(total["input_tokens"], total["output_tokens"]), abs=1e-6)
    assert document["price"]["as_of"] == str(price.as_of)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("replay", "--jobs", 1), ("replay", *ASK), ("import", "--store", "logs.db")])
def test_a_command_that_is_stopped_shows_what_is_done(run: Runner, tmp_path, monkeypatch, words: tuple[object, ...]):
    (tmp_path / "logs").mkdir()
    for name in "abc":
        write_transcript(tmp_path / "logs" / f"{name}.jsonl", SHORT)
    opened = Path.open

    def stopping(path: Path, *given: Any, **named: Any) -> Any:
        if path.name == "c.jsonl":
            raise KeyboardInterrupt
        return opened(path, *given, **named)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "open", stopping)
    ran = run(*words, "logs", "--json", "-")
    assert ran.status == 130
    assert "Stopped after 2 of 3 files" in " ".join(ran.err.split())
    rows = ran.document["rows" if words[0] == "replay" else "sessions"]
    assert [Path(row["file"]).name for row in rows] == ["a.jsonl", "b.jsonl"]
