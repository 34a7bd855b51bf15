"""A hundred turns in a real session: parallel tools, hooks that inject, a user who cancels, every summary failing."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise
from typing import Any

import pytest
from amplifier_core import HookResult

from tests.adapters.host import ACT, Loop, Model, Row, session_of, until

pytestmark = pytest.mark.anyio

WINDOW = 12_000
SMALL = {"segment_min": 400, "segment_target": 1_200, "segment_max": 2_400, "summary_max_tokens": 120}
CANCELLED = ("Turn 30.", "Turn 80.")


async def inject(event: str, data: Row) -> HookResult:
    said = '<system-reminder source="hook">Mind the style.</system-reminder>'
    return HookResult(action="inject_context", context_injection=said, context_injection_role="user")


async def fail(request: Any) -> Any:
    raise RuntimeError("a provider that is down, with a text that nobody may log")


async def hang(request: Any) -> Any:
    await asyncio.Event().wait()


def activations(requests: list[list[Row]]) -> int:
    """How many requests do not begin with the one before."""
    return sum(new[: len(old)] != old for old, new in pairwise(requests))


@pytest.mark.parametrize(
    ("summarizer", "summarize", "turns"), [("extractive", None, 100), ("host", fail, 80), ("host", hang, 40)]
)
async def test_up_to_a_hundred_turns(summarizer: str, summarize: Any, turns: int) -> None:
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    model = Model(WINDOW, 1_000, summarize=summarize)
    config = {**SMALL, "summarizer": summarizer, "attempts": 1}
    async with session_of(config, model=model, hooks={ACT: inject}, loop=Loop(CANCELLED)) as session:
        context = session.coordinator.get("context")
        prompts = [f"Turn {turn}." for turn in range(turns)]
        async with asyncio.timeout(240):  # a summary that is waited for would never come
            for prompt in prompts:
                await session.execute(prompt)
        history, figures = await context.get_messages(), context.statistics()
        human = [row["content"] for row in history if row["role"] == "user" and "metadata" in row]
        assert [said for said in human if said.startswith("Turn")] == prompts, "the whole history is there"
        assert sum("Mind the style." in str(said) for said in human) > 2.5 * turns
        assert len(model.requests) > 2.9 * turns, "the model refused none"
        assert 0.6 * WINDOW < model.largest <= WINDOW - 1_000
        assert figures.history_tokens > turns / 12 * WINDOW
        assert activations(model.requests) == figures.activations < turns / 3
        if summarize is not None:
            assert model.summaries
            assert figures.stand_ins_total > 5
            assert figures.summaries_failed > 0 or summarize is hang
    await until(lambda: asyncio.all_tasks() == tasks)  # what was cancelled ends in the loop's next rounds
    await until(lambda: set(threading.enumerate()) <= threads)  # one that ran before may have ended
