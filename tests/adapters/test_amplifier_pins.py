"""Critical messages and system rows between others, in a real session of the host."""

from __future__ import annotations

import pytest

from tests.adapters.host import Model, Row, session_of

pytestmark = pytest.mark.anyio

SMALL = {"segment_min": 200, "segment_target": 600, "segment_max": 1_200, "summary_max_tokens": 60}


def missing(request: list[Row], rows: list[Row]) -> list[int]:
    texts = {str(row["content"]) for row in request}
    return [at for at, row in enumerate(rows) if str(row["content"]) not in texts]


async def test_critical_opening_rows_and_system_rows_between_others_are_in_every_request():
    critical = [{"role": "user", "content": f"Fact {n} of sixty.", "critical": True} for n in range(60)]
    system = [{"role": "system", "content": f"Rule {n} of forty."} for n in range(40)]
    model = Model(window=8_000)
    async with session_of(SMALL, model=model) as session:
        context = session.coordinator.get("context")
        for row in critical:
            await context.add_message(row)
        await session.execute("Begin.")
        for row in system:
            await context.add_message(row)
        for turn in range(12):
            await session.execute(f"Go on with {turn}.")
            assert missing(model.requests[-1], [*critical, *system]) == []
        assert context.statistics().activations > 1
        assert context.statistics().pins_left_out == 0


async def test_what_a_request_cannot_hold_is_told_in_it_and_counted():
    critical = [{"role": "user", "content": f"Fact {n}: " + "word " * 100, "critical": True} for n in range(60)]
    model = Model(window=6_000)
    async with session_of(SMALL, model=model) as session:
        context = session.coordinator.get("context")
        for row in critical:
            await context.add_message(row)
        for turn in range(6):
            await session.execute(f"Go on with {turn}.")
        lost = missing(model.requests[-1], critical)
        assert lost == list(range(len(lost)))
        assert 0 < len(lost) < 50
        assert context.statistics().pins_left_out == len(lost)
        assert any(f"{len(lost)} pinned messages: " in str(row["content"]) for row in model.requests[-1])
