"""The smallest runs of the benchmark: what is counted of a manager that works, and of summarizers that do not."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from evals.performance.run import drive, first_fault
from evals.performance.scenario import steps
from evals.performance.tokens import Message, total_tokens

CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT: Message = {"role": "tool", "tool_call_id": "a", "content": "done"}
USER: Message = {"role": "user", "content": "go on"}


def figures(folder: Path, manager: str = "ours", **asked: Any) -> dict[str, Any]:
    tiny = {"kind": "live", "mode": "works", "turns": 12, "budget": 3_000, "latency": 0.002, "agent_latency": 0.001}
    return asyncio.run(drive(Namespace(manager=manager, **{**tiny, **asked}), folder))


@pytest.mark.parametrize("mode", ["works", "always", "never", "burst"])
def test_a_run_keeps_every_law_whatever_the_summarizer_does(mode: str, tmp_path: Path):
    counted = figures(tmp_path, mode=mode)
    assert (counted["faults"], counted["first_fault"]) == (0, "")
    assert counted["activations"] > 0
    assert counted["model_calls"] > 0


def test_truncation_asks_no_model(tmp_path: Path):
    counted = figures(tmp_path, "truncate")
    assert (counted["faults"], counted["model_calls"]) == (0, 0)


def test_a_cold_load_gives_one_view_and_inputs_of_bounded_size(tmp_path: Path):
    counted = figures(tmp_path, kind="cold", turns=40, latency=0.0)
    assert (counted["views"], counted["faults"]) == (1, 0)
    assert 0 < counted["largest_model_input"] <= 8_500


def test_a_session_opened_again_calls_no_model(tmp_path: Path):
    counted = figures(tmp_path, kind="reopen", turns=30)
    assert counted["model_calls"] > 0
    assert counted["reopen_calls"] == 0


def test_the_session_is_the_same_every_time_and_of_the_size_that_is_told():
    messages = [message for message in steps(40) if message is not None]
    assert messages == [message for message in steps(40) if message is not None]
    assert 18_000 < total_tokens(messages) < 20_000
    assert first_fault(messages) == ""


def test_a_call_without_its_result_and_a_result_without_its_call_are_faults():
    assert first_fault([USER, CALL, RESULT]) == ""
    assert "row 1 makes 1 calls" in first_fault([USER, CALL, USER])
    assert "row 0 answers" in first_fault([RESULT])
