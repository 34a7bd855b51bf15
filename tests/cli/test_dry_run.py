"""`replay --dry-run`: what it shows and what it refuses. That it tells the truth is tested in `tests/providers`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import Runner, write_transcript

from summarizing_context.evaluation.demo import demo_session
from summarizing_context.evaluation.dry_run import forecast_files
from summarizing_context.summarizers.prices import load_prices
from tests.docs.checkout import run_python

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
        f"from summarizing_context.cli import main; sys.exit(main({['replay', str(logs), *ASK, '--json', '-']!r}))"
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


def test_a_table_shows_calls_tokens_price_and_what_was_assumed(run: Runner, logs: Path):
    ran = run("replay", logs, *ASK)
    assert ran.status == 0
    words = " ".join(ran.out.split())
    assert all(word in words for word in ("calls", "input", "total", "$0.0", "as of 2026-", "Assumed", "cap"))
    assert max(len(line) for line in ran.out.splitlines() if line.startswith(" ")) <= 100  # of tables


def test_without_a_known_price_calls_and_tokens_are_told_all_the_same(run: Runner, logs: Path):
    ran = run("replay", logs, *ASK[:-1], "llama-of-mine", "--json", "-")
    assert (ran.status, ran.document["price"], ran.document["total"]["estimated_cost"]) == (0, None, None)
    assert ran.document["total"]["input_tokens"] > 1_000
    assert "No price is known for" in run("replay", logs, *ASK[:-1], "llama-of-mine").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--dry-run",), "not paid by the token"), (("--dry-run", "--summarizer", "anthropic"), "--model")],
)
def test_what_has_no_price_at_all_is_refused(run: Runner, logs: Path, arguments: tuple[str, ...], said: str):
    ran = run("replay", logs, "--budget", "4k", *arguments)
    assert (ran.status, said in ran.err) == (2, True)


def test_ctrl_c_shows_the_forecast_of_the_files_that_were_read(run: Runner, logs: Path, monkeypatch):
    def read(paths, plan):
        yield next(forecast_files(paths, plan))
        raise KeyboardInterrupt

    monkeypatch.setattr("summarizing_context.evaluation.dry_run.forecast_files", read)
    ran = run("replay", logs, *ASK)
    assert ran.status == 130
    assert "a.jsonl" in ran.out
    assert "b.jsonl" not in ran.out
    assert "Stopped after 1 of 2 files" in ran.err
