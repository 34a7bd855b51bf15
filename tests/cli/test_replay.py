"""`replay`: tables, JSON, exit statuses, and what `--dry-run` forecasts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Runner, says, write_transcript

from summarizing_context.evaluation.demo import demo_session
from summarizing_context.evaluation.replay import forecast_files, replay_file
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


@pytest.mark.parametrize(("asked", "name"), [("estimate", "estimate/2"), ("auto", "tiktoken/o200k_base")])
def test_a_replay_says_which_counter_it_uses(run: Runner, tmp_path, monkeypatch, asked: str, name: str):
    if asked == "auto":
        exact_counter()
    monkeypatch.setenv("SUMMARIZING_CONTEXT_TOKEN_COUNTER", asked)
    path = write_transcript(tmp_path / "one.jsonl", SHORT)
    ran = run("replay", path, "--budget", "1k,2k", "--json", tmp_path / "figures.json")
    assert f"Tokens are counted by {name}." in ran.out
    document = json.loads((tmp_path / "figures.json").read_text())
    assert {row["token_counter"] for row in (*document["rows"], *document["totals"], document["total"])} == {name}


def test_the_tables_fit_into_80_columns(run: Runner, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = write_transcript(tmp_path / "one.jsonl", demo_session(turns=6))
    narrow = run("replay", path, "--budget", "4k", "--strategy", "hierarchical,truncate").out
    titles = "file strategy budget views over unsafe order hidden unseen breaks mean activ. reused uncached ms p99"
    assert all(title in narrow for title in (*titles.split(), "history", "calls", "input", "output"))
    assert "\u2026" not in narrow
    assert max(len(line) for line in narrow.splitlines() if line.startswith(" ")) <= 80  # of tables


def test_several_strategies_have_a_row_and_a_total_each(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "one.jsonl", demo_session(turns=8))
    given = ("--budget", "4k", "--strategy", "hierarchical,summarization", "--strategy", "truncate")
    document = run("replay", path, *given, "--json", "-").document
    wanted = [("hierarchical", 4_000), ("summarize", 4_000), ("truncate", 4_000)]
    assert [(row["strategy"], row["budget"]) for row in document["rows"]] == wanted
    assert [(row["strategy"], row["budget"]) for row in document["totals"]] == wanted
    assert document["total"]["strategy"] is None
    single = run("replay", path, "--budget", "4k", "--strategy", "truncate", "--json", "-").document
    assert json.loads(untimed(single))[0] == json.loads(untimed(document))[3]


def test_json_has_a_row_for_each_file_and_budget(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "one.jsonl", SHORT)
    document = run("replay", path, "--budget", "1k,2k", "--json", "-").document
    assert [(row["file"], row["budget"], row["views"]) for row in document["rows"]] == [
        (str(path), 1_000, 2),
        (str(path), 2_000, 2),
    ]
    assert [row["budget"] for row in document["totals"]] == [1_000, 2_000]
    assert (document["total"]["views"], document["total"]["budget"]) == (4, None)
    assert document["timings"] == ["view_p50_ms", "view_p99_ms", "activation_p99_ms"]


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


def test_a_live_replay_keeps_the_laws_too(run: Runner, tmp_path):
    path = write_transcript(tmp_path / "one.jsonl", demo_session(turns=8))
    ran = run("replay", path, "--budget", "4k", "--live", "--json", "-")
    assert (ran.status, ran.document["total"]["activations"] > 0) == (0, True)


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
    assert re.search(r"Skipped, being no messages: (\d+ [\w:-]+, ){6}and \d+ of \d+ other kinds", words)


def test_many_files_show_only_those_with_something_to_say(run: Runner, tmp_path):
    for n in range(25):
        write_transcript(tmp_path / f"fine-{n}.jsonl", SHORT)
    write_transcript(tmp_path / "refused.jsonl", TALL_SYSTEM)
    ran = run("replay", tmp_path, "--budget", "100", "--jobs", 1)
    assert ran.status == 3
    assert "refused.jsonl" in ran.out
    assert "fine-1.jsonl" not in ran.out
    assert "25 rows in which every law held are not shown" in ran.out


def test_ctrl_c_shows_the_figures_of_the_files_that_were_replayed(run: Runner, tmp_path, monkeypatch):
    def replayed(paths, plan, *, jobs):
        yield [replay_file(paths[0], plan)[0]]
        raise KeyboardInterrupt

    monkeypatch.setattr("summarizing_context.evaluation.replay.replay_files", replayed)
    for name in ("one.jsonl", "two.jsonl"):
        write_transcript(tmp_path / name, SHORT)
    ran = run("replay", tmp_path, "--budget", "1k")
    assert ran.status == 130
    assert "one.jsonl" in ran.out
    assert "two.jsonl" not in ran.out
    assert "Stopped after 1 of 2 files" in ran.err


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


def test_ctrl_c_shows_the_forecast_of_the_files_that_were_read(run: Runner, logs: Path, monkeypatch):
    def read(paths, plan):
        yield next(forecast_files(paths, plan))
        raise KeyboardInterrupt

    monkeypatch.setattr("summarizing_context.evaluation.replay.forecast_files", read)
    ran = run("replay", logs, *ASK)
    assert ran.status == 130
    assert "a.jsonl" in ran.out
    assert "b.jsonl" not in ran.out
    assert "Stopped after 1 of 2 files" in ran.err
