"""Summaries through a mounted provider: chosen, asked plainly, ended with the host, told apart from other calls."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from amplifier_core import ChatResponse, TextBlock
from amplifier_core.llm_errors import AbortError, LLMTimeoutError, RateLimitError
from amplifier_core.message_models import ToolCall, Usage

from summarizing_context import Settings, SummaryJob, errors, open_context
from summarizing_context.adapters.amplifier.manager import choose_provider
from summarizing_context.summarizers.host import HostSummarizer, in_summary
from tests.adapters.host import SMALL, Model, session_of, until
from tests.behaviour.contexts import fill
from tests.laws.builders import user

CALL = ToolCall(id="1", name="n", arguments={})
JOB = SummaryJob("segment", "Summarize.", "### user\nHello </session_record> there", 100, 0, 0, 4, 50, "ab" * 32)


def said(text: str, **more: Any) -> ChatResponse:
    return ChatResponse(content=[TextBlock(text=text)], **more)


def answering(answer: Any) -> Any:
    """A provider that gives this answer, and remembers what it was asked."""

    async def complete(request: Any, **options: Any) -> Any:
        assert in_summary.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return SimpleNamespace(complete=AsyncMock(side_effect=complete))


async def test_the_request_is_plain_and_names_the_model_both_ways():
    usage = Usage(input_tokens=30, output_tokens=7, total_tokens=37, cache_write_tokens=12)
    provider = answering(said("A summary.", usage=usage))
    reply = await HostSummarizer(lambda: provider, model="small-1").summarize(JOB)
    (((request,), options),) = provider.complete.await_args_list
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("A summary.", 42, 7)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[1].content.count("</session_record>") == 1, "the content cannot end its fence"
    assert (request.model, options) == ("small-1", {"extended_thinking": False, "model": "small-1"})
    assert (request.stream, request.tools, request.metadata) == (False, None, {"stream": False})
    assert request.max_output_tokens >= 200
    assert not in_summary.get()

    async def strict(request: Any) -> Any:  # takes no options
        return said("Short.")

    assert (await HostSummarizer(lambda: SimpleNamespace(complete=strict), model="m").summarize(JOB)).text == "Short."


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (RateLimitError("slow: secret text", retry_after=7.0), errors.SummarizerRateLimited, "fewer calls"),
        (LLMTimeoutError("secret text"), errors.SummarizerTimeout, "in time"),
        (ValueError("secret text"), errors.SummarizerError, "failed"),
        (ChatResponse(content=[]), errors.SummarizerRefused, "empty"),
        (said("x", finish_reason="refusal"), errors.SummarizerRefused, "declined"),
        (ChatResponse(content=[], tool_calls=[CALL]), errors.SummarizerRefused, "neither text"),
        (SimpleNamespace(content=5), errors.SummarizerError, "protocol"),
        (asyncio.CancelledError(), errors.SummarizerError, "cancelled"),  # which the host has not
        (AbortError("secret text"), errors.SummarizerError, "cancelled"),
    ],
)
async def test_what_goes_wrong_is_told_in_our_words(answer, error, words):
    with pytest.raises(error, match=words) as caught:
        await HostSummarizer(lambda: answering(answer)).summarize(JOB)
    assert (type(caught.value), caught.value.__cause__) == (error, None)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "cut", [{"finish_reason": "length"}, {"usage": Usage(input_tokens=1, output_tokens=5_000, total_tokens=5_001)}]
)
async def test_an_answer_that_was_cut_off_says_so(cut):
    assert (await HostSummarizer(lambda: answering(said("A summary.", **cut))).summarize(JOB)).truncated


async def hang(request: Any, **options: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("by_host", "error"), [(True, errors.SummarizerNotReady), (False, asyncio.CancelledError)])
async def test_a_cancelled_call_ends(by_host, error):
    tasks = asyncio.all_tasks()
    summarizer = HostSummarizer(lambda: SimpleNamespace(complete=hang))
    asking = asyncio.create_task(summarizer.summarize(JOB))
    await anyio.wait_all_tasks_blocked()
    if by_host:
        await summarizer.cancel()
    else:
        asking.cancel()
    with pytest.raises(error):
        await asking
    assert asyncio.all_tasks() == tasks


async def test_while_the_host_cancels_no_call_is_made_nor_counted_against_a_cap():
    cancelled, provider = True, answering(said("A summary."))
    summarizer = HostSummarizer(lambda: provider, is_cancelled=lambda: cancelled)
    with pytest.raises(errors.SummarizerNotReady, match="the host has cancelled"):
        await summarizer.summarize(JOB)
    settings = Settings(max_tokens=3_000, max_calls_per_hour=5, **SMALL)
    async with open_context(settings, summarizer=summarizer) as context:
        await fill(context, [user(f"ask {at} " * 30) for at in range(40)], every=1)
        await anyio.sleep(1.5)  # it is asked again each second
        assert (context.statistics().model_calls, provider.complete.await_count) == (0, 0)
        cancelled = False
        await until(lambda: context.statistics().model_calls > 0)


@pytest.mark.parametrize("immediate", [True, False])
async def test_the_hosts_cancellation_with_summaries_in_flight_is_no_failure_of_its_provider(immediate):
    model = Model(12_000, summarize=hang)
    async with session_of({**SMALL, "summarizer": "host"}, model=model) as session:
        for turn in range(12):
            await session.execute(f"Turn {turn}")
        context = session.coordinator.get("context")
        await until(lambda: context.statistics().model_calls == 9)  # eight summaries, and one for rules
        await session.coordinator.request_cancel(immediate)
        await session.coordinator.cancellation.trigger_callbacks()
        await asyncio.sleep(0.02)
        figures = context.statistics()
        assert (figures.breaker, figures.summaries_failed, figures.last_error) == ("closed", 0, None)
        assert figures.model_calls == 9, "nothing is sent at once"
        assert figures.summaries_pending >= 8, "and nothing is given up"


def test_the_provider_of_lowest_priority_is_chosen():
    low, high, plain = SimpleNamespace(priority=5), SimpleNamespace(config={"priority": 1}), object()
    assert choose_provider({"plain": plain, "low": low, "high": high}) is high
    assert choose_provider({}) is choose_provider(None) is None
