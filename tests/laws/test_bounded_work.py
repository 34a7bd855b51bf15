"""Bounded work: what a view costs grows with what is in it, not faster; counted in calls, never timed."""

from __future__ import annotations

import cProfile

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.log import entries
from summarizing_context.messages.reading import read_message

from .builders import Message, count
from .many_parts import odd_log

GROWTH = 2.6  # of what is done, when there is twice as much to do


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


async def steps_of(log: list[Message]) -> int:
    """Steps taken to make the first view of a log."""
    async with open_context(Settings(max_tokens=500, strategy="truncate"), count_tokens=count) as context:
        await context.set_messages(log)
        with Steps() as steps:
            assert await context.get_messages_for_request()
        return steps.taken


FEWEST = {"text blocks": 200, "rows of results": 200, "calls in flight": 300, "mixed": 100}


@pytest.mark.parametrize("shape", FEWEST)
async def test_twice_the_parts_take_about_twice_the_steps(shape: str) -> None:
    few, some, many = [await steps_of(odd_log(shape, FEWEST[shape] * times)) for times in (1, 2, 4)]
    assert some <= GROWTH * few
    assert many <= GROWTH * some


async def test_a_view_reads_no_message_of_an_open_group_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def counting(message: Message) -> object:
        read.append(message)
        return read_message(message)

    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": f"c{at}", "type": "function", "function": function} for at in range(41)]
    async with open_context(Settings(max_tokens=100_000), count_tokens=count) as context:
        await context.add_message({"role": "assistant", "content": None, "tool_calls": calls})
        monkeypatch.setattr(entries, "read_message", counting)
        for at in range(40):
            await context.add_message({"role": "tool", "tool_call_id": f"c{at}", "content": "ok"})
            await context.get_messages_for_request()
    assert len(read) < 100
