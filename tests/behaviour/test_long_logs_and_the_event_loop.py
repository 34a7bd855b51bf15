"""Calls that work on a whole log let the event loop turn meanwhile."""

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.behaviour.contexts import begun, said, tiny
from tests.laws.builders import user
from tests.laws.summarizers import Counting

LOG = [user("begin"), *(said(number, f"look at src/mod{number % 300}.py") for number in range(1, 4_000))]
MOST = 0.25  # of the work of a call may be done in one turn of the loop; by far less is, by far more was


async def largest_share(call: Awaitable[object]) -> float:
    """The largest share of a call's work, in all threads, that is done between two turns of another task, by clocks
    that stand still while the machine does other things."""
    turns: list[float] = []

    async def tick() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - before)
            before = now

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0)
    waiting, before = len(turns), time.process_time() - time.thread_time()
    await call
    elsewhere = time.process_time() - time.thread_time() - before  # in other threads
    await asyncio.sleep(0)
    ticking.cancel()
    work = [turn for turn in turns[waiting:] if turn > 0.0005]  # else it waits for a thread
    return max(work) / (sum(work) + elsewhere)


async def test_restoring_a_long_log_holds_nobody_up(tmp_path: Path):
    async with begun(of=tiny, store=tmp_path / "run.db", max_tokens=16_000, strategy="truncate") as context:
        await context.set_messages(LOG)
        there = await context.checkpoint("there")
        await context.clear()
        assert await largest_share(context.restore(there)) < MOST
        assert await context.get_messages() == LOG


@pytest.mark.parametrize("focus", [None, "src/mod7.py"])
async def test_an_activation_that_reads_the_past_again_holds_nobody_up(focus: str | None):
    """Without a model for a budget that was lowered; with one for a note about a topic."""
    given = {"summarizer": Counting()} if focus else {}
    async with begun(of=tiny, max_tokens=60_000, high_water=0.9, natural_ends=False, **given) as context:
        await context.set_messages(LOG)
        await context.get_messages_for_request()
        if focus is None:
            call = context.get_messages_for_request(42_000)
        else:
            await context.compact()
            await context.wait_idle()
            call = context.compact(focus=focus)
        assert await largest_share(call) < MOST
        assert context.activations()
