"""Gaps between the calls of a host, in which background work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context
from summarizing_context.concurrency import SHARE, STEP, Foreground, Steps
from summarizing_context.extraction.rules import CueRules
from summarizing_context.log.entries import RuleReader, make_entry
from summarizing_context.log.intake import Intake
from summarizing_context.log.ledger import CallReader, Detectors
from summarizing_context.log.segments import render_entries
from summarizing_context.messages.counters import EstimateCounter
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.rendering import render_children
from summarizing_context.messages.truncation import cut_evenly
from summarizing_context.settings.ledger_rules import LedgerRules
from summarizing_context.summarizers.extractive.statements import error_line, quotes
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.views.tail import MessageReader

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


async def test_a_piece_that_is_cancelled_while_it_waits_takes_no_gap():
    foreground = Foreground()
    pieces = Pieces(foreground)
    with foreground.call():
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(pieces.begin)
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pieces.begin)
            for _ in range(SHARE):
                with foreground.call():
                    pass
                await anyio.wait_all_tasks_blocked()
            assert pieces.begun == 1


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


async def test_adding_and_showing_a_long_message_is_a_call_under_way():
    busy: list[bool] = []

    def count(text: str) -> int:
        if opened:
            busy.append(opened[0]._session.foreground.is_busy)
        return len(text) // 4

    opened: list[SummarizingContext] = []
    blocks = [{"type": "text", "text": f"{number}: {'word ' * 200}"} for number in range(400)]
    async with open_context(Settings(max_tokens=4_000), count_tokens=count) as context:
        opened.append(context)
        for step in (context.add_message({"role": "user", "content": blocks}), context.get_messages_for_request()):
            busy.clear()
            await step
            assert busy
            assert all(busy)
        busy.clear()
        await context.recall("word 17")
        assert any(busy)  # while the page is made
        assert not context._session.foreground.is_busy


async def test_a_view_in_many_slices_looks_at_each_message_of_a_step_a_few_times_only(monkeypatch: pytest.MonkeyPatch):
    calls = 600
    reads: list[int] = []
    read = MessageReader.read
    monkeypatch.setattr(MessageReader, "read", lambda self, index: (reads.append(index), read(self, index))[1])
    made = [{"id": f"c{at}", "type": "function", "function": {"name": "run", "arguments": "{}"}} for at in range(calls)]
    async with open_context(Settings(max_tokens=4_000, token_counter="estimate")) as context:
        await context.add_message({"role": "user", "content": "go on"})
        await context.add_message({"role": "assistant", "content": "", "tool_calls": made})
        for at in range(calls):
            await context.add_message({"role": "tool", "tool_call_id": f"c{at}", "content": f"{at} " + "data " * 9})
        reads.clear()
        await context.get_messages_for_request()
    assert calls < len(reads) < 8 * calls


async def test_replacing_the_log_leaves_the_event_loop_a_turn_after_every_hundred_messages():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    intake = Intake(EstimateCounter(), anyio.to_thread.run_sync, RuleReader(CueRules()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        await anyio.sleep(0.01)
        turns = 0
        await intake.all([{"role": "user", "content": str(at)} for at in range(1_000)], [])
        tasks.cancel_scope.cancel()
    assert turns >= 9


def test_a_background_thread_pauses_while_a_call_is_running_and_not_for_ever(monkeypatch: pytest.MonkeyPatch):
    delays: list[float] = []
    monkeypatch.setattr("summarizing_context.concurrency.time.sleep", delays.append)
    foreground = Foreground()
    foreground.yield_to_calls()
    assert delays == []
    with foreground.call():
        foreground.yield_to_calls()
    assert 0 < len(delays) < 1_000
    assert sum(delays) < 0.1  # seconds: the background keeps a share beside a host that always calls


def test_a_thread_gives_way_after_each_step_however_small_the_pieces_are(monkeypatch: pytest.MonkeyPatch):
    given: list[int] = []
    foreground = Foreground()
    monkeypatch.setattr(foreground, "yield_to_calls", lambda: given.append(read))
    steps = Steps(foreground)
    read = 0
    while read < 10 * STEP:
        steps.yield_now(10)
        read += 10
    assert given == list(range(0, 10 * STEP, STEP))
    steps.yield_now(50 * STEP)
    steps.yield_now(1)
    assert len(given) == 12


BLOCKS = 400
SAID = "We keep the port at 8123 and write src/file{0}.py; the test {0} failed.\n"
ROWS = [{"role": "user", "content": f"{at}: {SAID.format(at) * 5}"} for at in range(BLOCKS)]
ENTRIES = [make_entry(row, estimate_text, "estimate") for row in ROWS]
READINGS = [(at, entry.read(at).reading) for at, entry in enumerate(ENTRIES)]
CONTENT = render_entries(ENTRIES)
CHILDREN = render_children([CONTENT[at : at + 2_000] for at in range(0, len(CONTENT), 2_000)])
READER = CallReader(LedgerRules(), Detectors(error_line, quotes))


@pytest.mark.parametrize(
    "work",
    [
        lambda yield_now: render_entries(ENTRIES, yield_now=yield_now),
        lambda yield_now: cut_evenly(CONTENT, 8, yield_now),
        lambda yield_now: summarize_extractively(CONTENT, max_tokens=400, count=estimate_text, yield_now=yield_now),
        lambda yield_now: summarize_extractively(
            CHILDREN, kind="rollup", max_tokens=400, count=estimate_text, yield_now=yield_now
        ),
        lambda yield_now: READER.touches(READINGS, yield_now),
    ],
    ids=["render", "cut", "summarize", "roll up", "read for the ledger"],
)
def test_background_work_gives_way_all_along(work: Callable[[Callable[[int], None]], object]):
    told: list[int] = []
    work(told.append)
    assert sum(told) > 0.8 * sum(len(row["content"]) for row in ROWS)
    assert sum(size > STEP for size in told) <= 3  # between the sections of a summary; no loop takes as much at once


async def test_a_session_computes_in_one_thread_in_the_background():
    started = {thread.ident for thread in threading.enumerate()}
    async with open_context(Settings(max_tokens=8_000, token_counter="estimate")) as context:
        await context.set_messages(ROWS)
        await context.get_messages_for_request()
        assert await context.wait_idle(120)
        names = [thread.name for thread in threading.enumerate() if thread.ident not in started]
        assert context.statistics().summaries_ready
    assert [name for name in names if name.startswith(("background", "extractive"))] == ["background_0"]
