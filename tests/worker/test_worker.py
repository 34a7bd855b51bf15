"""The worker: what is made in the background, and what may not stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from summarizing_context.concurrency import SHARE, Foreground, WorkerThread
from summarizing_context.errors import StoreError, SummarizerError, SummarizerRefused
from summarizing_context.log.ledger import CallReader, Detectors, SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.missing_summaries import Want
from summarizing_context.log.segments import render_entries
from summarizing_context.log.tree import Node
from summarizing_context.sessions.notices import make_notify
from summarizing_context.settings.ledger_rules import LedgerRules
from summarizing_context.stores.base import Places, StoredFailure, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.statements import error_line
from summarizing_context.summarizers.resilience.retries import RetrySchedule
from summarizing_context.worker.covered_ranges import Foreseen, merges_below
from summarizing_context.worker.jobs import Recipe
from summarizing_context.worker.worker import Worker
from tests.making import entries, session, timeline, user
from tests.worker.test_summaries import book

pytestmark = pytest.mark.anyio


class KeptSummaries:
    """A store's summaries; fails when told to."""

    name = ":memory:"

    def __init__(self) -> None:
        self.kept: dict[SummaryKey, StoredSummary] = {}
        self.fails = False
        self.before: Callable[[], None] = lambda: None

    async def find_summaries(
        self, session_id: str, keys: list[SummaryKey], places: Places
    ) -> dict[SummaryKey, StoredSummary]:
        await anyio.lowlevel.checkpoint()
        self.before()
        if self.fails:
            raise StoreError("the disk is gone")
        return {key: self.kept[key] for key in keys if key in self.kept}

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places
    ) -> StoredSummary:
        await anyio.lowlevel.checkpoint()
        if self.fails:
            raise StoreError("the disk is gone")
        return self.kept.setdefault(key, summary)

    async def save_failure(self, session_id: str, failure: StoredFailure) -> None:
        await anyio.lowlevel.checkpoint()


class Gate:
    """A summarizer behind a gate: `reply` answers, `wait` is the gate's."""

    def __init__(self, reply: Callable[[SummaryJob], Any] = lambda job: f"short {job.range_hash}") -> None:
        self.reply, self.wait = reply, 0.0
        self.jobs: list[SummaryJob] = []
        self.asked = anyio.Event()  # another one for each job
        self.running = self.most = 0

    def ready_in(self) -> float | None:
        return self.wait

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        self.jobs.append(job)
        self.asked.set()
        self.asked = anyio.Event()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await anyio.lowlevel.checkpoint()
            reply = self.reply(job)
            return SummaryReply(await reply if hasattr(reply, "__await__") else reply)
        finally:
            self.running -= 1


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time


class Shop:
    """A worker with all that it needs."""

    def __init__(self, log: MessageLog | None = None, gate: Gate | None = None, **changed: Any) -> None:
        self.gate, self.store, self.clock = gate or Gate(), KeptSummaries(), Clock()
        self.book, self.timeline, _ = book(log)
        self.book.foresee(Foreseen(range(len(self.timeline.segments))))
        self.events: list[tuple[str, dict[str, object]]] = []
        recipe = Recipe("model", "seg", "roll", True, 20, 20, lambda kind, rank, most: f"{kind} {rank}")
        given = {
            "log": self.timeline, "summaries": self.book, "store": self.store, "session_id": "s", "caller": self.gate,
            "recipe": recipe, "clock": self.clock, "concurrency": 3, "cooldown": 30.0, "start_messages": None,
            "foreground": Foreground(), "background": WorkerThread("background"),
            "rollups": True, "notify": lambda name, data: self.events.append((name, data)),
        }  # fmt: skip
        self.given = {**given, **changed}
        self.worker = Worker(**self.given)

    async def __aenter__(self) -> Shop:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.worker.stop()
        await self.given["background"].close()


async def test_it_makes_every_segment_once_and_the_merge_that_a_view_will_need():
    three = anyio.Event()

    async def reply(job: SummaryJob) -> str:
        if shop.gate.running == 3:
            three.set()
        await three.wait()
        return f"short {job.range_hash}"

    async with Shop(gate=Gate(reply)) as shop:
        assert await shop.worker.wait_idle(120)
        made = [job.range_hash for job in shop.gate.jobs if job.kind == "segment"]
        assert sorted(made) == sorted(set(shop.timeline.hashes))
        (needed,) = shop.book.needed_merges()
        merges = [node for rank in merges_below([needed]) for node in rank]
        assert [job.rank for job in shop.gate.jobs if job.kind == "rollup"] == [node.rank for node in merges]
        assert shop.book.is_ready(needed)
        assert shop.worker.pending == 0
        assert shop.gate.most == 3


async def test_a_job_says_what_it_is():
    async with Shop() as shop:
        await shop.worker.wait_idle(120)
        first = shop.gate.jobs[0]
        assert (first.kind, first.rank, first.instructions) == ("segment", 0, "segment 0")
        covered = shop.timeline.entries[first.start : first.stop]
        assert first.content == render_entries(covered)
        assert (first.start, first.stop) == (shop.timeline.segments[0].start, shop.timeline.segments[0].stop)
        rollup = next(job for job in shop.gate.jobs if job.rank == 1)
        assert rollup.content.count("### summary ") == 16


async def test_nothing_starts_before_the_log_is_long_enough():
    async with Shop() as shop:
        tokens = shop.timeline.tokens[-1]
        shop.worker.wake(tokens)
        assert await shop.worker.wait_idle(120)
        assert (shop.gate.jobs, shop.worker.pending) == ([], 0)
        shop.worker.wake(tokens - 1)
        assert await shop.worker.wait_idle(120)
        assert shop.gate.jobs


async def test_a_log_of_enough_messages_is_summarized_however_small_it_is():
    log = timeline(session(messages=150))
    for enough, works in ((len(log) + 1, False), (len(log), True)):
        async with Shop(log, start_messages=enough) as shop:
            shop.worker.wake(10**9)
            assert await shop.worker.wait_idle(120)
            assert bool(shop.gate.jobs) is works


async def test_where_no_summaries_are_to_be_made_none_is():
    async with Shop(makes_summaries=False, start_messages=1) as shop:
        assert await shop.worker.wait_idle(120)
        assert (shop.gate.jobs, shop.worker.pending) == ([], 0)


async def test_a_closed_gate_is_idle():
    async with Shop() as shop:
        shop.gate.wait = 9.0
        assert await shop.worker.wait_idle(120)
        assert shop.gate.jobs == []


async def test_what_the_store_has_is_not_made_again():
    async with Shop() as shop:
        await shop.worker.wait_idle(120)
        async with Shop(shop.timeline) as second:
            second.store.kept = shop.store.kept
            assert await second.worker.wait_idle(120)
            assert second.gate.jobs == []
        async with Shop(shop.timeline) as third:
            third.store.kept = shop.store.kept
            await third.worker.recall()
            assert third.worker.pending == 0


async def test_an_extractive_session_has_its_blocks_ready_when_it_is_opened_again():
    recipe = Recipe("extractive", "seg", "roll", True, 20, 20, lambda kind, rank, most: "")
    async with Shop(recipe=recipe) as shop:
        shop.book.foresee(Foreseen())  # a log may grow long before any view is asked for
        blocks = [Node(start, start + 16) for start in range(0, len(shop.timeline.segments) - 15, 16)]
        assert await shop.worker.wait_idle(120)
        async with Shop(shop.timeline, recipe=recipe) as again:
            again.book.foresee(Foreseen())
            again.store.kept = shop.store.kept
            await again.worker.recall()
            assert blocks
            assert all(again.book.is_ready(block) for block in blocks)


async def test_a_private_recipe_never_touches_the_store():
    recipe = Recipe("model", "seg", "roll", False, 20, 20, lambda kind, rank, most: "x")
    async with Shop(recipe=recipe) as shop:
        shop.store.fails = True
        assert await shop.worker.wait_idle(120)
        assert (shop.store.kept, shop.worker.failed, shop.worker.last_error) == ({}, 0, None)


async def test_a_store_that_fails_costs_only_the_sharing():
    async with Shop() as shop:
        shop.store.fails = True
        assert await shop.worker.wait_idle(120)
        assert (shop.worker.failed, shop.worker.pending) == (0, 0)
        assert shop.worker.last_error == "the disk is gone"


async def test_a_summary_that_the_store_failed_to_take_is_found_in_memory():
    async with Shop() as shop:
        shop.store.fails = True
        assert await shop.worker.wait_idle(120)
        asked, node = len(shop.gate.jobs), Node.leaf(0)
        want = Want(node, shop.book.hash_of(node) or "")
        assert await shop.worker._find([want])  # as when the piece of the log that it stood for comes back
        shop.store.fails = False
        assert await shop.worker._find([want])
        assert len(shop.gate.jobs) == asked


@pytest.mark.parametrize(
    "error", [SummarizerError("out"), RuntimeError("a message's text"), SummarizerRefused("empty")]
)
async def test_a_failure_rests_and_is_tried_again_later(error: Exception):
    def fail(job: SummaryJob) -> str:
        raise error

    async with Shop(gate=Gate(fail), rollups=False) as shop:
        assert await shop.worker.wait_idle(120)
        segments = len(shop.timeline.segments)
        assert len(shop.gate.jobs) == shop.worker.failed == segments
        assert "text" not in str(shop.worker.last_error)
        shop.gate.reply = lambda job: "well again"
        shop.clock.time += 31
        assert await shop.worker.wait_idle(120)
        assert shop.worker.pending == 0


async def test_a_refused_content_rests_longer_each_time():
    def refuse(job: SummaryJob) -> str:
        raise SummarizerRefused("no")

    async with Shop(gate=Gate(refuse), rollups=False) as shop:
        counts = []
        for seconds in (0, 31, 31, 31):
            shop.clock.time += seconds
            await shop.worker.wait_idle(120)
            counts.append(len(shop.gate.jobs) // len(shop.timeline.segments))
        assert counts == [1, 2, 2, 3]


async def test_an_observer_that_fails_costs_nothing():
    def bad(name: str, data: dict[str, object]) -> None:
        raise RuntimeError("observer")

    async with Shop(notify=make_notify(SimpleNamespace(emit=bad), "s1")) as shop:
        assert await shop.worker.wait_idle(120)
        assert (shop.worker.pending, shop.worker.failed) == (0, 0)


async def test_observers_hear_of_each_summary_without_its_text():
    async with Shop() as shop:
        await shop.worker.wait_idle(120)
        assert [name for name, _ in shop.events].count("summary_ready") == len(shop.gate.jobs)
        assert all(isinstance(value, str | int | float | None) for _, data in shop.events for value in data.values())
        assert not any("short " in str(data) for _, data in shop.events)


async def test_redact_runs_over_what_a_summarizer_reads():
    recipe = Recipe(
        "model", "seg", "roll", True, 20, 20, lambda kind, rank, most: "x", lambda text: text.replace("e", "*")
    )
    async with Shop(recipe=recipe) as shop:
        await shop.worker.wait_idle(120)
        assert all("e" not in job.content for job in shop.gate.jobs)


async def test_a_log_replaced_before_a_job_begins_makes_no_summary_under_a_wrong_name():
    async with Shop() as shop:
        hashes = list(shop.timeline.hashes)
        other = entries([user("quite another log " * 40)] * 40)

        def replace() -> None:
            shop.store.before = lambda: None
            shop.timeline.replace(other)
            shop.book.reset()
            shop.worker.reset()

        shop.store.before = replace
        shop.gate.reply = lambda job: f"of {job.range_hash}"
        assert await shop.worker.wait_idle(120)
        assert not {job.range_hash for job in shop.gate.jobs} & set(hashes)
        assert all(summary.text == f"of {key.range_hash}" for key, summary in shop.store.kept.items())
        assert shop.worker.failed == 0


async def test_a_log_emptied_while_a_summary_is_made_keeps_it_for_later():
    go = anyio.Event()

    async def wait() -> str:
        await go.wait()
        return "late"

    async with Shop(gate=Gate(lambda job: wait()), rollups=False) as shop:
        messages = [entry.message() for entry in shop.timeline.in_order()]
        shop.worker.wake()
        await finished(shop, 3)
        shop.timeline.replace([])
        shop.book.reset()
        shop.worker.reset()
        go.set()
        assert await shop.worker.wait_idle(120)
        assert (shop.worker.failed, len(shop.store.kept)) == (0, 3)
        asked = len(shop.gate.jobs)
        shop.timeline.replace(entries(messages))
        shop.book.reset()
        shop.worker.reset()
        assert await shop.worker.wait_idle(120)
        assert len(shop.gate.jobs) == len(shop.timeline.segments)
        assert asked == 3


async def test_waiting_does_not_keep_the_loop_busy():
    asked = []

    async def forever() -> str:
        await anyio.Event().wait()
        raise AssertionError

    gate = Gate(lambda job: forever())
    gate.ready_in = lambda: asked.append(1) or 0.0
    async with Shop(gate=gate) as shop:
        waiting = asyncio.create_task(shop.worker.wait_idle())
        await finished(shop, 3)
        await anyio.wait_all_tasks_blocked()
        assert shop.gate.running == 3
        assert len(asked) < 20
        waiting.cancel()


async def test_waiting_ends_when_its_time_is_over():
    async def forever() -> str:
        await anyio.Event().wait()
        raise AssertionError

    async with Shop(gate=Gate(lambda job: forever())) as shop:
        assert await shop.worker.wait_idle(0.01) is False


async def test_waiting_ends_when_the_worker_stops():
    async def forever() -> str:
        await anyio.Event().wait()
        raise AssertionError

    shop = Shop(gate=Gate(lambda job: forever()))
    async with anyio.create_task_group() as tasks:
        found: list[bool] = []

        async def wait() -> None:
            found.append(await shop.worker.wait_idle())

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await shop.worker.stop()
    assert found == [False]


async def test_after_stopping_nothing_runs_and_nothing_starts():
    before = asyncio.all_tasks()
    shop = Shop(gate=Gate(lambda job: anyio.sleep_forever()))
    shop.worker.wake()
    await finished(shop, 3)
    assert shop.gate.running == 3
    await shop.worker.stop()
    await shop.worker.stop()
    assert (shop.gate.running, asyncio.all_tasks() - before) == (0, set())
    shop.worker.wake()
    assert asyncio.all_tasks() - before == set()


async def test_an_owner_that_died_is_replaced():
    async with Shop() as shop:
        readings = iter([0.0, 0.0])

        def ready_in() -> float:
            if next(readings, None) is None:
                shop.gate.ready_in = lambda: 0.0  # type: ignore[method-assign]
                raise RuntimeError("a fault of the gate")
            return 0.0

        shop.gate.ready_in = ready_in  # type: ignore[method-assign]
        shop.worker.wake()
        owner = shop.worker._owner
        await asyncio.wait({owner})
        assert isinstance(owner.exception(), ExceptionGroup | RuntimeError)
        assert await shop.worker.wait_idle(120)
        assert shop.worker.pending == 0


def test_a_worker_is_made_outside_of_a_loop_and_counts_what_is_pending():
    shop = Shop(timeline(session(messages=150)), rollups=False)
    assert shop.worker.pending == len(shop.timeline.segments)


async def test_it_gives_way_to_calls_of_the_host_and_keeps_a_share():
    """One piece of work for so many calls served while there is always one under way, whatever the clock says."""
    foreground = Foreground()
    async with Shop(foreground=foreground, concurrency=8) as shop:
        with foreground.call():
            shop.worker.wake()
            for served in range(1, 5 * SHARE + 1):
                with foreground.call():
                    shop.clock.time += 60
                    await anyio.wait_all_tasks_blocked()
                if served % SHARE == 0:
                    await finished(shop, served // SHARE)
                assert len(shop.gate.jobs) == served // SHARE
        assert await shop.worker.wait_idle(120)
        assert shop.worker.pending == 0


async def finished(shop: Shop, jobs: int) -> None:
    """Wait until so many jobs were asked for: they are made in a thread."""
    with anyio.fail_after(120):
        while len(shop.gate.jobs) < jobs:
            await shop.gate.asked.wait()


async def test_it_goes_on_by_itself_when_the_last_call_is_over():
    foreground = Foreground()
    async with Shop(foreground=foreground) as shop:
        with foreground.call(), foreground.call():
            shop.worker.wake()
            await anyio.wait_all_tasks_blocked()
            assert not shop.gate.jobs
        assert await shop.worker.wait_idle(120)
        assert shop.gate.jobs


async def test_the_ledger_is_read_on_only_in_gaps():
    foreground, read = Foreground(), []

    class Ledger:
        def lags(self, *, soon: bool) -> bool:
            return len(read) < 3

        def ahead(self) -> Ledger:
            return self

        def read(self, yield_now: Callable[[int], None]) -> tuple[int, None]:
            yield_now(1)
            return threading.get_ident(), None

        def take(self, ahead: Ledger, thread: int) -> None:
            read.append(thread)

    async with Shop(foreground=foreground, ledger=Ledger()) as shop:
        with foreground.call():
            shop.worker.wake()
            await anyio.wait_all_tasks_blocked()
            assert not read
        assert await shop.worker.wait_idle(120)
        assert len(read) == 3
        assert threading.get_ident() not in read


async def test_little_is_read_for_the_ledger_ahead_where_a_view_is_about_to_activate():
    log = timeline(message for number in range(12) for message in (user(f"Decision {number}. {'word ' * 40}"),))
    ledger = SessionLedger(log, CallReader(LedgerRules(), Detectors(error_line, lambda text: [text])))
    async with Shop(log, ledger=ledger) as shop:
        shop.worker.wake(foreseen=Foreseen())
        assert await shop.worker.wait_idle(120)
        assert (ledger.lags(), ledger.lags(soon=True)) == (False, True)
        shop.worker.wake(foreseen=Foreseen(range(1)))
        assert await shop.worker.wait_idle(120)
        assert not ledger.lags(soon=True)


async def test_a_detector_that_raises_costs_what_it_cannot_read_and_nothing_else(caplog):
    def failing(text: str) -> list[str]:
        if "number 7" in text:
            raise RuntimeError("not for the log")
        return [text]

    log = timeline(user(f"Decision number {number}. {'word ' * 90}") for number in range(30))
    ledger = SessionLedger(log, CallReader(LedgerRules(), Detectors(error_line, failing)))
    async with Shop(log, ledger=ledger) as shop:
        with anyio.fail_after(60):
            assert await shop.worker.wait_idle()
        assert shop.gate.jobs
        assert shop.worker.last_error == "RuntimeError"
        assert not ledger.lags()
        assert {fact.start for fact in ledger.facts()} == set(range(30)) - {7}
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in told] == ["messages could not be read for the ledger"]
    assert "not for the log" not in caplog.text


async def test_a_ledger_that_cannot_be_read_ahead_is_given_up_and_told_once(caplog):
    class Ledger:
        def lags(self, *, soon: bool) -> bool:
            return True

        def ahead(self) -> Ledger:
            raise RuntimeError

    async with Shop(ledger=Ledger()) as shop:
        with anyio.fail_after(60):
            assert await shop.worker.wait_idle()
        assert shop.gate.jobs
        assert shop.worker.last_error == "RuntimeError"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_no_more_is_asked_for_than_a_reply_may_take_of_a_short_source():
    """A model that uses all that it is given is not refused for that."""
    given: list[int] = []
    recipe = Recipe("model", "seg", "roll", True, 100, 100, lambda kind, rank, most: f"{kind} {given.append(most)}")
    async with Shop(timeline(session(300)), Gate(lambda job: "word " * job.max_tokens), recipe=recipe) as shop:
        assert await shop.worker.wait_idle(120)
        rollups = [job for job in shop.gate.jobs if job.rank]
        assert rollups
        assert {job.max_tokens for job in shop.gate.jobs} == set(given) <= {100, 87, 75, 62, 50, 37, 25}
        assert all(job.max_tokens <= 0.4 * job.source_tokens or job.max_tokens == 25 for job in shop.gate.jobs)


async def test_sources_are_read_and_redacted_off_the_event_loop():
    """A large message takes seconds to be written down and cut."""
    threads: set[int] = set()

    def redact(text: str) -> str:
        threads.add(threading.get_ident())
        return text

    recipe = Recipe("model", "seg", "roll", True, 20, 20, lambda kind, rank, most: kind, redact)
    async with Shop(recipe=recipe) as shop:
        assert await shop.worker.wait_idle(120)
        assert threads
        assert threading.get_ident() not in threads


def test_what_is_refused_again_and_again_is_asked_for_ever_less():
    retries, now, times = RetrySchedule(30.0), 0.0, 0
    while now < 30 * 86_400:
        if not retries.rests("a", now):
            retries.note("a", SummarizerRefused("no"), now)
            times += 1
        now += 30.0
    assert times == 17
