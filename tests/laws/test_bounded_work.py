"""Bounded work: what a view costs grows with what is in it, not faster; counted in calls, never timed."""

import itertools
import sys

import pytest

from summarizing_context import Settings, open_context

from .amounts import ALL
from .builders import Message, count, user
from .many_parts import odd_log

GROWTH = 2.6  # of what is done, when there is twice as much to do


class Steps:
    """Counts the functions that have returned in this thread since it is on; cProfile counts other threads as well,
    from Python 3.12 on."""

    def __init__(self) -> None:
        self.taken = 0

    def _count(self, frame: object, event: str, arg: object) -> None:
        self.taken += event in ("return", "c_return")

    def __enter__(self) -> "Steps":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


async def steps_of(log: list[Message], seen: int = 0) -> int:
    """Steps taken to make a view of a log, after a view behind each of the messages `seen`."""
    async with open_context(Settings(max_tokens=500, strategy="truncate"), count_tokens=count) as context:
        for message in log[:seen]:
            await context.add_message(message)
            await context.get_messages_for_request()
        for message in log[seen:]:
            await context.add_message(message)
        with Steps() as steps:
            assert await context.get_messages_for_request()
        return steps.taken


FEWEST = {"text blocks": 100, "rows of results": 50, "calls in flight": 100, "mixed": 30}


@pytest.mark.parametrize("shape", FEWEST)
async def test_twice_the_parts_take_about_twice_the_steps(shape: str) -> None:
    taken = [await steps_of(odd_log(shape, FEWEST[shape] * times)) for times in ((1, 2, 4) if ALL else (1, 2))]
    assert all(more <= GROWTH * less for less, more in itertools.pairwise(taken)), taken


async def test_what_came_since_the_last_view_is_not_read_where_the_next_one_cannot_show_it() -> None:
    few, many = [await steps_of([user(f"message {at} of a long import") for at in range(n)], 60) for n in (560, 1_060)]
    assert many - few < 40 * 500, (few, many)  # where it is read, about 150 a message
