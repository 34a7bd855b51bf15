"""Every way in which a provider can fail, as the error that it becomes; without words of the provider or of the log."""

import traceback
from typing import Any

import httpx
import pytest

from summarizing_context.errors import SummarizerError, SummarizerRateLimited, SummarizerRefused, SummarizerTimeout
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.resilience import describe_failure
from summarizing_context.summarizers.sdk import Fault, HttpStatus
from summarizing_context.summarizers.verification import Refusal
from tests.summarizers.scripted import SECRET, job

from .mocking import mocked
from .protocols import ANTHROPIC, GOOD, KEY, LEFT_OUT, OPENAI, PROTOCOLS, Protocol, answer, completion

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
SPOKEN = f"no: {SECRET}, {KEY}"  # what a provider may say in an error
TEXT = {"type": "text", "text": GOOD}


async def got(protocol: Protocol, **response: Any) -> SummaryReply:
    """What a summarizer makes of one response."""
    summarizer = protocol.made()
    effect = httpx.Response(response.pop("status_code", 200), **response)
    try:
        with mocked() as router:
            route = router.post(protocol.url).mock(side_effect=[effect] * 2)
            reply: SummaryReply = await summarizer.summarize(job())
            assert route.call_count == 1
            return reply
    finally:
        await summarizer.close()


async def failure(protocol: Protocol, **response: Any) -> SummarizerError:
    """The error that one response becomes; neither it nor what it hangs together with tells what was said."""
    with pytest.raises(SummarizerError) as caught:
        await got(protocol, **response)
    error = caught.value
    written = "".join(traceback.format_exception(error)) + repr(error) + describe_failure(error)
    assert SECRET not in written
    assert KEY not in written
    assert isinstance(error.__cause__, HttpStatus | None)
    return error


STATUSES = {
    Fault.REDIRECT: (SummarizerError, 301, 307),
    Fault.REQUEST: (SummarizerError, 400, 413),
    Fault.KEY: (SummarizerError, 401, 403),
    Fault.NOT_FOUND: (SummarizerError, 404),
    Fault.TIMEOUT: (SummarizerTimeout, 408, 504),
    Fault.RATE_LIMITED: (SummarizerRateLimited, 429),
    Fault.SERVER: (SummarizerError, 500, 502),
    Fault.OVERLOADED: (SummarizerError, 503, 529),
}


@pytest.mark.parametrize("fault", STATUSES)
async def test_a_status_becomes_an_error_that_says_what_to_do(protocol, fault):
    kind, *statuses = STATUSES[fault]
    for status in statuses:
        headers = {"location": "https://elsewhere.example/"} if status < 400 else {}
        error = await failure(protocol, status_code=status, headers=headers, json={"error": {"message": SPOKEN}})
        assert (type(error), error.args, error.retry_after) == (kind, (fault,), None)
        assert describe_failure(error) == f"{kind.__name__} from HttpStatus {status}: {fault.value}"


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_the_wait_that_is_asked_for_is_told(protocol, status):
    unsound = ("soon", "-3", "nan", "inf", "1e999", "Wed, 21 Oct 2026 07:28:00 GMT")
    asked: dict[str, float | None] = {"7": 7.0, "0.25": 0.25, **dict.fromkeys(unsound)}
    for wait, seconds in asked.items():
        error = await failure(protocol, status_code=status, headers={"retry-after": wait}, text=SPOKEN)
        assert error.retry_after == seconds, wait
    headers = {"retry-after-ms": "250", "retry-after": "1"}
    assert (await failure(protocol, status_code=status, headers=headers)).retry_after == 0.25


NO_OBJECTS = ('{"id": "1", "cho', f'["{SPOKEN}"]', b'"\xff\xfe"', "[" * 100_000, "", "<html>busy</html>", "9" * 5_000)
BODIES = [
    *(("application/json", text) for text in NO_OBJECTS),
    *(("text/html", f"<html>{SPOKEN}</html>"), ("text/plain", SPOKEN), ("text/event-stream", "data: {}\n\n")),
]


async def test_what_is_no_json_object_is_a_failure(protocol):
    for kind, content in BODIES:
        error = await failure(protocol, content=content, headers={"content-type": kind})
        assert error.args == (Fault.NOT_JSON,), content[:40]


CALLED = {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]}
FILTERED, DECLINED = "content_filter", {"type": "refusal", "refusal": SPOKEN}
USE = {"type": "tool_use", "id": "1", "name": "run", "input": {}}


def shapes(protocol: Protocol) -> dict[Any, list[Any]]:
    """Replies of the right form that are no summary, by what they become."""
    openai: dict[Any, list[Any]] = {
        Fault.SHAPE: [
            *(completion() | {"choices": choices} for choices in (None, ["x"], [{"message": None}])),
            {"object": "chat.completion"},
        ],
        Refusal.EMPTY: [
            completion() | {"choices": []},
            *(completion(text) for text in (None, LEFT_OUT, " \n", [{"type": "audio"}])),
        ],
        Refusal.NOT_TEXT: [
            *(completion(7), completion(GOOD, **CALLED), completion(None, reason="tool_calls", **CALLED)),
            completion(None, function_call={"name": "run"}),
        ],
        Refusal.DECLINED: [completion([DECLINED]), completion(None, refusal=SPOKEN), completion("", reason=FILTERED)],
        Fault.OVERLOADED: [{"error": {"code": 503, "message": SPOKEN}}],
        Fault.RATE_LIMITED: [{"error": {"code": 429}}],
        Fault.SERVER: [{"error": SPOKEN}],
    }
    anthropic: dict[Any, list[Any]] = {
        Fault.SHAPE: [answer(None), {"type": "message"}, answer() | {"content": GOOD}, answer(["x", None])],
        Refusal.EMPTY: [answer([]), answer(" \n"), answer([{"type": "thinking", "thinking": SPOKEN}])],
        Refusal.NOT_TEXT: [answer([USE], reason="tool_use"), answer([TEXT, USE])],
        Refusal.DECLINED: [answer(reason="refusal")],
        Fault.SERVER: [{"type": "error", "error": {"message": SPOKEN}}],
    }
    return {OPENAI: openai, ANTHROPIC: anthropic}[protocol]


async def test_a_reply_that_is_no_summary_is_refused(protocol):
    for reason, replies in shapes(protocol).items():
        kind = SummarizerRateLimited if reason is Fault.RATE_LIMITED else SummarizerError
        kind = SummarizerRefused if isinstance(reason, Refusal) else kind
        for reply in replies:
            error = await failure(protocol, json=reply)
            assert (type(error), error.args) == (kind, (reason,)), reply


async def test_a_reply_that_was_cut_off_says_so_and_without_a_reason_is_whole_only_where_its_usage_proves_it(protocol):
    for text, ended, is_cut in (
        *((text, {"reason": protocol.cut}, True) for text in ("half", "")),
        *((GOOD, ended, False) for ended in ({}, {"reason": "a reason of tomorrow"})),
        *((GOOD, {"reason": reason}, False) for reason in (None, LEFT_OUT, 7)),
        *((GOOD, {"reason": reason, "usage": LEFT_OUT}, True) for reason in (None, LEFT_OUT, 7)),
    ):
        assert (await got(protocol, json=protocol.reply(text, **ended))).truncated == is_cut, ended


async def test_usage_that_cannot_be_true_is_none_and_what_was_read_from_a_cache_is_told(protocol):
    untrue = [protocol.usage(read, written) for read, written in ((-1, -5), ("9", 1.5), ("9", True), (None, None))]
    for usage in (LEFT_OUT, "many", {}, *untrue):
        reply = await got(protocol, json=protocol.reply(usage=usage))
        assert (reply.text, reply.input_tokens, reply.output_tokens, reply.truncated) == (GOOD, None, None, False)
    for cached in (400, 0, -1, "9", True, None, {}):
        reply = await got(protocol, json=protocol.reply(usage=protocol.usage(900, 30, cached)))
        assert reply.cached_tokens == (400 if cached == 400 else None)


async def test_of_parts_answers_and_thinking_the_text_is_taken(protocol):
    parts = [{"type": "text", "text": "## Done\n"}, {"type": "text", "text": "- a"}]
    assert (await got(protocol, json=protocol.reply(parts))).text == "## Done\n- a"
    thinking = [{"type": "thinking", "thinking": SPOKEN, "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]
    choices = completion(GOOD, reasoning_content=SPOKEN)
    choices["choices"].append({"index": 1, "message": {"content": "another"}, "finish_reason": "stop"})
    blocks = answer([*thinking, TEXT, {"type": "a block of tomorrow", "text": "another"}])
    assert (await got(protocol, json={OPENAI: choices, ANTHROPIC: blocks}[protocol])).text == GOOD


async def test_a_closed_summarizer_says_so(protocol):
    summarizer = protocol.made()
    await summarizer.close()
    await summarizer.close()
    with pytest.raises(SummarizerError, match="closed"):
        await summarizer.summarize(job())
