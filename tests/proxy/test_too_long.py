"""A provider tells within a stream that the request was too long: one activation and one replay, before any content."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
from starlette.requests import Request
from starlette.responses import Response

from tests.behaviour.test_proxy_requests import post, request_of
from tests.proxy.clients import AnthropicAgent, between, proxied, status
from tests.proxy.fake import Fake, served, streams

MESSAGES, COMPLETIONS, RESPONSES = PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")


async def grown(path: str, address: str) -> bytes:
    """The body of a request that asks for a stream, and was answered once."""
    body = json.dumps({**request_of(path.removeprefix("/v1/"), 20), "stream": True}).encode()
    assert (await post(address, path, body)).status_code == 200
    return body


@pytest.mark.parametrize(
    ("path", "in_stream"), [(MESSAGES, False), (COMPLETIONS, False), (COMPLETIONS, True), (RESPONSES, True)]
)
async def test_what_nothing_helps_against_is_passed_on(path, in_stream):
    async with between(Fake(refuses_in_stream=in_stream)) as (fake, address):
        body = await grown(path, address)
        fake.most_tokens, before = 5, len(fake.seen)
        answer = await post(address, path, body)
    assert answer.status_code == (200 if in_stream else 400)
    assert b"too long" in answer.content or b"maximum context length" in answer.content
    assert b"error" in answer.content
    assert len(fake.seen) <= before + 2


async def test_words_about_length_behind_content_are_content():
    words = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: {"error": {"message": "prompt is too long"}}\n\n'

    @streams
    async def pieces() -> AsyncIterator[bytes]:
        yield words

    async with between(Fake(behave=pieces)) as (fake, address):
        answer = await post(address, COMPLETIONS, request_of("chat/completions", 0))
    assert (answer.status_code, answer.content, len(fake.seen)) == (200, words, 1)


async def test_an_error_that_only_sounds_like_it_costs_no_later_request():
    """Whatever is sent is refused, with words about the window: later requests are not made shorter for it."""
    async with between() as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(10)
        fake.most_tokens = 5
        for _ in range(3):
            with pytest.raises(anthropic.BadRequestError):
                await client.step("go on")
            client.history.pop()
        fake.most_tokens = 10**9
        await client.steps(6)
        told = await status(address)
    assert told["failures"] == 0
    assert len(fake.seen) <= 10 + 2 * 3 + 6
    assert {record["activation"] for record in told["records"][-5:]} == {None}


WORDS: list[tuple[int, Any]] = [  # as providers, gateways and local servers tell that a request is too long
    (400, {"error": {"message": "The input token count (1196265) exceeds the maximum number of tokens allowed (9)."}}),
    (400, {"error": "This model's maximum prompt length is 131072 but the request contains 157812 tokens."}),
    (400, {"error": {"message": "Prompt has 256468 tokens, but the configured context size is 256000 tokens"}}),
    (400, {"error": {"message": "tokens in request more than max tokens allowed"}}),
    (400, {"error": {"message": "Your request exceeded model token limit: 131072 (requested: 150000)"}}),
    (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length"}),
    (400, {"message": "The input (12345 tokens) is longer than the model's context length (8192 tokens)."}),
    (400, {"error": {"message": "Range of input length should be [1, 129024]"}}),
    (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}),
    (413, "<html><title>413 Request Entity Too Large</title></html>"),
]


def refusing(most: int, status: int, words: Any) -> Any:
    async def behave(request: Request, raw: bytes) -> Response | None:
        text = words if isinstance(words, str) else json.dumps(words)
        return Response(text, status) if len(raw) > most else None

    return behave


STREAMS = [(path, in_stream) for path in PATHS for in_stream in (False, True)]


@pytest.mark.parametrize(("path", "refusal"), [*STREAMS, *((COMPLETIONS, words) for words in WORDS)])
async def test_a_size_and_a_limit_in_any_words_and_any_413_get_a_shorter_request(path, refusal):
    """Where a stream that has begun refuses it, the client sees the second stream alone."""
    async with between(Fake(refuses_in_stream=refusal is True)) as (fake, address):
        body, before = await grown(path, address), len(fake.seen)
        if isinstance(refusal, bool):
            fake.most_tokens = len(body) // 4 - 100
        else:
            fake.behave = refusing(len(body) - 500, *refusal)
        answer = await post(address, path, body)
        told = await status(address)
    assert (answer.status_code, len(fake.seen), fake.problems) == (200, before + 2, [])
    assert b"answer" in answer.content
    assert not re.search(b"failed|too long", answer.content)
    last = told["records"][-1]
    assert (last["replayed"], last["status"], len(told["sessions"])) == (True, 200, 1)


@pytest.mark.parametrize(("share", "asked"), [(1.2, 2), (4.0, 1)])
async def test_an_error_that_tells_nothing_gets_one_shorter_request_near_the_ceiling_and_none_far_from_it(share, asked):
    fake = Fake()
    async with served(fake) as upstream:
        async with proxied(upstream) as address:
            body = await grown(COMPLETIONS, address)
            last = (await status(address))["records"][-1]
        async with proxied(upstream, budget=int(share * (last["view_tokens"] + last["fixed_tokens"]))) as address:
            fake.behave = refusing(0, 400, {"error": {"message": "no such luck, and max_tokens"}})
            before = len(fake.seen)
            assert (await post(address, COMPLETIONS, body)).status_code == 400
    assert len(fake.seen) == before + asked
