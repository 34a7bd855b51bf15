"""The thread beside the event loop: one piece of work after another, and its end."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from summarizing_context.concurrency import WorkerThread
from summarizing_context.errors import ContextClosedError

pytestmark = pytest.mark.anyio


async def test_work_is_done_in_one_thread_piece_by_piece():
    loop, threads, running = threading.get_ident(), set(), []

    def piece() -> None:
        threads.add(threading.get_ident())
        running.append(len(running))
        assert running == [0]
        running.pop()

    side = WorkerThread("side")
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(side.run, piece)
    assert len(threads) == 1
    assert loop not in threads
    await side.close()


async def test_it_starts_with_the_first_piece_and_nothing_is_left_of_it():
    before = set(threading.enumerate())
    side = WorkerThread("side")
    assert set(threading.enumerate()) == before
    assert await side.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await side.run(lambda: 1 / 0)
    assert len(set(threading.enumerate()) - before) == 1
    await side.close()
    await side.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(ContextClosedError):
        await side.run(lambda: 7)


async def test_closing_drops_what_waits_and_is_not_held_up_by_a_long_piece():
    begun, go_on = threading.Event(), threading.Event()

    def long() -> str:
        begun.set()
        go_on.wait(120)
        return "done"

    side = WorkerThread("side")
    pieces = [asyncio.ensure_future(side.run(long)) for _ in range(3)]
    while not begun.is_set():
        await anyio.lowlevel.checkpoint()
    await side.close()
    assert not go_on.is_set()
    go_on.set()
    outcomes = await asyncio.gather(*pieces, return_exceptions=True)
    assert outcomes[0] == "done"
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[1:])
