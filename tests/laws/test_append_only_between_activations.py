"""One long session, looked at from all sides: each view is the last one and what was appended, unless an activation is
told; and the judge, who ruins all it gave and all it got, sees every other law."""

import pytest

from tests.behaviour.contexts import Provider

from .builders import DIALECTS, assistant, session, user
from .checkers import find_tail
from .judge import replay, watched
from .repairs import ALL_REPAIRS
from .summarizers import Counting


@pytest.mark.parametrize(
    ("dialect", "budget", "wild"),
    [
        *((dialect, 1_500, wild) for dialect in DIALECTS for wild in (0.0, 0.1)),
        *(("openai", 700, 0.1), ("openai", 4_000, 0.1)),
    ],
)
async def test_every_view_of_a_long_session_is_lawful(dialect: str, budget: int, wild: float) -> None:
    """Where no message is too long, none is repaired."""
    log = session(18, 150, dialect=dialect, size=min(60, budget // 20), wild=wild)
    for place in range(10, len(log), 9):
        if log[place]["role"] == "user" and isinstance(log[place]["content"], str):
            log[place:place] = [user("continue"), assistant("ok"), user("continue")]
    async with watched(Counting(), budget=budget, repairs=ALL_REPAIRS if wild else frozenset()) as judge:
        await replay(judge, log)
        statistics = judge.context.statistics()
        assert sum(statistics.activations_by_reason.values()) == statistics.activations > (1 if budget == 4_000 else 3)
        assert judge.views > max(50, (5 if budget > 1_000 else 3) * judge.activations)
        assert judge.covered > 60
        assert judge.in_tail > 250
        assert judge.refused == 0
        assert judge.context.last_view.tokens > budget // 5
        assert wild or statistics.repairs.get("shrunk", 0) == 0
        tail = find_tail(judge.last, judge.log)
        assert not isinstance(tail, str)
        assert {row["role"] for row in judge.last[: tail.view_start] if row not in log} == {"user"}

        judge.repairs_allowed = ALL_REPAIRS
        await judge.context.compact()
        await judge.view(600)
        for other in (session(3, 40), []):
            await judge.check_log()
            await judge.set(other)
            await judge.view()
        assert await judge.context.get_messages() == []


async def test_two_providers_in_turn_each_see_their_own_views_grow() -> None:
    rooms = {"large": 6_000, "small": 3_000}
    providers = [Provider(name, context_window=room, max_output_tokens=500) for name, room in rooms.items()]
    async with watched(Counting(), budget=100_000) as judge:
        for number, message in enumerate(session(21, 200)):
            await judge.add(message)
            for one in providers[: 1 + number % 2]:
                await judge.view(provider=one)
        assert 2 < judge.activations < 40
