"""A real `AmplifierSession` of amplifier-core runs on our context."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from amplifier_core import ContextLengthError

from summarizing_context import BudgetError
from summarizing_context.adapters.amplifier import SummarizingContextManager
from tests.adapters.host import Model, session_of

pytestmark = pytest.mark.anyio
SMALL = {"segment_min": 200, "segment_target": 600, "segment_max": 1200, "summary_max_tokens": 60}


async def test_a_turn_with_tools_runs_and_the_history_is_whole() -> None:
    model = Model(window=100_000)
    async with session_of({}, model=model) as session:
        context = session.coordinator.get("context")
        assert isinstance(context, SummarizingContextManager)
        assert context.is_ready, "on_session_ready has run"
        answer = await session.execute("Read the two files.")
        history = await context.get_messages()
        assert answer == "Answer 3."
        assert [row["role"] for row in history] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "tool",
            "assistant",
        ]
        assert history[1]["tool_calls"][0] == {"id": "call_1", "tool": "read", "arguments": {"path": "src/file_1.py"}}
        assert "line 19 of src/file_3.py" in history[5]["content"]
        assert await context.get_messages_for_request() == history


async def test_every_request_of_a_long_session_is_valid_and_inside_the_window() -> None:
    model = Model(window=6_000)
    async with session_of(SMALL, model=model) as session:
        context = session.coordinator.get("context")
        for turn in range(30):
            await session.execute(f"Turn {turn}: read the next files, and never touch file {turn}.")
        history, figures = await context.get_messages(), context.statistics()
        assert len(model.requests) == 90, "the model refused none"
        assert len(history) == 30 * 7
        assert [row["content"] for row in history if row["role"] == "user"][7].startswith("Turn 7:")
        assert figures.activations >= 5
        assert figures.history_tokens > 4 * model.window
        assert figures.summaries_ready > 5


async def test_hooks_that_fail_or_hang_neither_break_nor_delay_a_request() -> None:
    async def fail(event: str, data: dict[str, Any]) -> None:
        raise ValueError("a hook of somebody else's")

    async def hang(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(3_600)

    hooks = {"context:summary_started": fail, "context:pre_compact": hang, "context:post_compact": hang}
    model = Model()
    async with asyncio.timeout(120):
        async with session_of(SMALL, model=model, hooks=hooks) as session:
            for turn in range(12):
                await session.execute(f"Turn {turn}")
            assert session.coordinator.get("context").statistics().activations > 1
    assert len(model.requests) == 36


async def test_a_budget_that_cannot_be_met_is_the_hosts_error_too() -> None:
    async with session_of({}) as session:
        context = session.coordinator.get("context")
        await context.add_message({"role": "system", "content": "word " * 500})
        with pytest.raises(ContextLengthError) as caught:
            await context.get_messages_for_request(token_budget=100)
        error = caught.value
        assert isinstance(error, BudgetError)
        assert (error.budget_tokens, len(error.rows) > 0) == (100, True)


async def test_the_older_contract_compacts_for_the_mounted_provider_before_any_request() -> None:
    async with session_of(SMALL, model=Model(window=4_000, output=500)) as session:
        context = session.coordinator.get("context")
        assert not await context.should_compact()
        for number in range(60):
            await context.add_message({"role": "user", "content": f"{number}: " + "some words of a person " * 15})
        assert await context.should_compact()
        assert (await context.compact()).activated
        assert not await context.should_compact()
        assert len(await context.get_messages()) == 60
        assert await session.execute("Go on.") == "Answer 3."
        assert context.statistics().activations_by_reason.keys() <= {"explicit", "high_water"}
