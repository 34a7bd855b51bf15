"""How far a call travels: the same in each run, and only what the call itself does."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from evals.performance.travel import WAYS, measure, travelling
from summarizing_context import Settings, message_text_parts, open_context

MESSAGE = {"role": "user", "content": "hello"}


def test_a_view_that_activates_travels_further_and_each_run_counts_the_same():
    ways, again = (asyncio.run(measure(60, 6_000)) for _ in range(2))
    assert [replace(way, calls=0) for way in ways] == [replace(way, calls=0) for way in again]
    assert [way.name for way in ways] == list(WAYS)
    added, plain, activated = ways
    assert 0 < max(added.changes, plain.changes) < activated.changes
    assert 1 < plain.files < activated.files


@pytest.mark.anyio
async def test_what_another_task_does_meanwhile_is_not_counted():
    async with open_context(Settings(token_counter="estimate")) as context:
        begin = asyncio.Event()

        async def beside() -> None:
            await begin.wait()
            message_text_parts(MESSAGE)

        task = asyncio.create_task(beside())
        await asyncio.sleep(0)
        with travelling() as trip:
            begin.set()
            await task
        assert (trip.calls, trip.files) == (0, set())
        with travelling() as trip:
            await context.add_message(MESSAGE)
        assert trip.calls > trip.changes > 0


@pytest.mark.anyio
async def test_what_the_call_begins_in_a_task_of_its_own_is_counted():
    async def inner() -> None:
        message_text_parts(MESSAGE)

    with travelling() as trip:
        await asyncio.create_task(inner())
    assert trip.calls > 0
