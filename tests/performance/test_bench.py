"""The smallest runs of the benchmark: what is counted of a manager that works, and of summarizers that do not."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from evals.performance.run import drive, first_fault
from evals.performance.scenario import steps
from evals.performance.tokens import total_tokens


def figures(folder: Path, manager: str = "ours", **asked: Any) -> dict[str, Any]:
    tiny = {"kind": "live", "mode": "works", "turns": 12, "budget": 3_000, "latency": 0.002, "agent_latency": 0.001}
    return asyncio.run(drive(Namespace(manager=manager, **{**tiny, **asked}), folder))


@pytest.mark.parametrize("mode", ["works", "always", "never", "burst"])
def test_a_run_keeps_every_law_whatever_the_summarizer_does(mode: str, tmp_path: Path):
    counted = figures(tmp_path, mode=mode)
    assert (counted["faults"], counted["first_fault"]) == (0, "")
    assert counted["activations"] > 0
    assert counted["model_calls"] > 0


def test_a_session_opened_again_calls_no_model(tmp_path: Path):
    counted = figures(tmp_path, kind="reopen", turns=60, budget=6_000)
    assert counted["model_calls"] > 0
    assert counted["reopen_calls"] == 0


def test_the_session_is_the_same_every_time_and_of_the_size_that_is_told():
    messages = [message for message in steps(40) if message is not None]
    assert messages == [message for message in steps(40) if message is not None]
    assert 18_000 < total_tokens(messages) < 20_000
    assert first_fault(messages) == ""
