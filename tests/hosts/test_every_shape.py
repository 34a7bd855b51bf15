"""Generated sessions of every shape through the adapters of real frameworks, before the strict rules of providers."""

import pytest

from tests.clients import players

for name in ("langchain.agents", "pydantic_ai", "agents"):
    pytest.importorskip(name)


@pytest.mark.parametrize("door", ["langchain", "pydantic-ai", "openai-agents"])
async def test_every_shape_has_a_lawful_view(door):
    verdict = await players.run(door, players.SESSIONS, steps=50, budget=2 * players.BUDGET)
    assert verdict.problems == []
    assert verdict.shortened > 6


@pytest.mark.parametrize("door", ["langchain", "openai-agents"])
async def test_an_unknown_block_travels_whole_or_is_covered_whole(door):
    verdict = await players.run(door, players.SESSIONS, steps=24, budget=players.BUDGET, unknown=True)
    assert verdict.problems == []
    assert verdict.shortened > 6
