"""append_only_between_activations: each view is the last one and what was appended, unless an activation is told."""

import pytest

from tests.behaviour.contexts import Provider

from .builders import session
from .judge import REASONS, replay, watched
from .summarizers import Counting


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])
async def test_views_only_grow_between_activations(dialect: str) -> None:
    async with watched(Counting(), budget=1_500) as judge:
        await replay(judge, session(18, 150, dialect=dialect))
        statistics = judge.context.statistics()
        assert judge.activations > 2
        assert judge.views > 5 * judge.activations
        assert set(statistics.activations_by_reason) <= REASONS
        assert sum(statistics.activations_by_reason.values()) == statistics.activations


async def test_two_providers_in_turn_each_see_their_own_views_grow() -> None:
    rooms = {"large": 6_000, "small": 3_000}
    providers = [Provider(name, context_window=room, max_output_tokens=500) for name, room in rooms.items()]
    async with watched(Counting(), budget=100_000) as judge:
        for number, message in enumerate(session(21, 200)):
            await judge.add(message)
            for one in providers[: 1 + number % 2]:
                await judge.view(provider=one)
        assert 2 < judge.activations < 40
