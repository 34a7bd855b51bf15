"""Generated sessions of every shape through the adapters of real frameworks, before the strict rules of providers."""

import pytest

from tests.clients import players

for name in ("langchain.agents", "pydantic_ai", "agents"):
    pytest.importorskip(name)


@pytest.mark.parametrize(
    ("door", "unknown"),
    [
        ("pydantic-ai", False),
        *((door, unknown) for door in ("langchain", "openai-agents") for unknown in (False, True)),
    ],
)
async def test_every_shape_has_a_lawful_view(door, unknown):
    """A block of an unknown type travels whole, or is covered whole."""
    steps, budget = (24, players.BUDGET) if unknown else (50, 2 * players.BUDGET)
    verdict = await players.run(door, players.SESSIONS, steps=steps, budget=budget, unknown=unknown)
    assert verdict.problems == []
    assert verdict.shortened > 6
