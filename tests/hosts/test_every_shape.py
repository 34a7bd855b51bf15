"""Generated sessions of every shape through the adapters of real frameworks, before the strict rules of providers."""

import pytest

from tests.clients import players

for name in ("langchain.agents", "pydantic_ai", "agents"):
    pytest.importorskip(name)


@pytest.mark.parametrize("door", ["langchain", "pydantic-ai", "openai-agents"])
async def test_every_shape_has_a_lawful_view(door):
    verdict = await players.run(door, range(2), steps=50, budget=8_000)
    assert verdict.examples == []
    assert verdict.shortened > 6


@pytest.mark.parametrize("door", ["langchain", "openai-agents"])
async def test_an_unknown_block_travels_whole_or_is_covered_whole(door):
    verdict = await players.try_unknown(door, range(2))
    assert verdict.examples == []
    assert verdict.shortened > 6
