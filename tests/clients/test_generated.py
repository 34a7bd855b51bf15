"""Sessions that mix every shape, through the doors of the package, before the strict rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.clients import players
from tests.clients.generated import Session


async def test_what_a_door_does_wrong_is_seen(monkeypatch: pytest.MonkeyPatch):
    @asynccontextmanager
    async def forgets(session: Session) -> AsyncIterator[Any]:
        async def send(body: Any) -> players.Arrived:
            kept = [[part for part in row["content"] if "_tool_result" not in part["type"]] for row in body["messages"]]
            rows = [{**row, "content": blocks} for row, blocks in zip(body["messages"], kept, strict=True)]
            return players.Arrived({**body, "messages": rows}, session.betas)

        yield send

    monkeypatch.setitem(players.DOORS, "forgets", (forgets, ("anthropic",), ()))
    verdict = await players.run("forgets", [1], steps=20, budget=4_000)
    assert len(verdict.problems) > 5


@pytest.mark.parametrize(("door", "seeds"), [("amplifier", [43, 65, 228, 257]), ("proxy", [230, 247, 252])])
async def test_large_thinking_of_the_newest_turn_and_a_found_tool_alone_in_its_row_reach_the_provider(door, seeds):
    verdict = await players.run(door, seeds, steps=36, budget=4_000)
    assert verdict.problems == []


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("door", ["library", "proxy", "amplifier"])
async def test_every_shape_has_a_lawful_view(door: str, unknown: bool):
    """A block of an unknown type travels whole, or is covered whole."""
    steps = 24 if unknown else 36
    verdict = await players.run(door, players.SESSIONS, steps=steps, budget=players.BUDGET, unknown=unknown)
    assert verdict.problems == []
    assert verdict.shortened > 10
