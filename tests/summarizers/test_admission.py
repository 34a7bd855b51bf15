"""When the resilient summarizer lets calls through: the breaker and the caps at work, also with many jobs at once."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from summarizing_context.errors import SummarizerError, SummarizerNotReady, SummarizerRefused, SummarizerTimeout
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.resilience.caller import ResilientSummarizer

from .scripted import GOOD, FakeClock, job, never, reply, resilient, words

pytestmark = pytest.mark.anyio


async def try_job(outer: ResilientSummarizer, outcomes: list[object] | None = None) -> None:
    outcomes = [] if outcomes is None else outcomes
    try:
        outcomes.append(await outer.summarize(job()))
    except SummarizerError as error:
        outcomes.append(error)


async def at_once(outer: ResilientSummarizer, jobs: int) -> list[object]:
    outcomes: list[object] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(jobs):
            tasks.start_soon(try_job, outer, outcomes)
    return outcomes


async def opened(*then: object) -> tuple[ResilientSummarizer, list[SummaryJob], FakeClock]:
    """A resilient summarizer whose breaker has just opened, and what its inner one will do next."""
    outer, inner, clock = resilient(OSError(), *then, breaker_failures=1)
    await try_job(outer)
    inner.asked.clear()
    inner.steps = list(then)
    return outer, inner.asked, clock


async def test_an_open_breaker_refuses_a_job_at_once_and_sends_nothing():
    outer, asked, clock = await opened(GOOD)
    assert (outer.ready_in(), outer.statistics().breaker) == (30.0, "open")
    with pytest.raises(SummarizerError, match="held back") as caught:
        await outer.summarize(job())
    assert (asked, clock.slept, caught.value.retry_after) == ([], [], 30.0)
    assert outer.statistics().failed_jobs == 1  # the one that opened it


async def test_only_a_job_that_was_not_begun_is_told_when_the_breaker_lets_the_next_through():
    outer, _, _ = resilient(OSError(), breaker_failures=1)
    told: list[object] = []
    await try_job(outer, told)
    await try_job(outer, told)
    assert [error.retry_after for error in told] == [None, 30.0]


async def test_a_job_whose_failure_opens_the_breaker_tries_no_further():
    outer, inner, _ = resilient(OSError(), breaker_failures=2, attempts=5)
    await try_job(outer)
    assert len(inner.asked) == 2


async def test_after_the_cooldown_a_good_probe_closes_the_breaker():
    outer, _, clock = await opened(GOOD)
    clock.time += 30
    assert outer.statistics().breaker == "half_open"
    assert (await outer.summarize(job())).text == GOOD
    assert (outer.statistics().breaker, outer.ready_in()) == ("closed", 0.0)


async def test_after_the_cooldown_a_failed_probe_opens_it_again_with_a_single_call():
    outer, asked, clock = await opened(OSError())
    clock.time += 30
    await try_job(outer)
    assert (len(asked), outer.ready_in()) == (1, 30.0)


async def test_replies_that_cannot_serve_open_the_breaker_too():
    outer, inner, _ = resilient("", breaker_failures=4)
    for at in range(6):
        with contextlib.suppress(SummarizerError):
            await outer.summarize(job(range_hash=f"{at:016x}"))
    assert (len(inner.asked), outer.statistics().breaker) == (7, "open")  # two calls a job, until the fourth


async def test_jobs_at_once_send_no_more_than_what_was_under_way_when_the_breaker_opened():
    outer, inner, _ = resilient(breaker_failures=4, attempts=3)

    async def fails_late(_: SummaryJob) -> str:
        await anyio.lowlevel.checkpoint()
        raise OSError

    inner.steps = [fails_late]
    outcomes = await at_once(outer, 8)
    assert all(isinstance(outcome, SummarizerError) for outcome in outcomes)
    assert len(inner.asked) <= 4 + 8
    sent = len(inner.asked)
    await at_once(outer, 8)
    assert len(inner.asked) == sent


async def test_half_open_one_of_many_jobs_is_the_probe():
    async def slowly(_: SummaryJob) -> str:
        await anyio.sleep(0.001)
        return GOOD

    outer, asked, clock = await opened(slowly)
    clock.time += 30
    outcomes = await at_once(outer, 8)
    assert len(asked) == 1
    assert sum(isinstance(outcome, SummarizerError) for outcome in outcomes) == 7
    await at_once(outer, 8)
    assert len(asked) == 9


async def test_while_the_probe_runs_no_job_may_start():
    outer, _, clock = await opened(never)
    clock.time += 30
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(try_job, outer)
        await anyio.wait_all_tasks_blocked()
        assert outer.ready_in() != 0.0
        assert outer.ready_in() > 0
        tasks.cancel_scope.cancel()
    assert outer.ready_in() == 0.0  # a cancelled probe has proved nothing


async def test_a_session_cap_ends_the_calls_for_good():
    outer, inner, clock = resilient(GOOD, max_calls_per_session=2)
    await at_once(outer, 5)
    clock.time += 1e6
    with pytest.raises(SummarizerError, match="cap of this session"):
        await outer.summarize(job())
    assert (len(inner.asked), outer.ready_in()) == (2, None)


async def test_an_hourly_cap_has_room_again_after_an_hour():
    outer, inner, clock = resilient(GOOD, max_calls_per_hour=1)
    await outer.summarize(job())
    assert outer.ready_in() == 3600
    clock.time += 3600
    await outer.summarize(job())
    assert len(inner.asked) == 2


async def test_a_cap_reached_between_two_attempts_gives_the_job_up():
    outer, inner, clock = resilient(OSError(), max_calls_per_session=1)
    await try_job(outer)
    assert (len(inner.asked), clock.slept) == (1, [])


async def test_a_caller_who_obeys_ready_in_is_not_turned_away_for_size_again_and_again():
    size = words(job().prompt)
    outer, inner, clock = resilient(GOOD, max_input_tokens_per_hour=size * 3 // 2)
    turned_away = 0
    for _ in range(6):
        wait = outer.ready_in()
        assert wait is not None
        clock.time += wait
        sent = len(inner.asked)
        await try_job(outer)
        turned_away += len(inner.asked) == sent
    assert turned_away <= 3
    assert len(inner.asked) >= 3


async def test_input_tokens_never_exceed_their_cap():
    size = words(job().prompt)
    outer, _, _ = resilient(GOOD, max_input_tokens_per_session=size * 5 // 2)
    await at_once(outer, 8)
    assert outer.statistics().input_tokens == 2 * size
    assert outer.ready_in() is None


@pytest.mark.parametrize(
    "failing", [OSError(), SummarizerError("down"), SummarizerTimeout("late"), SummarizerNotReady("later"), never]
)
async def test_a_call_without_a_reply_counts_as_a_call_and_costs_no_tokens(failing: Any):
    size = words(job().prompt)
    outer, inner, clock = resilient(failing, GOOD, call_timeout=0.01, breaker_cooldown=1, max_calls_per_session=3)
    await try_job(outer)
    clock.time += 10
    await try_job(outer)
    figures = outer.statistics()
    assert figures.model_calls == len(inner.asked) > 1
    assert figures.input_tokens == size * (figures.model_calls - 1)


async def test_failed_calls_use_up_the_caps_on_calls_and_not_those_on_tokens():
    size = words(job().prompt)
    outer, inner, _ = resilient(OSError(), attempts=10, breaker_failures=100, max_input_tokens_per_session=size)
    await try_job(outer)
    assert (len(inner.asked), outer.statistics().input_tokens, outer.ready_in()) == (10, 0, 0.0)
    outer, inner, _ = resilient(OSError(), attempts=10, breaker_failures=100, max_calls_per_hour=4)
    await try_job(outer)
    assert len(inner.asked) == 4
    assert outer.ready_in()


async def test_a_call_under_way_keeps_its_tokens_from_others():
    size = words(job().prompt)
    outer, inner, _ = resilient(never, call_timeout=3_600, attempts=1, max_input_tokens_per_session=size)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(at_once, outer, 8)
        await anyio.wait_all_tasks_blocked()
        assert len(inner.asked) == 1
        tasks.cancel_scope.cancel()


async def test_a_reply_that_its_summarizer_refuses_is_paid_for():
    outer, inner, _ = resilient(SummarizerRefused("declined"), GOOD)
    await outer.summarize(job())
    assert outer.statistics().input_tokens == sum(words(asked.prompt) for asked in inner.asked)


async def test_reported_usage_counts_against_the_caps():
    outer, _, _ = resilient(reply(input_tokens=5000), max_input_tokens_per_session=5000)
    await outer.summarize(job())
    assert outer.ready_in() is None


async def test_a_cap_is_warned_of_once_at_four_fifths_and_once_when_it_is_reached(caplog: pytest.LogCaptureFixture):
    outer, _, _ = resilient(GOOD, max_calls_per_session=5)
    with caplog.at_level(logging.WARNING):
        for used in range(1, 6):
            await outer.summarize(job())
            assert len(caplog.records) == (used >= 4) + (used >= 5)
    assert caplog.messages[0] == "summarizer: 4 of 5 used of max_calls_per_session"
    assert "max_calls_per_session = 5 is reached" in caplog.messages[1]


@pytest.mark.parametrize(("told", "wait"), [(5.0, 5.0), (None, 30.0)])
async def test_a_summarizer_that_is_not_ready_has_not_failed_and_is_left_in_peace(told: float | None, wait: float):
    outer, inner, clock = resilient(SummarizerNotReady(retry_after=told), breaker_failures=2)
    outcomes = await at_once(outer, 4)
    assert [(type(error), error.retry_after) for error in outcomes] == [(SummarizerNotReady, wait)] * 4
    figures = outer.statistics()
    assert (figures.breaker, figures.failed_jobs, figures.last_error) == ("closed", 0, None)
    assert (outer.ready_in(), clock.slept) == (wait, []), "no attempt is tried again"
    clock.time, inner.steps = clock.time + wait, [GOOD]
    assert (await outer.summarize(job())).text == GOOD
