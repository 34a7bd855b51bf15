"""Every way in which a provider can fail, as the error that it becomes; without words of the provider or of the log."""

import traceback
from collections.abc import Iterator, Mapping
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


def in_its_way(protocol: Protocol, replies: Mapping[Protocol, Any]) -> Any:
    """What each protocol writes in its own way; the test is skipped for one that is not described."""
    if protocol not in replies:
        pytest.skip(f"what {protocol.name} would write is not described")
    return replies[protocol]


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


STATUSES = [
    (301, SummarizerError, Fault.REDIRECT),
    (307, SummarizerError, Fault.REDIRECT),
    (400, SummarizerError, Fault.REQUEST),
    (401, SummarizerError, Fault.KEY),
    (403, SummarizerError, Fault.KEY),
    (404, SummarizerError, Fault.NOT_FOUND),
    (408, SummarizerTimeout, Fault.TIMEOUT),
    (413, SummarizerError, Fault.REQUEST),
    (429, SummarizerRateLimited, Fault.RATE_LIMITED),
    (500, SummarizerError, Fault.SERVER),
    (502, SummarizerError, Fault.SERVER),
    (503, SummarizerError, Fault.OVERLOADED),
    (504, SummarizerTimeout, Fault.TIMEOUT),
    (529, SummarizerError, Fault.OVERLOADED),
]


@pytest.mark.parametrize(("status", "kind", "fault"), STATUSES, ids=[str(case[0]) for case in STATUSES])
async def test_a_status_becomes_an_error_that_says_what_to_do(protocol, status, kind, fault):
    headers = {"location": "https://elsewhere.example/"} if status < 400 else {}
    error = await failure(protocol, status_code=status, headers=headers, json={"error": {"message": SPOKEN}})
    assert type(error) is kind
    assert error.args == (fault,)
    assert error.retry_after is None
    assert describe_failure(error) == f"{kind.__name__} from HttpStatus {status}: {fault.value}"


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
    ],
    ids=lambda value: "-".join(value.values())[:12] if isinstance(value, dict) else str(value),
)
async def test_the_wait_that_is_asked_for_is_told(protocol, status, headers, seconds):
    error = await failure(protocol, status_code=status, headers=headers, text=SPOKEN)
    assert error.retry_after == seconds


BODIES = [
    ("malformed JSON", {"content": b'{"id": "1", "cho', "headers": {"content-type": "application/json"}}),
    ("not an object", {"json": [SPOKEN]}),
    ("no UTF-8", {"content": b'"\xff\xfe"', "headers": {"content-type": "application/json"}}),
    ("too deep", {"content": b"[" * 100_000, "headers": {"content-type": "application/json"}}),
    ("nothing", {"content": b"", "headers": {"content-type": "application/json"}}),
    ("HTML", {"html": f"<html>{SPOKEN}</html>"}),
    ("HTML as JSON", {"content": b"<html>busy</html>", "headers": {"content-type": "application/json"}}),
    ("a stream", {"content": b"data: {}\n\n", "headers": {"content-type": "text/event-stream"}}),
    ("too long a number", {"content": b"9" * 5_000, "headers": {"content-type": "application/json"}}),
    ("plain text", {"text": SPOKEN}),
]


@pytest.mark.parametrize("response", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
async def test_what_is_no_json_object_is_a_failure(protocol, response):
    error = await failure(protocol, **response)
    assert error.args == (Fault.NOT_JSON,)


def shapes() -> Iterator[tuple[str, Protocol, Any, type[SummarizerError], Any]]:
    """Replies of the right form that are no summary: what, of whom, the reply, what it becomes."""
    refused, declined = SummarizerRefused, Refusal.DECLINED
    tool = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    yield "no choice", OPENAI, completion() | {"choices": []}, refused, Refusal.EMPTY
    yield "choices null", OPENAI, completion() | {"choices": None}, SummarizerError, Fault.SHAPE
    yield "choices missing", OPENAI, {"object": "chat.completion"}, SummarizerError, Fault.SHAPE
    yield "choice odd", OPENAI, completion() | {"choices": ["x"]}, SummarizerError, Fault.SHAPE
    yield "message null", OPENAI, completion() | {"choices": [{"message": None}]}, SummarizerError, Fault.SHAPE
    yield "content null", OPENAI, completion(None), refused, Refusal.EMPTY
    yield "content missing", OPENAI, completion(LEFT_OUT), refused, Refusal.EMPTY
    yield "content blank", OPENAI, completion(" \n"), refused, Refusal.EMPTY
    yield "content a number", OPENAI, completion(7), refused, Refusal.NOT_TEXT
    yield "refusal", OPENAI, completion(None, refusal=SPOKEN), refused, declined
    yield "refusal part", OPENAI, completion([{"type": "refusal", "refusal": SPOKEN}]), refused, declined
    yield "filtered", OPENAI, completion("", reason="content_filter"), refused, declined
    yield "tool call", OPENAI, completion(None, reason="tool_calls", tool_calls=[tool]), refused, Refusal.NOT_TEXT
    yield "tool call after text", OPENAI, completion(GOOD, tool_calls=[tool]), refused, Refusal.NOT_TEXT
    yield "function call", OPENAI, completion(None, function_call={"name": "run"}), refused, Refusal.NOT_TEXT
    yield "parts without text", OPENAI, completion([{"type": "audio"}]), refused, Refusal.EMPTY
    yield "error as success", OPENAI, {"error": {"code": 503, "message": SPOKEN}}, SummarizerError, Fault.OVERLOADED
    yield "limit as success", OPENAI, {"error": {"code": 429}}, SummarizerRateLimited, Fault.RATE_LIMITED
    yield "nameless error", OPENAI, {"error": SPOKEN}, SummarizerError, Fault.SERVER
    use = {"type": "tool_use", "id": "1", "name": "run", "input": {}}
    yield "no block", ANTHROPIC, answer([]), refused, Refusal.EMPTY
    yield "content null", ANTHROPIC, answer(None), SummarizerError, Fault.SHAPE
    yield "content blank", ANTHROPIC, answer(" \n"), refused, Refusal.EMPTY
    yield "content missing", ANTHROPIC, {"type": "message"}, SummarizerError, Fault.SHAPE
    yield "content text", ANTHROPIC, answer() | {"content": GOOD}, SummarizerError, Fault.SHAPE
    yield "odd blocks", ANTHROPIC, answer(["x", None]), SummarizerError, Fault.SHAPE
    yield "thinking alone", ANTHROPIC, answer([{"type": "thinking", "thinking": SPOKEN}]), refused, Refusal.EMPTY
    yield "refusal", ANTHROPIC, answer(reason="refusal"), refused, declined
    yield "tool call", ANTHROPIC, answer([use], reason="tool_use"), refused, Refusal.NOT_TEXT
    yield "tool call after text", ANTHROPIC, answer([TEXT, use]), refused, Refusal.NOT_TEXT
    yield "error as success", ANTHROPIC, {"type": "error", "error": {"message": SPOKEN}}, SummarizerError, Fault.SERVER


async def test_a_reply_that_is_no_summary_is_refused(protocol):
    own = [case for case in shapes() if case[1] is protocol]
    assert len(own) >= (10 if protocol in (OPENAI, ANTHROPIC) else 5), (
        "name replies of this provider in `shapes` that are no summary"
    )
    for name, _, reply, kind, reason in own:
        error = await failure(protocol, json=reply)
        assert (type(error), error.args) == (kind, (reason,)), name


async def test_a_reply_that_was_cut_off_says_so(protocol):
    assert (await got(protocol, json=protocol.reply("half", reason=protocol.cut))).truncated
    assert (await got(protocol, json=protocol.reply("", reason=protocol.cut))).truncated
    assert not (await got(protocol, json=protocol.reply())).truncated
    assert not (await got(protocol, json=protocol.reply(reason="a reason of tomorrow"))).truncated


@pytest.mark.parametrize("reason", [None, LEFT_OUT, 7], ids=["null", "missing", "number"])
async def test_a_reply_without_a_reason_is_whole_only_where_its_usage_proves_it(protocol, reason):
    assert not (await got(protocol, json=protocol.reply(reason=reason))).truncated
    assert (await got(protocol, json=protocol.reply(reason=reason, usage=LEFT_OUT))).truncated


@pytest.mark.parametrize(
    "usage",
    [
        LEFT_OUT,
        "many",
        {},
        {"prompt_tokens": -1, "completion_tokens": -5, "input_tokens": -1, "output_tokens": -5},
        {"prompt_tokens": "9", "completion_tokens": 1.5, "input_tokens": "9", "output_tokens": True},
        {"prompt_tokens": None, "completion_tokens": None, "input_tokens": None, "output_tokens": None},
    ],
    ids=["missing", "text", "empty", "negative", "wrong types", "null"],
)
async def test_usage_that_cannot_be_true_is_none(protocol, usage):
    reply = await got(protocol, json=protocol.reply(usage=usage))
    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.truncated) == (GOOD, None, None, False)


@pytest.mark.parametrize(
    ("cached", "told"), [(400, 400), (0, None), (-1, None), ("9", None), (True, None), (None, None), ({}, None)]
)
async def test_what_the_provider_read_from_its_cache_is_told(protocol, cached, told):
    usages = {
        OPENAI: {"prompt_tokens": 900, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": cached}},
        ANTHROPIC: {"input_tokens": 500, "cache_read_input_tokens": cached, "output_tokens": 30},
    }
    usage = in_its_way(protocol, usages)
    assert (await got(protocol, json=protocol.reply(usage=usage))).cached_tokens == told


async def test_of_parts_answers_and_thinking_the_text_is_taken(protocol):
    parts = [{"type": "text", "text": "## Done\n"}, {"type": "text", "text": "- a"}]
    thinking = [{"type": "thinking", "thinking": SPOKEN, "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]
    choices = completion(GOOD, reasoning_content=SPOKEN)
    choices["choices"].append({"index": 1, "message": {"content": "another"}, "finish_reason": "stop"})
    blocks = answer([*thinking, TEXT, {"type": "a block of tomorrow", "text": "another"}])
    for replies, text in (
        ({OPENAI: completion(parts), ANTHROPIC: answer(parts)}, "## Done\n- a"),
        ({OPENAI: choices, ANTHROPIC: blocks}, GOOD),
    ):
        assert (await got(protocol, json=in_its_way(protocol, replies))).text == text


async def test_a_closed_summarizer_says_so(protocol):
    summarizer = protocol.made()
    await summarizer.close()
    await summarizer.close()
    with pytest.raises(SummarizerError, match="closed"):
        await summarizer.summarize(job())
