"""Retries, refusals and time limits of one job, and what is counted and told about them."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import tenacity

from summarizing_context.errors import (
    SummarizerError,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.resilience.caller import ResilientSummarizer
from summarizing_context.summarizers.resilience.limits import Limits

from .scripted import CONTENT, GOOD, SECRET, FakeClock, ScriptedSummarizer, job, never, reply, resilient, words

pytestmark = pytest.mark.anyio


async def failure(outer, asked: SummaryJob | None = None) -> SummarizerError:
    with pytest.raises(SummarizerError) as caught:
        await outer.summarize(asked or job())
    return caught.value


async def cancelled_when_it_waits(outer: ResilientSummarizer) -> bool:
    """Begin a job and cancel it once it waits for something; whether the cancellation went on."""
    scope = anyio.CancelScope()

    async def begin() -> None:
        with scope:
            await outer.summarize(job())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    return scope.cancelled_caught


async def test_a_good_reply_comes_back_with_its_cost_filled_in():
    outer, inner, _ = resilient(f"```\n{GOOD}\n```")
    got = await outer.summarize(job())
    assert (got.text, got.input_tokens, got.output_tokens) == (GOOD, words(job().prompt), words(GOOD))
    assert inner.asked == [job()]


async def test_reported_usage_goes_before_estimates():
    outer, _, _ = resilient(reply(input_tokens=777, output_tokens=33))
    got = await outer.summarize(job())
    figures = outer.statistics()
    assert (got.input_tokens, got.output_tokens) == (figures.input_tokens, figures.output_tokens) == (777, 33)


async def test_a_failed_call_is_tried_again_after_a_growing_wait():
    outer, inner, clock = resilient(OSError(), ValueError(), GOOD)
    assert (await outer.summarize(job())).text == GOOD
    assert [asked.attempt for asked in inner.asked] == [1, 2, 3]
    assert 0.5 <= clock.slept[0] <= 1
    assert 0.5 <= clock.slept[1] <= 2
    assert outer.statistics().failed_jobs == 0


async def test_a_job_is_given_up_after_its_attempts_and_keeps_the_cause():
    error = ConnectionError("refused")
    outer, inner, _ = resilient(error, attempts=3)
    raised = await failure(outer)
    assert (type(raised), raised.__cause__, len(inner.asked)) == (SummarizerError, error, 3)
    assert (outer.statistics().failed_jobs, outer.statistics().model_calls) == (1, 3)


@pytest.mark.parametrize("kind", [SummarizerRateLimited, SummarizerTimeout, SummarizerRefused])
async def test_the_kind_of_the_last_failure_is_kept(kind: type[SummarizerError]):
    outer, _, _ = resilient(kind("x"))
    assert type(await failure(outer)) is kind


class Odd(SummarizerError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


async def test_errors_of_any_make_are_survived():
    for error in (Odd(1, 2), StopAsyncIteration(), ExceptionGroup("g", [ValueError()]), asyncio.InvalidStateError()):
        outer, _, _ = resilient(error)
        assert isinstance(await failure(outer), SummarizerError)


async def test_a_summarizer_that_is_not_async_is_a_failed_attempt():
    class Plain:
        def summarize(self, job: SummaryJob) -> str:
            return GOOD

    clock = FakeClock()
    outer = ResilientSummarizer(Plain(), limits=Limits(), clock=clock, count=words, sleep=clock.sleep)
    assert "TypeError" in str(await failure(outer))


class ApiError(Exception):
    status_code = 503


@pytest.mark.parametrize("bad", [ApiError(SECRET), SummarizerRefused(SECRET), reply("Error: " + SECRET)])
async def test_what_is_told_of_a_failure_holds_no_text_of_messages_or_replies(bad: object):
    outer, _, _ = resilient(bad)
    raised = await failure(outer)
    assert SECRET not in f"{raised} {raised!r} {outer.statistics()}"
    assert job().range_hash[:8] in str(raised)


async def test_a_status_code_and_the_cause_of_a_failure_are_told():
    async def wrapped(_: SummaryJob) -> str:
        raise SummarizerError(SECRET) from ApiError(SECRET)

    outer, _, _ = resilient(wrapped)
    await failure(outer)
    assert outer.statistics().last_error == "SummarizerError from ApiError 503"


async def test_retry_after_is_waited_for():
    outer, _, clock = resilient(SummarizerRateLimited("x", retry_after=20), GOOD)
    await outer.summarize(job())
    assert clock.slept == [20]


async def test_while_a_job_waits_for_retry_after_no_other_should_start():
    outer, _, _ = resilient(SummarizerError("x", retry_after=20), attempts=1)
    await failure(outer)
    assert outer.ready_in() == 20


async def test_retry_after_beyond_the_job_s_time_gives_the_job_up_at_once():
    outer, inner, clock = resilient(SummarizerRateLimited("x", retry_after=600), job_timeout=180)
    raised = await failure(outer)
    assert (type(raised), raised.retry_after) == (SummarizerRateLimited, 600)
    assert (len(inner.asked), clock.slept, outer.ready_in()) == (1, [], 600)
    assert outer.statistics().breaker == "open"
    clock.time += 600
    assert outer.ready_in() == 0.0


async def test_no_pause_is_longer_than_an_hour():
    outer, _, _ = resilient(SummarizerError("x", retry_after=1e9))
    assert ((await failure(outer)).retry_after, outer.ready_in()) == (3600, 3600)


@pytest.mark.parametrize("asked", [-5, float("nan"), float("inf"), "soon", True, None])
async def test_retry_after_that_is_no_number_of_seconds_is_ignored(asked: object):
    outer, _, clock = resilient(SummarizerError("x", retry_after=asked), GOOD)
    await outer.summarize(job())
    assert clock.slept[0] <= 1


async def test_no_wait_goes_beyond_the_job_s_time():
    outer, inner, clock = resilient(OSError(), job_timeout=0.4)
    await failure(outer)
    assert (len(inner.asked), clock.slept) == (1, [])


async def test_calls_that_use_up_the_job_s_time_end_it():
    outer, inner, clock = resilient()

    async def slow(_: SummaryJob) -> str:
        clock.time += 100
        raise OSError

    inner.steps = [slow]
    await failure(outer)
    assert len(inner.asked) == 2


async def test_a_call_without_a_reply_times_out():
    outer, inner, _ = resilient(never, call_timeout=0.005, attempts=2)
    assert type(await failure(outer)) is SummarizerTimeout
    assert len(inner.asked) == 2


async def test_a_call_gets_no_more_than_what_is_left_of_the_job_s_time():
    outer, _, _ = resilient(never, call_timeout=3600, job_timeout=0.005, attempts=1)
    assert type(await failure(outer)) is SummarizerTimeout


async def test_a_refused_reply_gets_one_more_try_at_once_and_tersely():
    outer, inner, clock = resilient("", GOOD)
    assert (await outer.summarize(job())).text == GOOD
    first, second = inner.asked
    assert second.instructions.startswith(first.instructions)
    assert f"at most {job().max_tokens // 2} words" in second.instructions
    assert (second.content, second.attempt, clock.slept) == (first.content, 2, [0])
    assert outer.statistics().refused_replies == 1


@pytest.mark.parametrize("second", ["", OSError()])
async def test_whatever_becomes_of_the_terse_try_no_further_one_is_made(second: object):
    outer, inner, _ = resilient("", second, GOOD, attempts=5)
    await failure(outer)
    assert len(inner.asked) == 2


@pytest.mark.parametrize("bad", ["", CONTENT, 7, None, reply(truncated=True), "Internal Server Error"])
async def test_a_reply_refused_twice_gives_the_job_up(bad: object):
    outer, inner, _ = resilient(bad)
    assert type(await failure(outer)) is SummarizerRefused
    assert (len(inner.asked), outer.statistics().refused_replies) == (2, 2)


async def test_refused_replies_are_paid_for_all_the_same():
    outer, _, _ = resilient(reply("", input_tokens=500, output_tokens=5), reply(input_tokens=600, output_tokens=7))
    await outer.summarize(job())
    figures = outer.statistics()
    assert (figures.model_calls, figures.input_tokens, figures.output_tokens) == (2, 1100, 12)
    assert (figures.refused_input_tokens, figures.refused_output_tokens) == (500, 5)


async def test_what_a_refused_reply_took_is_counted_also_where_the_provider_does_not_tell():
    outer, inner, _ = resilient("- HAT-4711", GOOD)
    await outer.summarize(job())
    figures = outer.statistics()
    assert figures.refused_input_tokens == words(inner.asked[0].prompt) > 0
    assert (figures.refused_replies, figures.refused_output_tokens) == (1, words("- HAT-4711"))


async def test_recipe_and_model_of_the_inner_summarizer_show_through():
    plain, inner, _ = resilient(GOOD)
    assert (plain.recipe, plain.model) == (None, None)
    inner.recipe, inner.model = "mine/1", "m"  # type: ignore[attr-defined]
    outer = ResilientSummarizer(inner, limits=Limits(), clock=FakeClock(), count=words)
    assert (outer.recipe, outer.model) == ("mine/1", "m")
    inner.recipe = 5
    assert ResilientSummarizer(inner, limits=Limits(), clock=FakeClock(), count=words).recipe is None


async def test_a_cancelled_job_counts_as_nothing_and_the_cancellation_goes_on():
    outer, inner, _ = resilient(never)
    assert await cancelled_when_it_waits(outer)
    figures = outer.statistics()
    assert (figures.failed_jobs, figures.last_error, figures.breaker, len(inner.asked)) == (0, None, "closed", 1)


async def test_a_natively_cancelled_job_counts_as_nothing_and_the_cancellation_goes_on():
    outer, _, _ = resilient(never)
    task = asyncio.create_task(outer.summarize(job()))
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert outer.statistics().failed_jobs == 0


async def test_a_job_cancelled_in_its_wait_makes_no_further_call():
    inner = ScriptedSummarizer([OSError()])
    outer = ResilientSummarizer(
        inner, limits=Limits(), clock=FakeClock(), count=words, sleep=lambda _: anyio.sleep_forever()
    )
    assert await cancelled_when_it_waits(outer)
    assert len(inner.asked) == 1


class Stop(BaseException):
    """What no `except Exception` catches."""


async def test_what_is_no_exception_is_a_failed_attempt_like_any_other():
    outer, inner, _ = resilient(Stop(), Stop(), Stop())
    await failure(outer, job())
    assert len(inner.asked) == 3


async def test_the_job_s_own_objects_are_left_as_they_are():
    outer, _, _ = resilient("", OSError())
    asked = job()
    await failure(outer, asked)
    assert asked == job()


async def test_a_wait_that_took_too_long_leaves_no_time_for_a_call():
    inner, clock = ScriptedSummarizer([OSError()]), FakeClock()

    async def oversleep(_: float) -> None:
        await clock.sleep(1000)

    outer = ResilientSummarizer(inner, limits=Limits(), clock=clock, count=words, sleep=oversleep)
    assert type(await failure(outer)) is SummarizerError
    assert len(inner.asked) == 1


async def test_tenacity_drives_the_attempts(monkeypatch: pytest.MonkeyPatch):
    driven: list[object] = []
    real = tenacity.AsyncRetrying.__call__

    async def watched(self, attempt, *arguments):
        driven.append(attempt)
        return await real(self, attempt, *arguments)

    monkeypatch.setattr(tenacity.AsyncRetrying, "__call__", watched)
    outer, inner, clock = resilient(OSError(), GOOD)
    await outer.summarize(job())
    assert (len(driven), len(inner.asked), len(clock.slept)) == (1, 2, 1)
