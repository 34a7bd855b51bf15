"""Stand-ins: what a view shows of segments without a summary is read in threads, ahead of need where that is near."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SummarizerError, SummarizingContext, SummaryJob, open_context
from summarizing_context.log.tree import Node
from summarizing_context.summarizers.extractive import summarizer

pytestmark = pytest.mark.anyio

Message = dict[str, Any]


class Reading:
    """How often the extractive passes of a session are asked to read, in the event loop's thread and in others."""

    def __init__(self) -> None:
        self._loop = threading.get_ident()
        self.in_loop = 0
        self.in_threads = 0
        self.allowed = threading.Event()
        self.allowed.set()

    def noted(self, read: Callable[..., str]) -> Callable[..., str]:
        def noting(*given: Any, **named: Any) -> str:
            if threading.get_ident() == self._loop:
                self.in_loop += 1
            else:
                self.in_threads += 1
                assert self.allowed.wait(60)
            return read(*given, **named)

        return noting


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    noted = Reading()
    for name in ("summarize_extractively", "skim"):
        monkeypatch.setattr(summarizer, name, noted.noted(getattr(summarizer, name)))
    return noted


class NoModel:
    """A model that is down."""

    async def summarize(self, job: SummaryJob) -> str:
        raise SummarizerError("down")


def said(at: int, words: int = 700) -> Message:
    return {"role": "user" if at % 2 else "assistant", "content": f"[{at}] " + "word " * words}


@asynccontextmanager
async def opened(messages: int, **settings: Any) -> AsyncIterator[SummarizingContext]:
    """A log of which nothing is summarized."""
    given = Settings(**{"max_tokens": 8_000, "token_counter": "estimate", "idle_after": None, **settings})
    async with open_context(given, summarizer=NoModel()) as context:
        await context.set_messages([said(at) for at in range(messages)])
        yield context


def numbers(view: list[Message]) -> Iterator[int]:
    """The messages that a view shows word for word."""
    for message in view:
        if isinstance(message["content"], str) and (found := re.match(r"\[(\d+)\] ", message["content"])):
            yield int(found[1])


async def test_a_first_view_of_a_long_log_reads_no_segment_in_the_event_loop(reading: Reading):
    async with opened(600) as context:
        await context.get_messages_for_request()
        assert context.activations()[0].stand_ins
        assert len(context._session.log.segments) > 80
    assert reading.in_loop == 0
    assert reading.in_threads > 80


async def test_no_later_activation_reads_a_segment_in_the_event_loop(reading: Reading):
    async with opened(8) as context:
        for at in range(8, 80):
            await context.add_message(said(at))
            await context.get_messages_for_request()
        assert len(context.activations()) > 4
    assert reading.in_loop == 0
    assert reading.in_threads


async def test_what_an_activation_will_need_is_read_before_it(reading: Reading):
    late = 0
    async with opened(0) as context:
        for at in range(340):  # its activations all cover whole segments
            await context.add_message(said(at, 100))
            await context.wait_idle(60)
            before, count = reading.in_threads, len(context.activations())
            await context.get_messages_for_request()
            late += reading.in_threads - before if len(context.activations()) > count else 0
        assert sum(record.stand_ins > 0 for record in context.activations()) > 4
    assert reading.in_threads > 4
    assert late == 0


async def test_a_log_that_grows_all_the_while_gets_a_first_view_without_a_gap(reading: Reading):
    async with opened(600) as context:
        shown: list[list[Message]] = []
        added = 600
        reading.allowed.clear()  # no segment is read before ten more messages came

        async def show() -> None:
            shown.append(await context.get_messages_for_request())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show)
            while not shown:
                await context.add_message(said(added, 60))
                added += 1
                if added > 610:
                    reading.allowed.set()
        first = shown[0]
        covered = max(int(stop) for stop in re.findall(r'<summary messages="\d+-(\d+)">', str(first)))
        tail = [at for at in numbers(first) if at > covered]
        assert tail == list(range(covered + 1, tail[-1] + 1))
        assert 600 <= tail[-1] < added
        activations = len(context.activations())
        second = await context.get_messages_for_request()
        assert list(numbers(second))[-1] == added - 1
        if len(context.activations()) == activations:
            assert second[: len(first)] == first
    assert reading.in_loop == 0


async def test_a_stand_in_is_released_once_its_summary_is_there():
    async with opened(60) as context:
        await context.get_messages_for_request()
        summaries, log = context._session.summaries, context._session.log
        covered = [hash for hash in log.hashes if hash in summaries._made]
        assert covered
        for leaf, hash in enumerate(log.hashes):
            summaries.add(Node.leaf(leaf), hash, summaries.text_of(Node.leaf(leaf))._replace(made_by="model"))
        assert not summaries._made
        assert not summaries._read
        assert not summaries._merged or all(not summaries.is_known(node) for node in summaries._merged)
