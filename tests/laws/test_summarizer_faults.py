"""never_waits, and whatever else a summarizer does: views come and are lawful, and what is missing is made up for."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tests.behaviour.contexts import Clock

from .builders import session
from .judge import watched
from .summarizers import FLAKY, Counting, Failing, Lying, Sleeping

QUICK: dict[str, Any] = {"call_timeout": 0.2, "attempts": 2, "breaker_failures": 4, "breaker_cooldown": 0.05}
FAULTY: dict[str, Callable[[], Any]] = {
    "sleeping": Sleeping,
    "failing": Failing,
    "flaky": lambda: Lying(*FLAKY),
    "lying": lambda: Lying("empty", "echo", "number", "nothing", "bytes"),  # none of which can serve
}
MINUTES, STEP = 10, 3.0  # of the outage; seconds from one message to the next
COOLDOWN, FAILURES, CONCURRENCY = 30.0, 4, 4
LASTING: dict[str, Any] = {
    "breaker_failures": FAILURES, "breaker_cooldown": COOLDOWN, "concurrency": CONCURRENCY, "idle_after": "never",
    "attempts": 1,  # more would wait in real seconds
}  # fmt: skip
MOST_CALLS = FAILURES + CONCURRENCY + MINUTES * 60 / COOLDOWN + 1  # to open the breaker, and a probe a cooldown


async def test_views_come_while_the_summarizer_sleeps_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    summarizer, loop, started, watching = Sleeping(), asyncio.get_running_loop(), list[Any](), set[Any]()
    original: Any = loop.call_at

    def call_at(*arguments: Any, **options: Any) -> Any:
        """Note each timer that the task starts while it waits for a view: a wait with a limit would need one."""
        started.extend(watching & {asyncio.current_task()})
        return original(*arguments, **options)

    monkeypatch.setattr(loop, "call_at", call_at)
    with anyio.fail_after(120):
        async with watched(summarizer, budget=2_000, call_timeout=3_600.0) as judge:
            for message in session(24, 160):
                await judge.add(message)
                watching.add(asyncio.current_task())
                await judge.view()
                watching.clear()
            assert judge.views > 150
            assert judge.activations > 3
            assert judge.covered > 100
            assert summarizer.calls > 0  # they were asked for, and none has answered
            statistics = judge.context.statistics()
            assert statistics.stand_ins_total >= statistics.stand_ins > 0
            assert judge.context.unseen_tokens() == 0
    assert started == []


@pytest.mark.parametrize("kind", FAULTY)
async def test_views_stay_lawful_with_a_summarizer_that_is(kind: str) -> None:
    """One that fails opens the breaker, and calls stop; a reply that cannot serve is refused and never shown."""
    summarizer = FAULTY[kind]()
    limits = {**QUICK, "breaker_cooldown": 3_600.0} if kind == "failing" else QUICK
    with anyio.fail_after(120):
        async with watched(summarizer, budget=2_000, **limits) as judge:
            await judge.live(session(45, 150))
            statistics = judge.context.statistics()
            assert judge.activations > 3
            assert judge.covered > 70
            assert summarizer.calls > 0
            assert abs(summarizer.calls - statistics.model_calls) <= 8  # those in flight may be in one count only
            assert statistics.stand_ins > 0 or kind == "flaky"
            await judge.view(1_000)
            await judge.check_log()
            await judge.context.wait_idle()
            statistics = judge.context.statistics()
            if kind == "failing":
                assert (statistics.breaker, summarizer.calls <= 4 * 2 + 8) == ("open", True)
            if kind == "lying":
                assert statistics.refused_replies > 0
                assert statistics.summaries_failed > 0
                assert (statistics.summaries_ready, bool(statistics.last_error)) == (0, True)


class Line(Counting):
    """A model behind a line that can be cut: what was asked while it was cut is counted apart."""

    is_cut, lost = False, 0

    async def answer(self, job: Any) -> str:
        if self.is_cut:
            self.lost += 1
            raise RuntimeError("the model is out")
        return await super().answer(job)


async def test_after_ten_minutes_every_gap_is_filled_exactly_once() -> None:
    line, clock, during = Line(), Clock(1_000.0), int(MINUTES * 60 / STEP)
    async with watched(line, budget=2_000, clock=clock, **LASTING) as judge:
        judge.thorough, log = 10, session(81, 480, size=40)

        async def live(start: int, stop: int) -> Any:
            for message in log[start:stop]:
                clock.time += STEP
                await judge.add(message)
                await judge.view()
                await judge.context.wait_idle(120)
            return judge.context.statistics()

        before = await live(0, 120)
        assert before.summaries_pending == before.stand_ins == 0
        assert before.segments > 3
        line.is_cut = True
        broken = await live(120, 120 + during)
        assert broken.breaker in ("open", "half_open")
        assert broken.stand_ins > 0
        assert broken.summaries_pending > 5
        line.is_cut = False
        await live(120 + during, len(log))

        # Every gap is filled, and what stood in for the model is gone with the next activation.
        clock.time += COOLDOWN
        for compacts in (False, True, True):  # the first may cover a piece of the open segment, to be summarized then
            if compacts:
                await judge.context.compact()
            await judge.view()
            await judge.context.wait_idle(120)
        after = judge.context.statistics()
        assert (after.breaker, after.summaries_pending, after.stand_ins) == ("closed", 0, 0)
        assert after.summaries_ready == after.segments > 20
        assert judge.covered > 300
        assert judge.refused == 0
        await judge.check_log()
        segments = {(node.start, node.stop) for node in judge.context.summaries()}
        assert judge.context.unseen_tokens() == 0
    answered = Counter((job.kind, job.range_hash) for job in line.jobs)
    assert set(answered.values()) == {1}
    ranges = {(job.start, job.stop) for job in line.segments}
    assert segments <= ranges
    assert len(ranges - segments) <= 2  # pieces of the open segment, which compacting has covered
    assert any(job.kind == "rollup" for job in line.jobs)
    assert 4 <= line.lost <= MOST_CALLS
