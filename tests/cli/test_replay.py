"""`replay`, `import` and `demo`: tables, JSON, exit statuses, and what `--dry-run` forecasts."""

import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cli.commands import Runner, says, write_transcript

from summarizing_context.evaluation import replay
from summarizing_context.evaluation.replay import LAW_FIGURES, demo_questions, demo_session, find_answers
from summarizing_context.models import load_models
from tests.docs.checkout import run_python

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
SHORT = [says("user", "hello"), says("assistant", "hi"), says("user", "bye"), says("assistant", "see you")]
MODEL = "gpt-5.4-mini"
ASK = ("--budget", "4k", "--dry-run", "--summarizer", "openai", "--model", MODEL)
FIGURES = """file token_counter messages history_tokens views refused_views budget strategy max_view_tokens
mean_view_tokens over_budget_views tool_unsafe_views out_of_order_views newest_missing_views unseen_tokens activations
append_only_breaks prefix_hit uncached_tokens model_calls model_input_tokens model_output_tokens
stand_ins repairs skipped skipped_lines view_p50_ms view_p99_ms activation_p99_ms"""


def test_a_replay_shows_its_files_and_a_total(run: Runner, tmp_path, monkeypatch):
    monkeypatch.setenv("SUMMARIZING_CONTEXT_TOKEN_COUNTER", "estimate")
    write_transcript(tmp_path / "one.jsonl", SHORT)
    write_transcript(tmp_path / "two.jsonl", SHORT)
    ran = run("replay", tmp_path, "--budget", "1k,2k", "--budget", "4000", "--jobs", 1)
    assert ran.status == 0
    words = ("one.jsonl", "two.jsonl", "total", "1,000", "4,000", "broken laws", "reused")
    assert all(word in ran.out for word in words)
    assert "Tokens are counted by estimate/3." in ran.out
    assert ran.err == "Replaying 2 files at 1,000, 2,000, 4,000 tokens.\n"


def test_json_has_the_published_figures_and_is_the_same_whatever_the_number_of_jobs(run: Runner, tmp_path):
    log = demo_session(turns=3)
    for number in (1, 2):
        write_transcript(tmp_path / f"{number}.jsonl", [says("user", f"File {number}."), *log])
    documents = [run("replay", tmp_path, "--budget", "3k", "--jobs", jobs, "--json", "-").document for jobs in (1, 2)]
    played: list[list[dict[str, Any]]] = [[one["total"], *one["totals"], *one["rows"]] for one in documents]
    for total, *_, one, two in played:
        assert set(one) == set(FIGURES.split())
        assert one["activations"] > 0
        assert {row[name] for row in (total, one, two) for name in LAW_FIGURES} == {0}
        assert one["views"] == sum(message["role"] == "assistant" for message in log)
        assert (one["messages"], total["views"]) == (len(log) + 1, one["views"] + two["views"])
        assert total["max_view_tokens"] == max(one["max_view_tokens"], two["max_view_tokens"]) <= total["budget"]
        mean = sum(row["mean_view_tokens"] * row["views"] for row in (one, two)) / total["views"]
        assert total["mean_view_tokens"] == pytest.approx(mean, abs=0.11)
    times = documents[0]["timings"]
    first, second = ([{name: row[name] for name in row if name not in times} for row in rows] for rows in played)
    assert first == second


def test_lines_that_are_no_messages_are_named_and_a_bad_file_does_not_end_the_folder(run: Runner, tmp_path):
    bad = write_transcript(tmp_path / "a.jsonl", [*SHORT, {"content": "no role"}])
    write_transcript(tmp_path / "b.jsonl", SHORT)
    store = ("--store", tmp_path / "logs.db")
    for command, listed in ((("replay",), "rows"), (("import", *store), "sessions")):
        ran = run(*command, tmp_path, "--json", "-")
        assert (ran.status, f"not read: {bad}:5: " in ran.err) == (2, True)
        assert [Path(row["file"]).name for row in ran.document[listed]] == ["b.jsonl"]
        assert [error.startswith(f"{bad}:5: ") for error in ran.document["unreadable"]] == [True]
    path = write_transcript(tmp_path / "log.jsonl", [says("user", "hello"), *demo_session(turns=2)])
    path.write_bytes(path.read_bytes().replace(b"\n", b'\n{"role": "us\n', 1))
    commands: dict[str, tuple[object, ...]] = {"import": store, "replay": ("--budget", "4k"), "replay --dry-run": ASK}
    commands |= {
        "eval run": ("--budget", "4k", "--jobs", 1, "--out", tmp_path / "report"),
        "prompts render segment": (),
    }
    for command, options in commands.items():
        ran = run(*command.split(), path, *options)
        assert ran.status == 0, ran.err
        assert f"skipped: {path}:2: not JSON" in "".join(ran.err.split("\n")), command


OFFLINE = """
import sys, socket
sys.modules['openai'] = sys.modules['anthropic'] = None
socket.socket.connect = socket.getaddrinfo = None
from summarizing_context.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_dry_run_needs_no_key_no_sdk_and_no_network(tmp_path: Path):
    logs, cwd = tmp_path / "logs", tmp_path / "empty"
    logs.mkdir()
    cwd.mkdir()
    for name, turns in (("a", 3), ("b", 2)):
        write_transcript(logs / f"{name}.jsonl", demo_session(turns=turns))
    words = ["replay", str(logs), *ASK, "--jobs", "1", "--json", "-"]
    done = run_python(["-c", OFFLINE, *words], cwd=cwd, env={"OPENAI_API_KEY": ""})
    assert done.returncode == 0, done.stdout
    document = json.loads(done.stdout[done.stdout.index("{") :])
    price = load_models().price_of(MODEL)
    assert [Path(row["file"]).name for row in document["rows"]] == ["a.jsonl", "b.jsonl"]
    calls = sum(row["model_calls"] for row in document["rows"])
    assert document["calls"] == document["total"]["model_calls"] == calls > 3
    cost = price.cost(document["input_tokens"], document["output_tokens"])
    assert document["estimated_cost"] == pytest.approx(cost, abs=1e-6)
    assert f"as of {price.as_of or price.source}" in document["priced"]
    assert list(cwd.iterdir()) == []


def test_the_sessions_of_a_client_go_into_a_store_and_can_be_searched(run: Runner, tmp_path):
    ran = run("import", CLIENTS / "codex", "--store", tmp_path / "logs.db", "--json", "-")
    assert (ran.status, ran.err) == (0, "Importing 1 file.\n")
    (row,) = ran.document["sessions"]
    assert (row["format"], row["messages"], row["added"]) == ("codex", 19, 19)
    assert ran.document["skipped"]["session_meta"] == 1
    found = run("search", row["session_id"], "negative", "--store", tmp_path / "logs.db")
    assert "A test of negative numbers is still" in " ".join(found.out.split())
    for command in (("import", "--store", tmp_path / "more.db"), ("replay",)):  # what is no message is counted
        shown = run(*command, CLIENTS / "claude-code", CLIENTS / "codex").out
        assert re.search(r"Skipped, being no messages: (\d+ [\w:-]+, ){6}and others", " ".join(shown.split()))


def test_a_second_import_adds_what_is_new_and_keeps_another_session_of_the_name_apart(run, tmp_path, monkeypatch):
    said = [says("user" if at % 2 == 0 else "assistant", f"word {at} " * 900) for at in range(120)]
    store, path = ("--store", tmp_path / "logs.db"), tmp_path / "log.jsonl"

    def imported(messages: list[dict[str, Any]]) -> tuple[str, int, int]:
        (row,) = run("import", write_transcript(path, messages), *store, "--json", "-").document["sessions"]
        return row["session_id"], row["messages"], row["added"]

    with monkeypatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")  # as on a terminal, where progress is shown
        ran = run("import", write_transcript(path, said), *store)
    assert (ran.status, all(words in ran.err for words in ("0/1", "-:--:--", "120 new messages"))) == (0, True)
    shown = run("status", "log", *store).out  # before any request
    assert all(words in shown for words in ("none yet; the next view would be the first", "made by"))
    assert run("search", "log", "word", *store).out.rstrip().endswith("more words find others.")
    assert "more words" not in run("search", "log", "none", *store).out
    assert imported([*said, says("user", "more")]) == ("log", 121, 1)
    assert imported([says("user", "something else")]) == ("log:2", 1, 1)
    listed = run("sessions", "list", *store).out
    assert [name in listed for name in ("log ", "log:2")] == [True, True]


def test_the_demo_keeps_the_laws_and_finds_the_beginning(run: Runner, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = run("demo", "--keep", tmp_path / "demo.db", "--json", tmp_path / "demo.json")
    document = json.loads((tmp_path / "demo.json").read_text())
    assert (ran.status, document["model_calls"]) == (0, 0)
    assert document["activations"] == sum(document["activations_by_reason"].values()) >= 5
    assert document["max_view_tokens"] <= document["budget"] == 16_000
    assert (document["history_tokens"] >= 150_000, document["summaries"] > 10) == (True, True)
    found = {answer["question"]: answer["found"] for answer in document["questions"]}
    assert found["What must not be done on main?"]
    assert sum(found.values()) >= 5
    assert sum(answer["without"] for answer in document["questions"]) < sum(found.values())
    assert document["sent_tokens"] * 5 < document["whole_history_sent_tokens"]
    assert 0 < document["dollars"] < document["whole_history_dollars"]
    # What a person reads: answers, costs, and what to type next.
    assert ran.err.startswith("Replaying the demo session: ")
    headings = ("What happened", "no view waits for a model", "still answers", "newest", "Never push to main")
    headings += ("What it saved", "tokens, counted by ", "tokens are free for the next messages")
    assert all(words in " ".join(ran.out.split()) for words in headings)
    commands = [shlex.split(line)[1:] for line in ran.out.partition("What to type next\n")[2].splitlines()]
    assert [command[0] for command in commands] == ["status", "recall", "replay"]
    assert [run(*command).status for command in commands[:2]] == [0, 0]
    table = [line for line in ran.out.splitlines() if line.startswith(" ") and str(tmp_path) not in line]
    assert max(map(len, table)) <= 80
    monkeypatch.setattr(replay, "demo_session", partial(demo_session, turns=2))
    ran = run("demo", "--budget", 100)  # in which no view fits
    assert (ran.status, "give a larger --budget" in ran.out) == (3, True)
    assert not any(words in ran.out for words in ("the whole session fits", "What to type next"))


WRONG = [  # one for each question, in their order
    "I commit on feat/berth-rules and do not push.",
    "Now the tests.",
    "Leave merging to Maren.",
    "Before a deployment I test. I call you. The harbour office is near.",
    "edited config/quayside.toml",
    "looked at quayside/store/sqlite.py",
    "The API listens on port 8080 at the moment.",
    "E   ValueError: hour must be in 0..23",
    "also named roll_over_midnight, clock.py",
]


def test_a_sentence_that_means_something_else_is_no_answer():
    messages, questions = demo_session(), demo_questions()
    assert all(one["found"] for one in find_answers(questions, [messages] * len(questions), []))
    assert all(one["without"] for one in find_answers(questions, [[]] * len(questions), messages))
    for question, sentence in zip(questions, WRONG, strict=True):
        view = [says("assistant", sentence)]
        (shown,), (newest,) = find_answers([question], [view], []), find_answers([question], [[]], view)
        assert (shown["found"], newest["without"]) == (False, False), sentence
