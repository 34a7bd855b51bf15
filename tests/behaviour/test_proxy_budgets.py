"""What is told of budgets: the window of the client's model, and a budget that leaves no room for messages."""

import json
from typing import Any

import pytest

from summarizing_context.cli import main
from tests.proxy.clients import AnthropicAgent, ChatAgent, ResponsesAgent, between, status
from tests.proxy.test_wire import post

TOOLS = [{"name": f"tool_{n}", "description": "Reads a file. " * 60, "input_schema": {}} for n in range(20)]
BETA = {"extra_headers": {"anthropic-beta": "oauth-2025-04-20,context-1m-2025-08-07"}}
BUDGETS: list[tuple[Any, str, int, dict[str, Any]]] = [
    *((AnthropicAgent, model, 990_000, {}) for model in ("claude-opus-4-6", "claude-opus-5-5-20261020")),
    *((AnthropicAgent, model, 990_000, {}) for model in ("claude-haiku-5-5", "us.anthropic.claude-opus-4-6-v1:0")),
    *((AnthropicAgent, model, 990_000, {}) for model in ("anthropic/claude-fable-5.1", "claude-sonnet-4-5[1m]")),
    (AnthropicAgent, "claude-haiku-4-5-20251001", 190_000, {}),
    (AnthropicAgent, "claude-haiku-4-5-20251001", 990_000, BETA),
    (ChatAgent, "gpt-6.1-sol", 910_000, {}),
    (ChatAgent, "gpt-5.4-mini", 260_000, {}),
    (ChatAgent, "gpt-6.2-sol", 910_000, {}),
    (ResponsesAgent, "gpt-6.2-sol", 490_000, {}),  # Codex gives a model a window of its own
    (ResponsesAgent, "gpt-6.1-sol", 260_000, {}),
]


async def test_the_budget_is_the_window_of_the_model_less_its_answer():
    async with between() as (_, address):
        for make, model, least, options in BUDGETS:
            await make(address, model=model, **options).step("Fix the bug.")
            found = (await status(address))["records"][-1]["budget"]
            assert least <= found < least + 15_000, model
        assert (await status(address))["notices"] == []


async def test_a_model_that_is_not_known_is_told_once(caplog: pytest.LogCaptureFixture):
    async with between() as (_, address):
        await ChatAgent(address, model="our-own-7b").steps(3)
        (notice,) = (await status(address))["notices"]
    assert all(word in notice for word in ("our-own-7b", "128,000", "--budget"))
    assert caplog.messages.count(notice) == 1


async def test_a_budget_that_tools_and_system_prompt_fill_is_told_once_with_one_that_would_do(caplog):
    prompt, budget = {"tools": TOOLS, "system": "You fix code. " * 100}, 4_000
    async with between(budget=budget) as (fake, address):
        agent, other = AnthropicAgent(address, **prompt), AnthropicAgent(address, session="s-2", **prompt)
        await agent.steps(5)
        await other.steps(5)
        told = await status(address)
        body = {**agent.options, "messages": agent.history[:-1]}
        reply = await post(address, body=json.dumps(body), **{"x-claude-code-session-id": "s-1"})
    (notice,) = told["notices"]
    least = told["records"][-1]["least_budget"]
    assert all(f"{tokens:,}" in notice for tokens in (budget, least))
    assert caplog.messages == [notice]  # of any part, for any session
    assert reply.headers["x-summarizing-context-least-budget"] == str(least)
    assert (told["failures"], fake.problems) == (0, [])
    async with between(budget=least) as (_, address):
        await AnthropicAgent(address, **prompt).steps(16)
        told = await status(address)
    assert told["notices"] == []
    assert max(record["view_tokens"] for record in told["records"] if record["changed"]) > 2_000


def test_a_budget_that_no_client_can_work_with_is_refused_at_the_start(capsys: pytest.CaptureFixture[str]):
    assert main(["proxy", "--store", ":memory:", "--listen", "0", "--budget", "740"]) != 0
    assert "at least 1,000 tokens" in " ".join(capsys.readouterr().err.split())
