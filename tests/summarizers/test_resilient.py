"""Retries, refusals, time limits, breaker and caps of the calls for summaries, and what is counted and told of them."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings
from summarizing_context.errors import (
    SettingsError,
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience import ResilientSummarizer
from tests.behaviour.contexts import Clock

from .scripted import GOOD, JOB, SECRET, job

SIZE = estimate_text(JOB.prompt)


class Scripted:
    """Answers each call with the next step, the last one for ever: what to reply, to raise, or to await."""

    def __init__(self, *steps: Any) -> None:
        self.steps: tuple[Any, ...] = steps
        self.asked: list[SummaryJob] = []
        self.slept: list[float] = []

    async def summarize(self, job: SummaryJob) -> Any:
        step = self.steps[min(len(self.asked), len(self.steps) - 1)]
        self.asked.append(job)
        if isinstance(step, BaseException):
            raise step
        return await step(job) if callable(step) else step


def resilient(*steps: Any, **limits: Any) -> tuple[ResilientSummarizer, Scripted, Clock]:
    """A resilient summarizer around a scripted one, with its clock, which only a test, or `sleep`, moves."""
    inner, clock = Scripted(*steps), Clock(1_000.0)

    async def sleep(seconds: float) -> None:
        inner.slept.append(seconds)
        clock.time += seconds
        await asyncio.sleep(0)

    return ResilientSummarizer(inner, settings=Settings(**limits), clock=clock, sleep=sleep), inner, clock


async def never(_: SummaryJob) -> None:
    await anyio.sleep_forever()


async def failure(outer: Any, **changes: Any) -> SummarizerError:
    with pytest.raises(SummarizerError) as caught:
        await outer.summarize(job(**changes))
    return caught.value


async def at_once(outer: Any, jobs: int) -> list[object]:
    return await asyncio.gather(*(outer.summarize(job()) for _ in range(jobs)), return_exceptions=True)


async def test_a_failed_call_is_tried_again_after_a_growing_wait_and_then_given_up():
    outer, inner, _ = resilient(OSError(), ValueError(), GOOD, ConnectionError("refused"))
    assert (await outer.summarize(job())).text == GOOD
    assert [asked.attempt for asked in inner.asked] == [1, 2, 3]
    assert all(0.5 <= wait <= most for wait, most in zip(inner.slept, (1, 2), strict=True))
    raised = await failure(outer)
    assert (type(raised), type(raised.__cause__), len(inner.asked)) == (SummarizerError, ConnectionError, 6)
    assert (outer.statistics().failed_jobs, outer.statistics().model_calls) == (1, 6)


@pytest.mark.parametrize("kind", [SummarizerRateLimited, SummarizerTimeout, SummarizerRefused])
async def test_the_kind_of_a_failure_is_kept_and_its_words_are_not_told(kind: type[SummarizerError]):
    failed = kind(SECRET)
    failed.__cause__ = type("ApiError", (Exception,), {"status_code": 503})(SECRET)
    outer, _, _ = resilient(failed)
    raised = await failure(outer)
    assert type(raised) is kind
    assert SECRET not in f"{raised} {raised!r} {outer.statistics()}"
    assert JOB.range_hash[:8] in str(raised)
    assert outer.statistics().last_error == f"{kind.__name__} from ApiError 503"


async def test_retry_after_is_waited_for_and_beyond_the_job_s_time_gives_it_up():
    outer, inner, clock = resilient(SummarizerRateLimited("x", retry_after=20), GOOD)
    await outer.summarize(job())
    assert inner.slept == [20]
    inner.steps = (SummarizerRateLimited("x", retry_after=600),)
    raised = await failure(outer)
    assert (type(raised), raised.retry_after, outer.ready_in()) == (SummarizerRateLimited, 600, 600)
    assert (inner.slept, outer.statistics().breaker) == ([20], "open")
    clock.time += 600
    inner.steps = (SummarizerError("x", retry_after=1e9),)
    assert ((await failure(outer)).retry_after, outer.ready_in()) == (3600, 3600)  # no pause is longer than an hour

    for asked in (-5, float("nan"), float("inf"), "soon", True, None):  # no number of seconds
        outer, inner, _ = resilient(SummarizerError("x", retry_after=asked), GOOD)
        await outer.summarize(job())
        assert inner.slept[0] <= 1, asked


async def test_a_call_without_a_reply_times_out_and_nothing_goes_beyond_the_job_s_time():
    outer, inner, _ = resilient(never, call_timeout=0.35, attempts=2)
    assert type(await failure(outer)) is SummarizerTimeout
    assert len(inner.asked) == 2
    outer, inner, _ = resilient(OSError(), call_timeout=0.1)
    await failure(outer)
    assert (len(inner.asked), inner.slept) == (1, [])


async def test_a_refused_reply_gets_one_more_try_at_once_and_tersely_and_both_are_paid_for():
    outer, inner, _ = resilient(SummaryReply("", 500, 5), SummaryReply(GOOD, 600), "", OSError())
    assert (await outer.summarize(job())).text == GOOD
    first, second = inner.asked
    assert second.instructions.startswith(first.instructions)
    assert f"at most {JOB.max_tokens // 2} words" in second.instructions
    assert (second.content, second.attempt, inner.slept) == (first.content, 2, [0])
    figures = outer.statistics()
    assert (figures.refused_replies, figures.model_calls, figures.input_tokens) == (1, 2, 1100)
    assert (figures.refused_input_tokens, figures.refused_output_tokens) == (500, 5)
    await failure(outer)
    assert len(inner.asked) == 4, "whatever becomes of the terse try, no further one is made"


async def test_a_short_summary_is_taken_whole_whatever_it_speaks_of():
    for text in (
        *("500 users were migrated to the new table.", "404 - the page is missing; fixed in a.py."),
        *("An import error occurred in a.py, which is fixed.", "Sure, the summary route returns 404: fix in a.py"),
        "Here is how to summarize results: run a.py",
    ):
        outer, _, _ = resilient(text)
        assert (await outer.summarize(job(content=f"{JOB.content}\n{text} So it is."))).text == text


@pytest.mark.parametrize("ends", ["well", "cancelled"])
async def test_a_call_from_before_the_breaker_opened_and_a_cancelled_probe_decide_nothing(ends: str):
    released = asyncio.Event()

    async def late(_: SummaryJob) -> str:
        await released.wait()
        return GOOD

    outer, inner, clock = resilient(late, OSError(), never, breaker_failures=1)
    old = asyncio.create_task(outer.summarize(job()))
    await anyio.sleep(0.01)
    await failure(outer)
    clock.time += 30
    assert type(await failure(outer, kind="rules")) is SummarizerNotReady, "a job for rules is no probe"
    probe = asyncio.create_task(outer.summarize(job()))
    await anyio.sleep(0.01)
    _ = released.set() if ends == "well" else old.cancel()
    await asyncio.wait({old})
    assert (outer.statistics().breaker, outer.ready_in()) == ("half_open", 1.0), "the probe is still under way"
    await at_once(outer, 3)
    assert len(inner.asked) == 3
    probe.cancel()
    await asyncio.wait({probe})
    assert (outer.ready_in(), outer.statistics().breaker) == (0.0, "half_open"), "it has proved nothing"
    inner.steps = (GOOD,)
    assert (await outer.summarize(job())).text == GOOD


async def test_a_session_cap_ends_the_calls_and_an_hourly_one_has_room_again_after_an_hour():
    outer, inner, clock = resilient(GOOD, max_calls_per_session=2)
    await at_once(outer, 5)
    clock.time += 1e6
    assert "cap of this session" in str(await failure(outer))
    assert (len(inner.asked), outer.ready_in()) == (2, None)
    outer, inner, clock = resilient(GOOD, max_input_tokens_per_hour=SIZE * 3 // 2)
    for _ in range(2):
        await at_once(outer, 2)
        assert outer.ready_in() == 3600
        clock.time += 3600
    assert len(inner.asked) == 2
    outer, inner, _ = resilient(GOOD, max_input_tokens_per_session=SIZE * 5 // 2)
    await at_once(outer, 8)
    assert (outer.statistics().input_tokens, outer.ready_in()) == (2 * SIZE, None)


async def test_a_cap_in_dollars_goes_by_the_price_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    prices, capped = tmp_path / "prices.toml", {"max_cost_per_session": 3.5 * SIZE / 1e6}
    monkeypatch.setattr(Scripted, "model", "mine", raising=False)
    with pytest.raises(SettingsError, match="no price of mine"):
        resilient(GOOD, **capped)
    prices.write_text("as_of = 2026-11-10\n[models.mine]\ninput = 1.0\noutput = 0.0\n", encoding="utf8")
    outer, inner, clock = resilient(GOOD, **capped, prices=prices)
    for _ in range(4):
        await at_once(outer, 1)
    clock.time += 1e6
    assert "cap of this session" in str(await failure(outer))
    assert (len(inner.asked), outer.ready_in()) == (4, None)


async def test_a_call_that_never_fits_keeps_no_room_from_the_summaries():
    async def block(*told: int, cached_tokens: int = 0) -> SummaryReply:
        return SummaryReply("[]", *told, cached_tokens=cached_tokens)

    outer, _, _ = resilient(GOOD)
    await outer.admitted(block(5_000, 700, cached_tokens=4_000), 9_000)
    figures = outer.statistics()  # what it cost is counted as its reply tells
    assert (figures.input_tokens, figures.output_tokens, figures.cached_tokens) == (5_000, 700, 4_000)
    outer, inner, clock = resilient(GOOD, max_input_tokens_per_hour=SIZE * 3 // 2)
    with pytest.raises(SummarizerError, match="has no room"):
        await outer.admitted(block(), SIZE * 2)
    assert outer.ready_in() == 0.0
    assert (await outer.summarize(job())).text == GOOD
    with pytest.raises(SummarizerNotReady) as later:  # it fits in the next hour
        await outer.admitted(block(), SIZE)
    assert (later.value.retry_after, outer.ready_in(), len(inner.asked)) == (3600, 0.0, 1)
    clock.time += 3600
    assert (await outer.admitted(block(), SIZE)).text == "[]"


@pytest.mark.parametrize("failing", [OSError(), SummarizerTimeout("late"), SummarizerNotReady("later"), never])
async def test_a_call_without_a_reply_counts_as_a_call_and_costs_no_tokens(failing: Any):
    outer, inner, clock = resilient(failing, GOOD, call_timeout=0.01, breaker_cooldown=1, max_calls_per_session=3)
    await at_once(outer, 1)
    clock.time += 10
    await at_once(outer, 1)
    figures = outer.statistics()
    assert figures.model_calls == len(inner.asked) > 1
    assert figures.input_tokens == SIZE * (figures.model_calls - 1)


@pytest.mark.parametrize(("told", "wait"), [(5.0, 5.0), (None, 30.0)])
async def test_a_summarizer_that_is_not_ready_has_not_failed_and_is_left_in_peace(told: float | None, wait: float):
    outer, inner, clock = resilient(SummarizerNotReady(retry_after=told), breaker_failures=2)
    outcomes: Any = await at_once(outer, 4)
    assert [(type(error), error.retry_after) for error in outcomes] == [(SummarizerNotReady, wait)] * 4
    figures = outer.statistics()
    assert (figures.breaker, figures.failed_jobs, figures.last_error) == ("closed", 0, None)
    assert (outer.ready_in(), inner.slept) == (wait, []), "no attempt is tried again"
    clock.time, inner.steps = clock.time + wait, (GOOD,)
    assert (await outer.summarize(job())).text == GOOD
