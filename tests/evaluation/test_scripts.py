"""The scripts of evals that need no key, each on a log that is made up, and the smallest runs of the benchmark."""

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from evals import moments, standing_rules
from evals.performance import peers
from evals.performance.managers import MANAGERS
from evals.performance.run import drive
from summarizing_context.evaluation.datasets import read_messages
from tests.cli.commands import write_transcript
from tests.evaluation.sessions import session
from tests.laws.builders import assistant, call, result, user


async def test_moments_counts_activations_at_ends_and_plans_that_they_leave_open():
    todo = {"todos": [{"content": "Find the faults", "status": "pending"}]}
    prompt, task, *rows = session(turns=40, later=6)
    log = [prompt, task, call("openai", ("t", "TodoWrite", todo)), result("openai", "t", "ok"), *rows]
    found = {arm: await moments.play(log, read_messages(log), 8_000, arm) for arm in moments.ARMS}
    for figures in found.values():
        assert figures["views"] == sum(row["role"] == "assistant" for row in log)
        assert figures["unfinished"] == figures["activations"] > 0
    assert found["ends"]["at_end"] == found["ends"]["activations"]
    assert found["lower"]["viewed"] < found["full"]["viewed"]


async def test_standing_rules_holds_a_session_against_the_labels_of_its_log(tmp_path: Path, capsys):
    said = "Never push to main.", "Keep it short, as ever.", "Always run the tests before you commit."
    rules = [{"message": 2 * at, "quote": said[at], "strength": "must", "ended_by": None} for at in (0, 1)]
    write_transcript(tmp_path / "log.jsonl", [row for text in said for row in (user(text), assistant("ok"))])
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.json").write_text(json.dumps({"log": "log.jsonl", "rules": rules}))
    given = {"labels": tmp_path / "labels", "transcripts": tmp_path, "exchange": None}
    await standing_rules.main(Namespace(**given, budget=16_000))
    shown, wrong, missed, _ = capsys.readouterr().out.splitlines()
    assert shown == "a precision 1/2, recall 1/2, ended 0/0"
    assert (said[2] in wrong, said[1] in missed) == (True, True)


def figures(folder: Path, **asked: Any) -> dict[str, Any]:
    tiny = {"kind": "live", "mode": "works", "turns": 12, "budget": 3_000, "latency": 0.002, "agent_latency": 0.001}
    return asyncio.run(drive(Namespace(manager="ours", **{**tiny, **asked}), folder))


@pytest.mark.parametrize("mode", ["works", "fails", "never"])
def test_a_run_keeps_every_law_whatever_the_summarizer_does(mode: str, tmp_path: Path):
    counted = figures(tmp_path, mode=mode)
    assert (counted["faults"], counted["first_fault"]) == (0, "")
    assert min(counted["activation_max_ms"], counted["model_calls"]) > 0


def test_what_is_counted_by_steps_is_the_same_every_time(tmp_path_factory: pytest.TempPathFactory):
    run, same = (figures(tmp_path_factory.mktemp("run"), kind="steps", turns=40, budget=6_000) for _ in range(2))
    assert run == same
    assert (run["waits"], run["refused_by_chat"], run["refused_by_anthropic"]) == (0, 0, 0)
    assert run["model_calls"] > 0


def test_the_last_view_of_a_chat_holds_what_the_chat_said(tmp_path: Path):
    said = [f"Server number {port} of the shop in Basel listens on port 4{port}." for port in range(100, 250)]
    chat = [{"role": role, "content": text} for text in said for role in ("user", "assistant")]
    file = tmp_path / "chats.json"
    file.write_text(json.dumps([chat]))
    (view,) = figures(tmp_path, kind="chats", chats=file)
    assert (view["faults"], view["tokens"] <= 3_000) == (0, True)
    assert said[-1] in view["text"]
    assert sum(text in view["text"] for text in said) > 40


def test_the_kept_figures_are_those_that_their_hash_names():
    told = json.loads(peers.OUT.read_text("utf-8"))
    assert told["sha256"] == peers.hash_of(told)
    assert list(told["counts"]) == list(told["evidence"]) == list(told["times"]) == list(MANAGERS)
