"""No message of a log is in two requests for a segment's summary of one session, wherever views were cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from summarizing_context import Settings, open_context

from . import corpus
from .builders import Message, count
from .summarizers import Counting


async def requested(log: list[Message], budget: int, **settings: object) -> tuple[Counter[int], int]:
    """How often each message was in a request for a segment's summary, parts of one group counted once; and how often
    views were cut."""
    model = Counting()
    options = Settings(max_tokens=budget, idle_after="never", **settings)
    async with open_context(options, summarizer=model, count_tokens=count) as context:
        for message in log:
            if message.get("role") == "assistant":
                await context.wait_idle()
                await context.get_messages_for_request()
            await context.add_message(message)
        await context.wait_idle()
        ranges = {(job.start, job.stop) for job in model.segments}
        return Counter(at for start, stop in ranges for at in range(start, stop)), context.statistics().activations


@pytest.mark.parametrize(("name", "budget"), [("long_session", 4_000), ("split_parallel_calls", 1_500)])
async def test_a_message_is_summarized_once_wherever_views_are_cut(name: str, budget: int) -> None:
    log = corpus.read(name)
    times, cuts = await requested(log, budget)
    assert cuts > 0
    assert len(times) > len(log) // 4
    assert [at for at, often in times.items() if often > 1] == []


async def test_a_segment_that_was_ended_ahead_of_an_activation_is_paid_once_over_processes(tmp_path: Path) -> None:
    model = Counting()
    options = Settings(max_tokens=4_000, idle_after="never", store=tmp_path / "a.db")
    log = corpus.read("long_session")[:280]
    for stop in range(40, len(log), 40):
        async with open_context(options, summarizer=model, count_tokens=count) as context:
            for message in log[stop - 40 : stop]:
                await context.add_message(message)
                if message.get("role") == "assistant" and not context.open_calls():
                    await context.get_messages_for_request()
                await context.wait_idle()
    ranges = {(job.start, job.stop) for job in model.segments}
    times = Counter(at for start, stop in ranges for at in range(start, stop))
    assert len(times) > len(log) // 4
    assert [at for at, often in times.items() if often > 1] == []
