"""How large a request may become: by the model's window, or by what the user says; tools and system prompt count."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.proxy.rewriter import window_of
from tests.proxy.clients import AnthropicAgent, ChatAgent, proxied, status
from tests.proxy.fake import Fake, served

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("model", "betas", "tokens"),
    [
        ("claude-sonnet-4-5", "", 200_000),
        ("claude-sonnet-4-5", "oauth-2025-04-20,context-1m-2025-08-07", 1_000_000),
        ("anthropic/claude-opus-4-1[1m]", "", 1_000_000),
        ("gpt-5.1-codex", "context-1m-2025-08-07", 272_000),
        ("openai/gpt-3.5-turbo", "", 16_000),
        ("a-model-of-ones-own", "", 128_000),
    ],
)
def test_a_window_is_known_by_the_models_name(model: str, betas: str, tokens: int):
    assert window_of(model, betas) == tokens


async def totals(agent: Any, address: str, steps: int) -> list[int]:
    """Tokens of each request, with all that is beside the history."""
    for step in range(steps):
        await agent.step(f"step {step}")
    records = (await status(address))["records"]
    assert sum(record["activation"] is not None for record in records) > 0
    return [record["view_tokens"] + record["fixed_tokens"] for record in records]


async def test_without_a_budget_the_models_window_less_its_answer_bounds_a_request():
    fake = Fake()
    async with served(fake) as upstream, proxied(upstream) as address:
        sent = await totals(ChatAgent(address, model="gpt-3.5-x", max_tokens=6_000), address, 45)
    assert 5_000 < max(sent) <= 16_000 - 6_000
    assert fake.problems == []


async def test_tools_and_system_prompt_count_towards_the_budget():
    fake = Fake()
    tools = [{"name": f"tool_{n}", "description": "Reads a file. " * 60, "input_schema": {}} for n in range(20)]
    async with served(fake) as upstream, proxied(upstream, budget=9_000) as address:
        agent = AnthropicAgent(address, tools=tools, system="You fix code. " * 100)
        sent = await totals(agent, address, 30)
        told = await status(address)
    assert max(sent) <= 9_000
    assert min(record["fixed_tokens"] for record in told["records"]) > 3_000
    assert max(record["view_tokens"] for record in told["records"]) < 6_000
