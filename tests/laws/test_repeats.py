"""Exact repeats next to each other are shown once with their count, from an activation on; the log keeps all."""

from __future__ import annotations

from pathlib import Path

import pytest

from summarizing_context import Settings, open_context

from .builders import Message, assistant, count, session, user
from .checkers import tail_problems
from .judge import SMALL, Judge, watched
from .places import kept_at
from .repairs import ALL_REPAIRS, REPEATS
from .summarizers import Counting

pytestmark = pytest.mark.anyio
GO = user("Go on.")
BLOCKS = user([{"type": "text", "text": "Go on."}])


def note(times: int) -> str:
    return f"[this message was sent {times} times in a row]"


def told(times: int) -> Message:
    return user(f"Go on.\n{note(times)}")


@pytest.mark.parametrize("times", [2, 26])
async def test_the_first_view_shows_them_once_and_what_comes_later_as_it_comes(times: int) -> None:
    async with watched(Counting(), budget=3_000) as judge:
        await judge.set([assistant("Ready."), *[GO] * times])
        assert await judge.view() == [assistant("Ready."), told(times)]
        await judge.add(GO, GO)
        assert await judge.view() == [assistant("Ready."), told(times), GO, GO]
        assert await judge.view() == [assistant("Ready."), told(times), GO, GO]
        assert judge.context.statistics().repairs == {REPEATS: 1}
        await judge.check_log()
        assert judge.activations == 0


@pytest.mark.parametrize("settled", [True, False])  # settled, joining them is all that is left to do
async def test_a_growing_run_is_joined_at_the_next_activation(settled: bool) -> None:
    async with watched(Counting(), budget=3_000) as judge:
        await judge.add(*session(31, 40))
        if settled:
            await judge.context.wait_idle()
        await judge.view()
        for _ in range(5):
            await judge.add(BLOCKS)
            assert (await judge.view())[-1] == BLOCKS
        assert judge.context.statistics().repairs.get(REPEATS, 0) == 0
        await judge.context.wait_idle()
        assert (await judge.context.compact()).activated
        view = await judge.view()
        assert view[-1] == user([*BLOCKS["content"], {"type": "text", "text": note(5)}])
        assert BLOCKS not in view
        await judge.add(BLOCKS, assistant("Well."))
        assert (await judge.view())[-3:] == [view[-1], BLOCKS, assistant("Well.")]
        assert judge.context.statistics().repairs[REPEATS] == 1


async def test_what_is_no_exact_repeat_is_left_alone() -> None:
    log = [user("Go on."), user("Go on. "), BLOCKS, assistant("Go on."), GO, {**GO, "name": "ann"}]
    async with watched(Counting(), budget=3_000) as judge:
        await judge.set(log)
        assert await judge.view() == log


@pytest.mark.usefixtures("each_store")
async def test_a_restarted_process_sends_the_same_bytes(tmp_path: Path) -> None:
    settings = Settings(**{**SMALL, "max_tokens": 1_500, "store": kept_at(tmp_path / "a.db"), "session_id": "s"})
    async with open_context(settings, count_tokens=count) as context:
        judge = Judge(context, budget=1_500)
        await judge.add(*session(8, 60), *[GO] * 7)
        await context.wait_idle()
        await judge.context.compact()
        await judge.view()
        await judge.add(GO, GO)
        before = await judge.view()
        assert before[-3:] == [told(7), GO, GO]
    async with open_context(settings, count_tokens=count) as context:
        judge.reopened(context)
        assert await judge.view() == before
        await judge.add(GO)
        assert await judge.view() == [*before, GO]


@pytest.mark.parametrize(
    ("view", "right"),
    [
        ([assistant("a"), told(3), assistant("b")], True),
        ([assistant("a"), told(2), GO, assistant("b")], True),
        ([assistant("a"), told(2), assistant("b")], False),
        ([assistant("a"), told(4), assistant("b")], False),
        ([told(2), assistant("b")], False),
        ([assistant("a"), told(3), GO, assistant("b")], False),
        ([assistant("a"), user(f"Go away.\n{note(3)}"), assistant("b")], False),
        ([user("<summary>what happened before</summary>"), told(2), assistant("b")], True),
    ],
)
def test_the_judge_refuses_a_wrong_count(view: list[Message], right: bool) -> None:
    assert (tail_problems(view, [assistant("a"), GO, GO, GO, assistant("b")], ALL_REPAIRS) == []) is right
    assert tail_problems(view, [assistant("a"), GO, GO, GO, assistant("b")], ALL_REPAIRS - {REPEATS})
