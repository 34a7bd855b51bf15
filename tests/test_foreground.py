"""Gaps between the calls of a host, in which background work goes on."""

from __future__ import annotations

import threading

import anyio
import pytest

from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context
from summarizing_context.concurrency import SHARE, Foreground

pytestmark = pytest.mark.anyio


class Pieces:
    """Pieces of background work that wait for their gaps."""

    def __init__(self, foreground: Foreground) -> None:
        self._foreground = foreground
        self.begun = 0

    async def begin(self) -> None:
        await self._foreground.wait_gap()
        self.begun += 1


async def test_background_work_goes_on_at_once_where_no_call_is_under_way():
    foreground = Foreground()
    pieces = Pieces(foreground)
    for _ in range(3):
        await pieces.begin()
    with foreground.call():
        pass
    await pieces.begin()
    assert pieces.begun == 4


async def test_calls_without_a_pause_leave_one_gap_for_each_share():
    foreground = Foreground()
    pieces = Pieces(foreground)
    async with anyio.create_task_group() as tasks:
        with foreground.call():  # there is always one under way
            for _ in range(10):
                tasks.start_soon(pieces.begin)
            served = 0
            while served < 4 * SHARE:
                with foreground.call():
                    await anyio.wait_all_tasks_blocked()
                served += 1
                await anyio.wait_all_tasks_blocked()
                assert pieces.begun == served // SHARE
        await anyio.wait_all_tasks_blocked()
        assert pieces.begun == 10


async def test_a_call_that_fails_or_is_cancelled_is_over():
    foreground = Foreground()
    with pytest.raises(ValueError, match="no"), foreground.call():
        raise ValueError("no")
    with anyio.move_on_after(0), foreground.call():
        await anyio.sleep_forever()
    await foreground.wait_gap()


async def test_many_adders_leave_summaries_their_share_and_no_more():
    begun: list[str] = []

    class Model:
        async def summarize(self, job: SummaryJob) -> str:
            begun.append(job.range_hash)
            return "## Done\n- it was told"

    messages = iter({"role": "user", "content": f"{number}: {'word ' * 400}"} for number in range(12 * SHARE))

    async def add_all(context: SummarizingContext) -> None:
        for message in messages:
            await context.add_message(message)

    settings = Settings(max_tokens=16_000, token_counter="estimate")
    async with open_context(settings, summarizer=Model()) as context:
        async with anyio.create_task_group() as adders:
            for _ in range(64):
                adders.start_soon(add_all, context)
        assert 0 < len(begun) <= 12
        assert await context.wait_idle(120)
        assert len(begun) > 32


async def test_a_session_computes_in_one_thread_in_the_background():
    started = {thread.ident for thread in threading.enumerate()}
    async with open_context(Settings(max_tokens=8_000, token_counter="estimate")) as context:
        await context.set_messages([{"role": "user", "content": f"{at}: {'word ' * 80}"} for at in range(400)])
        await context.get_messages_for_request()
        assert await context.wait_idle(120)
        names = [thread.name for thread in threading.enumerate() if thread.ident not in started]
        assert context.statistics().summaries_ready
    assert [name for name in names if name.startswith(("background", "extractive"))] == ["background_0"]
