"""append_only_between_activations: each view is the last one and what was appended, unless an activation is told; and
the judge, who ruins all it gave and all it got, sees every other law. Where the end of a log was written again and the
session was opened again, nothing that views did with the old end comes back with what the store keeps of them."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.behaviour.contexts import Held, Provider

from .builders import DIALECTS, assistant, call, result, session, user, words
from .checkers import find_tail
from .judge import Judge, replay, watched
from .places import kept_at
from .repairs import ALL_REPAIRS
from .summarizers import Counting

BUDGET = 2_000
ONE = Provider("one", "one-1", context_window=BUDGET + 20, max_output_tokens=20)
TWO = Provider("two", "two-1", context_window=BUDGET + 100, max_output_tokens=20)


@pytest.mark.parametrize(
    ("dialect", "budget", "wild"),
    [
        *((dialect, 1_500, 0.0) for dialect in DIALECTS),
        *zip(DIALECTS, (4_000, 1_500, 700), (0.1, 0.1, 0.1), strict=True),
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
        assert judge.context.last_view.tokens > budget // 5
        assert (judge.refused, 0 if wild else statistics.repairs.get("shrunk", 0)) == (0, 0)
        tail = find_tail(judge.last, judge.log)
        assert not isinstance(tail, str)
        assert {row["role"] for row in judge.last[: tail.view_start] if row not in log} == {"user"}

        judge.repairs_allowed = ALL_REPAIRS
        await judge.context.compact()
        for other_budget in (600, 4_000, 1_000, 2_000, 500, 300, 8_000, 100_000, 400, 4_000):
            await judge.view(other_budget)
            await judge.add(user("go on"))
        assert judge.refused == 0
        assert judge.context.statistics().activations_by_reason.get("budget_lowered", 0) > 0
        for other in (session(3, 40), []):
            await judge.check_log()
            await judge.set(other)
            await judge.view()
        assert await judge.context.get_messages() == []


@pytest.mark.parametrize("seed", [4, 5])
async def test_budgets_that_go_up_and_down_each_see_a_view_of_theirs_grow(seed: int) -> None:
    dice = random.Random(seed)
    async with watched(Counting(), budget=3_000) as judge:
        for message in session(seed, 120, size=80):
            await judge.add(message)
            await judge.view(round(3_000 * dice.choice((0.5, 0.8, 1.0, 1.3, 1.6))))
        assert len({one.provider for one in judge.context.activations()}) > 2
        assert judge.views > 3 * judge.activations


async def test_two_providers_in_turn_each_see_their_own_views_grow() -> None:
    rooms = {"large": 6_000, "small": 3_000}
    providers = [Provider(name, context_window=room, max_output_tokens=500) for name, room in rooms.items()]
    async with watched(Counting(), budget=100_000) as judge:
        for number, message in enumerate(session(21, 200)):
            await judge.add(message)
            for one in providers[: 1 + number % 2]:
                await judge.view(provider=one)
        assert 2 < judge.activations < 40


@asynccontextmanager
async def a_session(path: Path, summarizer: Any = None) -> AsyncIterator[Judge]:
    """A judge over a session with eight turns."""
    options: dict[str, Any] = {"session_id": "s", "safety_margin": 0, "concurrency": 1, "start_at": 0.0}
    async with watched(summarizer, budget=BUDGET, keeps=True, store=kept_at(path), **options) as judge:
        rng = random.Random(1)
        for _ in range(8):
            await judge.add(user(words(rng, 40)), assistant(words(rng, 40)))
        yield judge


class Late(Held):
    """Answers once it may."""

    def __init__(self) -> None:
        super().__init__("late/1")
        self.asked = anyio.Event()

    async def answer(self, job: Any) -> str:
        self.asked.set()
        return await super().answer(job)

    async def cover(self, judge: Judge, provider: Provider, keep: int) -> None:
        """A view, and another one that begins behind what the model has been asked for."""
        await judge.view(provider=provider)
        with anyio.fail_after(60):
            await self.asked.wait()
        await judge.context.summarize(keep)


async def look_at_both(judge: Judge, *providers: Provider, ids: str = "ab") -> None:
    """Two calls, of which the first is given up by a view, and their results."""
    await judge.add(user("Look at both."), *(call("openai", (id, "read", {})) for id in ids))
    for provider in providers:
        await judge.view(provider=provider)
    await judge.add(*(result("openai", id, f"of {id}") for id in ids))


@pytest.mark.usefixtures("each_store")
async def test_calls_given_up_in_an_end_that_is_gone_are_not_given_up_again(tmp_path: Path) -> None:
    """Those in what an undo shows again stay given up."""
    async with a_session(tmp_path / "edited.db") as judge:
        for provider in (ONE, TWO):
            await judge.view(provider=provider)
            await judge.context.summarize(2)
        await look_at_both(judge, ONE, TWO)
        assert judge.interrupted  # the first call
        at = judge.log.index(user("Look at both."))
        await judge.set([*judge.log[:at], user("edited"), *judge.log[at + 1 :]])
        assert result("openai", "a", "of a") in await judge.view(provider=ONE)

        await judge.reopen()
        activations = judge.activations
        assert result("openai", "a", "of a") in await judge.view(provider=ONE)
        assert judge.activations == activations

    async with a_session(tmp_path / "undone.db") as judge:
        await judge.view(provider=ONE)
        await judge.context.summarize(2)
        await look_at_both(judge, ONE)
        await look_at_both(judge, ONE, ids="cd")
        await judge.context.summarize(5)
        await judge.view(provider=ONE)
        await judge.context.undo_activation()
        await judge.reopen()
        assert str(await judge.view(provider=ONE)).count("[no result of this call") == 4


@pytest.mark.usefixtures("each_store")
async def test_segments_that_views_of_an_end_that_is_gone_have_ended_are_not_ended_again(tmp_path: Path) -> None:
    """A view that starts over gives its reason, even where a segment was closed for it."""
    late = Late()
    async with a_session(tmp_path / "edited.db", late) as judge:
        await late.cover(judge, TWO, 2)
        await late.cover(judge, ONE, 8)
        await judge.set([*judge.log[:-5], user("edited"), *judge.log[-4:]])
        segments = judge.context.statistics().segments
        await judge.reopen()
        assert judge.context.statistics().segments == segments
        await judge.view(provider=ONE)

    late = Late()
    async with a_session(tmp_path / "over.db", late) as judge:
        await late.cover(judge, ONE, 2)
        await judge.view(provider=ONE)
        await judge.set(judge.log[:-2])  # all that is left is covered
        late.may_answer.set()
        await judge.context.wait_idle()  # more are asked for, up to where the view had ended a segment
        await judge.view(provider=TWO)

        await judge.reopen()
        activations = judge.activations
        await judge.view(provider=ONE)
        assert judge.activations == activations + 1
