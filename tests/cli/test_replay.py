"""`replay`: tables, JSON, exit statuses, and what `--dry-run` forecasts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Runner, says, write_transcript

from summarizing_context.evaluation.demo import demo_session
from summarizing_context.models import load_models
from tests.docs.checkout import run_python

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
SHORT = [says("user", "hello"), says("assistant", "hi"), says("user", "bye"), says("assistant", "see you")]


def untimed(document: dict[str, Any]) -> str:
    rows = [document["total"], *document["totals"], *document["rows"]]
    return json.dumps([{name: row[name] for name in row if name not in document["timings"]} for row in rows])


def test_a_replay_shows_its_files_and_a_total(run: Runner, tmp_path, monkeypatch):
    monkeypatch.setenv("SUMMARIZING_CONTEXT_TOKEN_COUNTER", "estimate")
    write_transcript(tmp_path / "one.jsonl", SHORT)
    write_transcript(tmp_path / "two.jsonl", SHORT)
    ran = run("replay", tmp_path, "--budget", "1k,2k", "--budget", "4000")
    assert ran.status == 0
    words = ("one.jsonl", "two.jsonl", "total", "1,000", "4,000", "broken laws", "reused")
    assert all(word in ran.out for word in words)
    assert "Tokens are counted by estimate/3." in ran.out
    assert ran.err == "Replaying 2 files at 1,000, 2,000, 4,000 tokens.\n"


def test_json_is_the_same_on_a_second_run_whatever_the_number_of_jobs(run: Runner, tmp_path):
    for number in (1, 2):
        write_transcript(tmp_path / f"{number}.jsonl", [says("user", f"File {number}."), *demo_session(turns=3)])
    ran = [run("replay", tmp_path, "--budget", "3k", "--jobs", jobs, "--json", "-").document for jobs in (1, 2)]
    assert untimed(ran[0]) == untimed(ran[1])
    assert '"activations": 0' not in untimed(ran[0])


def test_a_bad_file_among_others_is_named_and_does_not_end_the_folder(run: Runner, tmp_path):
    bad = write_transcript(tmp_path / "a.jsonl", [*SHORT, {"content": "no role"}])
    write_transcript(tmp_path / "b.jsonl", SHORT)
    for command in (("replay",), ("import", "--store", tmp_path / "logs.db")):
        ran = run(*command, tmp_path, "--json", "-")
        assert (ran.status, f"not read: {bad}:5: " in ran.err) == (2, True)
        rows = ran.document["rows" if command == ("replay",) else "sessions"]
        assert [Path(row["file"]).name for row in rows] == ["b.jsonl"]
        assert [error.startswith(f"{bad}:5: ") for error in ran.document["unreadable"]] == [True]


def test_logs_of_clients_show_what_was_skipped(run: Runner):
    ran = run("replay", CLIENTS / "claude-code", CLIENTS / "codex")
    shown = " ".join(ran.out.split())
    assert (ran.status, "16,000" in shown) == (0, True)
    assert re.search(r"Skipped, being no messages: (\d+ [\w:-]+, ){6}and others", shown)


MODEL = "gpt-5.4-mini"
ASK = ("--budget", "4k", "--dry-run", "--summarizer", "openai", "--model", MODEL)


def test_a_dry_run_needs_no_key_no_sdk_and_no_network(tmp_path: Path):
    logs, cwd = tmp_path / "logs", tmp_path / "empty"
    logs.mkdir()
    cwd.mkdir()
    for name, turns in (("a", 5), ("b", 4)):
        write_transcript(logs / f"{name}.jsonl", demo_session(turns=turns))
    script = (
        "import sys, socket\n"
        "sys.modules['openai'] = sys.modules['anthropic'] = None\n"
        "socket.socket.connect = socket.getaddrinfo = None\n"
        "from summarizing_context.cli import main\n"
        f"sys.exit(main({['replay', str(logs), *ASK, '--jobs', '1', '--json', '-']!r}))"
    )
    done = run_python(["-c", script], cwd=cwd, env={"OPENAI_API_KEY": ""})
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout[done.stdout.index("{") :])
    total, price = document["total"], load_models().price_of(MODEL)
    assert [Path(row["file"]).name for row in document["rows"]] == ["a.jsonl", "b.jsonl"]
    assert document["calls"] == total["model_calls"] == sum(row["model_calls"] for row in document["rows"]) > 3
    cost = price.cost(document["input_tokens"], document["output_tokens"])
    assert document["estimated_cost"] == pytest.approx(cost, abs=1e-6)
    assert f"as of {price.as_of or price.source}" in document["priced"]
    assert list(cwd.iterdir()) == []
