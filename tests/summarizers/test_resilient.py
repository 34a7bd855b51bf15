"""Retries, refusals, time limits, breaker and caps of the calls for summaries, and what is counted and told of them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SettingsError, SummarizerError, SummarizerRefused
from summarizing_context.errors import SummarizerNotReady, SummarizerRateLimited, SummarizerTimeout
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.summarizers.sdk import status_failure
from tests.behaviour.contexts import Clock
from tests.summarizers.scripted import CONTENT, GOOD, JOB, SECRET

SIZE = estimate_text(JOB.prompt)


class Played(ResilientSummarizer):
    """Around a summarizer that answers each call with the next step, the last one for ever: a reply, an error, or what
    is awaited. Only a test, or a wait, moves its clock."""

    asks: str | None = None  # the model

    def __init__(self, *steps: Any, **limits: Any) -> None:
        self.steps, self.asked, self.slept, self.clock = steps, [], [], Clock(1_000.0)
        inner: Any = type("Inner", (), {"summarize": lambda _, job: self.answer(job), "model": self.asks})()
        super().__init__(inner, settings=Settings(**limits), clock=self.clock, sleep=self.sleep)

    async def answer(self, job: SummaryJob) -> Any:
        step = self.steps[min(len(self.asked), len(self.steps) - 1)]
        self.asked.append(job)
        if isinstance(step, BaseException):
            raise step
        return await step(job) if callable(step) else step

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.time += seconds
        await asyncio.sleep(0)

    async def at_once(self, jobs: int = 1) -> list[Any]:
        return await asyncio.gather(*(self.summarize(JOB) for _ in range(jobs)), return_exceptions=True)

    async def failure(self, **changes: Any) -> SummarizerError:
        with pytest.raises(SummarizerError) as caught:
            await self.summarize(replace(JOB, **changes))
        return caught.value


async def never(_: SummaryJob) -> None:
    await anyio.sleep_forever()


async def test_a_failed_call_is_tried_again_after_a_growing_wait_or_the_one_that_is_asked_for_and_then_given_up():
    outer = Played(OSError(), ValueError(), GOOD, ConnectionError("refused"))
    assert (await outer.summarize(JOB)).text == GOOD
    assert [asked.attempt for asked in outer.asked] == [1, 2, 3]
    assert all(0.5 <= wait <= most for wait, most in zip(outer.slept, (1, 2), strict=True))
    raised = await outer.failure()
    assert (type(raised), type(raised.__cause__), len(outer.asked)) == (SummarizerError, ConnectionError, 6)
    assert outer.statistics().model_calls == 6
    outer = Played(never, call_timeout=0.35, attempts=2)
    assert (type(await outer.failure()), len(outer.asked)) == (SummarizerTimeout, 2)

    # what the provider asks for is waited for, and beyond the job's time gives it up
    outer = Played(SummarizerRateLimited("x", retry_after=20), GOOD)
    await outer.summarize(JOB)
    assert outer.slept == [20]
    outer.steps = (SummarizerRateLimited("x", retry_after=600),)
    raised = await outer.failure()
    assert (type(raised), raised.retry_after, outer.ready_in()) == (SummarizerRateLimited, 600, 600)
    assert (outer.slept, outer.statistics().breaker) == ([20], "open")
    outer.clock.time += 600
    outer.steps = (SummarizerError("x", retry_after=1e9),)
    assert ((await outer.failure()).retry_after, outer.ready_in()) == (3600, 3600)  # no pause is longer than an hour

    for asked in (-5, float("nan"), float("inf"), "soon", True, None):  # no number of seconds
        outer = Played(SummarizerError("x", retry_after=asked), GOOD)
        await outer.summarize(JOB)
        assert outer.slept[0] <= 1, asked


@pytest.mark.parametrize("kind", [SummarizerRateLimited, SummarizerTimeout, SummarizerRefused])
async def test_the_kind_of_a_failure_is_kept_and_its_words_are_not_told(kind: type[SummarizerError]):
    failed = kind(SECRET)
    failed.__cause__ = type("ApiError", (Exception,), {"status_code": 503})(SECRET)
    outer = Played(failed)
    raised = await outer.failure()
    assert type(raised) is kind
    assert SECRET not in f"{raised} {raised!r} {outer.statistics()}"
    assert JOB.range_hash[:8] in str(raised)
    assert outer.statistics().last_error == f"{kind.__name__} from ApiError 503"


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_request_that_a_provider_will_not_read_is_sent_once_and_then_less_and_less_often(status: int):
    outer = Played(status_failure(status), attempts=3)
    for _ in range(5):
        raised = await outer.failure()
        assert (type(raised), outer.statistics().refused_replies) == (SummarizerRefused, 0)
    assert (len(outer.asked), outer.slept, outer.ready_in(), outer.statistics().model_input_tokens) == (5, [], 0.0, 0)


async def test_a_refused_reply_gets_one_more_try_at_once_and_tersely_and_both_are_paid_for():
    outer = Played(SummaryReply("", 500, 5), SummaryReply(GOOD, 600), "", OSError())
    assert (await outer.summarize(JOB)).text == GOOD
    first, second = outer.asked
    assert second.instructions.startswith(first.instructions)
    assert f"at most {JOB.max_tokens // 2} words" in second.instructions
    assert (second.content, second.attempt, outer.slept) == (first.content, 2, [0])
    figures = outer.statistics()
    assert (figures.refused_replies, figures.model_calls, figures.model_input_tokens) == (1, 2, 1100)
    assert (figures.refused_input_tokens, figures.refused_output_tokens) == (500, 5)
    refused = SummarizerRefused("declined")
    refused.usage = SummaryReply("", 40, 7)  # of a reply that says no text
    declined = Played(refused, GOOD)
    await declined.summarize(JOB)
    assert (declined.statistics().refused_input_tokens, declined.statistics().refused_output_tokens) == (40, 7)
    await outer.failure()
    assert len(outer.asked) == 4, "whatever becomes of the terse try, no further one is made"


SHORT = """500 users were migrated to the new table.
404 - the page is missing; fixed in a.py.
An import error occurred in a.py, which is fixed.
Sure, the summary route returns 404: fix in a.py
Here is how to summarize results: run a.py"""


@pytest.mark.parametrize("text", SHORT.splitlines())
async def test_a_short_summary_is_taken_whole_whatever_it_speaks_of(text: str):
    assert (await Played(text).summarize(replace(JOB, content=f"{CONTENT}\n{text} So it is."))).text == text


DECLINED = """Es tut mir leid, aber dabei kann ich nicht helfen.
Je suis désolé, mais je ne peux pas vous aider avec cette demande.
Lo siento, pero no puedo ayudar con eso.
Desculpe, mas não posso ajudar com isso.
申し訳ありませんが、そのご依頼にはお応えできません。
很抱歉，我无法协助处理这个请求。
عذرًا، لا يمكنني المساعدة في ذلك."""


async def test_a_model_that_declines_in_the_users_language_has_made_no_summary():
    for text in DECLINED.splitlines():
        assert isinstance(await Played(text).failure(), SummarizerRefused), text
    text = "Leider kann ich das Gerät nicht finden, sagte der Nutzer."
    assert (await Played(f"## Facts\n- {text}").summarize(replace(JOB, content=text))).text.endswith(text)


RECORD = (
    r"The build of C:\shop\new\tool.cs and src\new\net8.0 took 1.5 s. The rate is 3e-4, and 8.5 % of 40 runs fail."
    f" The loop of v2.14.0 ends in {'1,' * 3_000}."
)


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        ("The build read C:/shop/new/tool.cs twice.", True), (r"The build read C:\shop\new\tool.cs twice.", True),
        (r"The build wrote to `src\new\net8.0` at last.", True), (r"The build read `new\tool.cs` first.", True),
        ("The build took 1500 ms, and 8,5 % failed.", True), ("The rate of the runs is 3e-4.", True),
        ("It was the build of v2.14.0 again.", True), ("It was the build of v2.14.1 again.", False),
        (r"The build read C:\shop\now\tool.cs twice.", False), ("The rate of the runs is 3e-5.", False),
        ("Of all the runs 9.5 % failed.", False), ("The build took 35s to run.", False),
        (f"The loop ends in {'1,' * 4_500}.", False),
    ],
)  # fmt: skip
async def test_a_value_stands_in_another_way_of_writing_and_not_where_a_sign_of_it_was_changed(text: str, stands: bool):
    job = replace(JOB, content=RECORD, max_tokens=9_000, source_tokens=90_000)
    (reply,) = await asyncio.gather(Played(text).summarize(job), return_exceptions=True)
    assert reply.text == text if stands else isinstance(reply, SummarizerRefused), reply


@pytest.mark.parametrize("ends", ["well", "cancelled"])
async def test_a_call_from_before_the_breaker_opened_and_a_cancelled_probe_decide_nothing(ends: str):
    released = asyncio.Event()

    async def late(_: SummaryJob) -> str:
        await released.wait()
        return GOOD

    outer = Played(late, OSError(), never, breaker_failures=1)
    old = asyncio.create_task(outer.summarize(JOB))
    await anyio.sleep(0.01)
    await outer.failure()
    outer.clock.time += 30
    assert type(await outer.failure(kind="rules")) is SummarizerNotReady, "a job for rules is no probe"
    probe = asyncio.create_task(outer.summarize(JOB))
    await anyio.sleep(0.01)
    _ = released.set() if ends == "well" else old.cancel()
    await asyncio.wait({old})
    assert (outer.statistics().breaker, outer.ready_in()) == ("half_open", 1.0), "the probe is still under way"
    await outer.at_once(3)
    assert len(outer.asked) == 3
    probe.cancel()
    await asyncio.wait({probe})
    assert (outer.ready_in(), outer.statistics().breaker) == (0.0, "half_open"), "it has proved nothing"
    outer.steps = (GOOD,)
    assert (await outer.summarize(JOB)).text == GOOD


@pytest.mark.parametrize(
    ("limits", "made", "ready"),
    [
        ({"max_calls_per_session": 2}, 2, None),
        ({"max_input_tokens_per_session": SIZE * 5 // 2}, 2, None),
        ({"max_input_tokens_per_hour": SIZE * 3 // 2}, 1, 3600),
    ],
)
async def test_a_cap_of_a_session_ends_the_calls_and_an_hourly_one_has_room_again(limits, made: int, ready: Any):
    outer = Played(GOOD, **limits)
    await outer.at_once(8)
    assert (outer.ready_in(), outer.statistics().model_input_tokens, len(outer.asked)) == (ready, made * SIZE, made)
    outer.clock.time += 3600
    later, _ = await outer.at_once(2)
    assert "cap of this session" in str(later) if ready is None else later.text == GOOD
    assert (len(outer.asked), outer.ready_in()) == (made + (ready is not None), ready)


async def test_a_cap_in_dollars_goes_by_the_price_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    prices, capped = tmp_path / "prices.toml", {"max_cost_per_session": 3.5 * SIZE / 1e6}
    monkeypatch.setattr(Played, "asks", "mine")
    with pytest.raises(SettingsError, match="no price of mine"):
        Played(GOOD, **capped)
    prices.write_text("as_of = 2026-11-10\n[models.mine]\ninput = 1.0\noutput = 0.0\n", encoding="utf8")
    outer = Played(GOOD, **capped, prices=prices)
    for _ in range(5):
        (last,) = await outer.at_once(1)
    outer.clock.time += 1e6
    assert "cap of this session" in str(last)
    assert (len(outer.asked), outer.ready_in()) == (4, None)

    prices.write_text("as_of = 2026-11-10\n[models.mine]\ninput = 0.0\noutput = 1.0\n", encoding="utf8")
    outer = Played(SummaryReply(GOOD, 5, 5), **{**capped, "max_cost_per_session": 5 / 1e6}, prices=prices)
    told: list[str] = []
    outer.on_trouble = told.append
    await outer.at_once(1)
    assert (outer.ready_in(), ["max_cost_per_session" in text for text in told]) == (None, [True])
    longest, dollars = SummaryReply(GOOD, 5, JOB.max_tokens), 2.5 * JOB.max_tokens / 1e6
    outer = Played(longest, **{**capped, "max_cost_per_session": dollars}, prices=prices)
    await outer.at_once(6)
    assert len(outer.asked) == 3, "of calls at once, the one that may reach it is the last"
    monkeypatch.setattr(Played, "asks", None)
    with pytest.raises(SettingsError, match="Inner has no `model`"):
        Played(GOOD, **capped, prices=prices)


async def test_a_call_that_never_fits_keeps_no_room_from_the_summaries():
    async def block(*told: int, cached_tokens: int = 0) -> SummaryReply:
        return SummaryReply("[]", *told, cached_tokens=cached_tokens)

    outer = Played(GOOD)
    await outer.admitted(block(5_000, 700, cached_tokens=4_000), 9_000)
    figures = outer.statistics()  # what it cost is counted as its reply tells
    used = figures.model_input_tokens, figures.model_output_tokens, figures.model_cached_tokens
    assert used == (5_000, 700, 4_000)
    outer = Played(GOOD, max_input_tokens_per_hour=SIZE * 3 // 2)
    with pytest.raises(SummarizerError, match="has no room"):
        await outer.admitted(block(), SIZE * 2)
    assert outer.ready_in() == 0.0
    assert (await outer.summarize(JOB)).text == GOOD
    with pytest.raises(SummarizerNotReady) as later:  # it fits in the next hour
        await outer.admitted(block(), SIZE)
    assert (later.value.retry_after, outer.ready_in(), len(outer.asked)) == (3600, 0.0, 1)
    outer.clock.time += 3600
    assert (await outer.admitted(block(), SIZE)).text == "[]"


@pytest.mark.parametrize("failing", [OSError(), SummarizerTimeout("late"), SummarizerNotReady("later"), never])
async def test_a_call_without_a_reply_counts_as_a_call_and_costs_no_tokens(failing: Any):
    """Nor does it go beyond its time, or is it tried again beyond that of its job."""
    outer = Played(failing, GOOD, call_timeout=0.01, breaker_cooldown=1, max_calls_per_session=3)
    (first,) = await outer.at_once()
    assert (isinstance(first, SummarizerError), len(outer.asked), outer.slept) == (True, 1, [])
    outer.clock.time += 10
    await outer.at_once()
    assert (outer.statistics().model_calls, outer.statistics().model_input_tokens) == (len(outer.asked), SIZE)
    assert len(outer.asked) == 2


@pytest.mark.parametrize(("told", "wait"), [(5.0, 5.0), (None, 30.0)])
async def test_a_summarizer_that_is_not_ready_has_not_failed_and_is_left_in_peace(told: float | None, wait: float):
    outer = Played(SummarizerNotReady(retry_after=told), breaker_failures=2)
    assert [(type(error), error.retry_after) for error in await outer.at_once(4)] == [(SummarizerNotReady, wait)] * 4
    figures = outer.statistics()
    assert (figures.breaker, figures.last_error) == ("closed", None)
    assert (outer.ready_in(), outer.slept) == (wait, []), "no attempt is tried again"
    outer.clock.time, outer.steps = outer.clock.time + wait, (GOOD,)
    assert (await outer.summarize(JOB)).text == GOOD
