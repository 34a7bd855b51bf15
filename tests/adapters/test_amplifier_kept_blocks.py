"""The newest instruction files and the newest plan are in every request of a real session of the host."""

from __future__ import annotations

import pytest

from tests.adapters.host import Model, session_of
from tests.test_kept_blocks import SMALL, Work, block, missing

pytestmark = pytest.mark.anyio


async def test_every_request_has_the_newest_texts():
    model = Model(window=8_000)
    async with session_of(SMALL, model=model) as session:
        context = session.coordinator.get("context")
        work = Work(11, "amplifier")
        covered = 0
        for turn in range(40):
            for row in work.turn():
                await context.add_message(row)
            await session.execute(f"Go on with {turn}.")
            request = model.requests[-1]
            assert missing(work, request) == []
            covered += bool(block(request, "project_instructions")) + bool(block(request, "current_plan"))
        assert context.statistics().activations > 3
        assert covered > 10
