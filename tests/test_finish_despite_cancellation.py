"""Work that is seen to its end although the caller is cancelled."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from summarizing_context.concurrency import finish_despite_cancellation

pytestmark = pytest.mark.anyio


class Work:
    """Ends when `end` is set, with `failure` if that is given."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.end, self.failure, self.ended = anyio.Event(), failure, False

    async def run(self) -> str:
        await self.end.wait()
        self.ended = True
        if self.failure is not None:
            raise self.failure
        return "done"


async def cancelled(work: Work) -> asyncio.Task[str]:
    """A task that awaits the work and was cancelled meanwhile; it goes on."""
    task = asyncio.ensure_future(finish_despite_cancellation(work.run()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    work.end.set()
    await asyncio.wait({task})
    return task


async def test_what_the_work_returns_or_raises_is_passed_on():
    work, failing = Work(), Work(ValueError("no"))
    work.end.set()
    failing.end.set()
    assert await finish_despite_cancellation(work.run()) == "done"
    with pytest.raises(ValueError, match="no"):
        await finish_despite_cancellation(failing.run())


@pytest.mark.parametrize("failure", [None, ValueError("no")])
async def test_a_cancellation_waits_for_the_end_and_is_passed_on(failure: Exception | None):
    work = Work(failure)
    task = await cancelled(work)
    assert task.cancelled()
    assert work.ended


async def test_a_cancelled_scope_waits_for_the_end_too():
    work = Work()
    with anyio.move_on_after(0) as scope:
        asyncio.get_running_loop().call_later(0.002, work.end.set)
        await finish_despite_cancellation(work.run())
    assert scope.cancelled_caught
    assert work.ended
