"""Calls that work on a whole log let the event loop turn meanwhile."""

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

from summarizing_context import Settings, SummarizingContext, open_context

LENGTH = 4_000  # messages

MOST = 0.25  # of the work of a call may be done in one turn of the loop; by far less is, by far more was


def history(first: str = "begin") -> list[dict[str, str]]:
    return [
        {
            "role": "user" if number % 2 == 0 else "assistant",
            "content": f"{number} look at src/mod{number % 300}.py" if number else first,
        }
        for number in range(LENGTH)
    ]


def settings(store: Path) -> Settings:
    return Settings(store=str(store), max_tokens=16_000, token_counter="estimate", strategy="truncate")


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


async def contents(context: SummarizingContext) -> list[object]:
    return [message["content"] for message in await context.get_messages()]


async def test_restoring_a_long_log_holds_nobody_up(tmp_path: Path):
    async with open_context(settings(tmp_path / "run.db")) as context:
        await context.set_messages(history())
        there = await context.checkpoint("there")
        await context.clear()
        assert await largest_share(context.restore(there)) < MOST
        assert await contents(context) == [message["content"] for message in history()]
