"""The smallest runs of the benchmark: what is counted of a manager that works, and of summarizers that do not."""

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from evals.performance import peers
from evals.performance.managers import MANAGERS
from evals.performance.run import drive


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
