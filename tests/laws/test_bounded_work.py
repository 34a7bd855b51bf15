"""Bounded work: what a view costs grows with what is in it, not faster; counted in calls, never timed."""

from __future__ import annotations

import asyncio
import cProfile
from collections.abc import Callable
from itertools import pairwise

import pytest

from summarizing_context import Settings, open_context

from .builders import Message, assistant, call, user
from .many_parts import odd_log

pytestmark = pytest.mark.anyio
IDLE = 500  # steps of a turn of the event loop in which nothing is decided, at most
GROWTH = 2.6  # of what is done, when there is twice as much to do
BIG = "word and more " * 20_000


class Steps:
    """Counts the functions that have returned since it is on, in this thread, but not those that count them."""

    def __init__(self) -> None:
        self._profiler = cProfile.Profile(subcalls=False)
        self._on = False

    @property
    def taken(self) -> int:
        self._profiler.disable()
        taken = sum(entry.callcount for entry in self._profiler.getstats())
        if self._on:
            self._profiler.enable()
        return taken

    def __enter__(self) -> Steps:
        self._on = True
        self._profiler.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._on = False
        self._profiler.disable()


class Counter:
    """A counter of tokens that remembers what it was asked."""

    def __init__(self) -> None:
        self.characters = 0

    def __call__(self, text: str) -> int:
        self.characters += len(text)
        return (len(text) + 3) // 4


async def work(log: list[Message]) -> tuple[int, int]:
    """Steps taken, and characters counted, to make the first view of a log."""
    counter = Counter()
    settings = Settings(max_tokens=500, strategy="truncate")
    async with open_context(settings, count_tokens=counter) as context:
        await context.set_messages(log)
        counter.characters = 0
        with Steps() as steps:
            assert await context.get_messages_for_request()
        return steps.taken, counter.characters


FEWEST = {
    "text blocks": 200,
    "one row of results": 200,
    "rows of results": 200,
    "calls in flight": 300,
    "argument fields": 200,
    "mixed": 100,
    "reminders": 150,
}


@pytest.mark.parametrize("shape", FEWEST)
async def test_twice_the_parts_take_about_twice_the_steps(shape: str) -> None:
    few, some, many = [(await work(odd_log(shape, FEWEST[shape] * times)))[0] for times in (1, 2, 4)]
    assert some <= GROWTH * few
    assert many <= GROWTH * some


LARGE: dict[str, Callable[[str], list[Message]]] = {
    "result": lambda text: [call("openai", ("c", "ls", {})), {"role": "tool", "tool_call_id": "c", "content": text}],
    "result that came too late": lambda text: [{"role": "tool", "tool_call_id": "c", "content": text}],
    "reasoning": lambda text: [{"role": "assistant", "content": "ok", "reasoning_content": text}],
    "arguments": lambda text: [call("openai", ("c", "ls", {"text": text}))],
    "first words": lambda text: [user(text), assistant("ok")],
}


@pytest.mark.parametrize("kind", LARGE)
async def test_a_large_text_is_counted_when_it_comes_and_not_again_for_a_view(kind: str) -> None:
    _, counted = await work([user("hi"), *LARGE[kind](BIG)])
    _, of_more = await work([user("hi"), *LARGE[kind](4 * BIG)])
    assert of_more <= 2 * counted
    assert counted < len(BIG)


async def test_calls_with_one_id_are_answered_in_as_many_steps_as_there_are() -> None:
    async def steps(n: int) -> int:
        rows = [call("openai", *(("same", "ls", {}) for _ in range(n)))]
        return (await work([user("hi"), *rows, *({"role": "tool", "tool_call_id": "same", "content": "ok"},) * n]))[0]

    few, many = await steps(200), await steps(400)
    assert many <= GROWTH * few


async def row_of_calls(calls: int, budget: int, views: int) -> tuple[int, int]:
    """Steps taken for some views between the results of a row of calls, and the activations."""
    async with open_context(Settings(max_tokens=budget, strategy="truncate"), count_tokens=Counter()) as context:
        await context.set_messages([user("hi"), call("openai", *((f"c{i}", "ls", {"at": i}) for i in range(calls)))])
        taken = 0
        for i in range(calls):
            await context.add_message({"role": "tool", "tool_call_id": f"c{i}", "content": f"line {i} of it"})
            if i % (calls // views) == 0:
                with Steps() as steps:
                    assert await context.get_messages_for_request()
                taken += steps.taken
        return taken, context.statistics().activations


async def test_views_between_the_results_of_a_row_of_calls_cost_a_few_steps_for_each_of_the_row() -> None:
    steps, activations = await row_of_calls(400, 1_000, 10)
    assert activations >= 10 // 2  # each shrinks the row anew, or leaves more of it out
    assert steps < 500 * 400 * 10  # each message is read and priced once or twice for some numbers of calls


@pytest.mark.parametrize("budget", [500, 40_000])  # in which the row is too wide, and not
async def test_as_many_views_of_a_row_of_twice_the_calls_take_about_twice_the_steps(budget: int) -> None:
    some, many = [(await row_of_calls(calls, budget, 5))[0] for calls in (400, 800)]
    assert many <= GROWTH * some


async def slices(log: list[Message]) -> list[int]:
    """Steps taken on the event loop between its turns, while the first view of a log is made; of turns in which it
    only waits there may be any number, and they are left out."""
    taken = [0]
    settings = Settings(max_tokens=500, strategy="truncate")
    async with open_context(settings, count_tokens=Counter()) as context:
        await context.set_messages(log)
        with Steps() as steps:

            async def turns() -> None:
                while True:
                    taken.append(steps.taken)
                    await asyncio.sleep(0)

            turning = asyncio.create_task(turns())
            assert await context.get_messages_for_request()
            taken.append(steps.taken)
        turning.cancel()
    return [after - before for before, after in pairwise(taken) if after - before > IDLE]


@pytest.mark.parametrize("shape", ["rows of results", "one row of results", "mixed"])
async def test_the_event_loop_has_its_turns_while_a_view_of_many_parts_is_made(shape: str) -> None:
    found = await slices(odd_log(shape, 240))
    assert len(found) > 4
    assert max(found) < 0.75 * sum(found)


@pytest.mark.parametrize("shape", ["text blocks", "calls in flight"])
async def test_a_message_of_very_many_parts_is_shrunk_beside_the_event_loop(shape: str) -> None:
    parts = 500
    assert sum(await slices(odd_log(shape, parts))) < 60 * parts  # each is read, joined, measured and written anew


async def test_a_log_that_grows_all_the_while_has_a_view_of_its_newest_message() -> None:
    log, added = odd_log("rows of results", 120), 0
    async with open_context(Settings(max_tokens=500, strategy="truncate"), count_tokens=Counter()) as context:
        await context.set_messages(log)

        async def go_on() -> None:
            nonlocal added
            while True:
                await context.add_message(user(f"more {added}"))
                added += 1

        growing = asyncio.create_task(go_on())
        while added < 5:
            await asyncio.sleep(0)  # a plain view gives no turn to others
            before = added
            view = await context.get_messages_for_request()
            assert not before or view[-1]["content"] in {f"more {at}" for at in range(before - 1, added + 1)}
            assert context.last_view is not None
            assert context.last_view.tokens <= 500
        growing.cancel()
