"""What the proxy passes on: errors, streams that break off, strange bodies; and which requests it refuses."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from summarizing_context.contrib.proxy import server as application
from tests.proxy.clients import between, proxied, status
from tests.proxy.fake import Fake, nothing, streams

TOKEN = "abcdefgh12345678"
BODY = json.dumps({"model": "m", "max_tokens": 9, "tools": [], "messages": [{"role": "user", "content": "hi"}] * 3})


async def post(address: str, path: str = "/v1/messages", body: Any = BODY, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as client:
        return await client.post(f"{address}{path}", content=body, headers={"x-api-key": "k", **headers})


async def test_an_error_of_the_provider_is_passed_on_byte_for_byte():
    said = b'{"type":"error",  "error": {"message":"the wording\\u2026 counts"}}'
    codes = [400, 401, 429, 500, 529]
    left = iter(codes)
    headers = {"retry-after": "7", "content-type": "application/json", "x-request-id": "r"}

    async def behave(request: Request, raw: bytes) -> Response | None:
        return None if "/models" in request.url.path else Response(said, next(left), headers)

    async with between(Fake(behave=behave)) as (_, address):
        for code in codes:
            answer = await post(address)
            assert (answer.status_code, answer.content) == (code, said)
            assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("7", "r")
        told = await status(address)
    assert told["sessions"][0]["failed"] == len(codes)


@asynccontextmanager
async def streaming(pieces: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[tuple[httpx2.Response, Any]]:
    """The answer of a proxy whose provider streams these pieces, and the pieces as they come."""
    async with (
        between(Fake(behave=streams(pieces))) as (_, address),
        httpx2.AsyncClient(trust_env=False, timeout=120) as client,
        client.stream("POST", f"{address}/v1/responses", content=BODY) as answer,
    ):
        yield answer, answer.aiter_raw()


async def test_a_stream_comes_event_by_event_and_breaks_off_for_the_client_too():
    """The provider goes on only when the client has got what came first."""
    got = asyncio.Event()

    async def announced() -> AsyncIterator[bytes]:
        yield b'event: response.created\ndata: {"type":"response.created"}\n\n'
        await got.wait()
        yield b": more\n\n"
        raise ConnectionResetError

    async with streaming(announced) as (_, pieces):
        assert b"response.created" in await anext(pieces)
        got.set()
        assert await anext(pieces) == b": more\n\n"
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)


async def test_a_client_that_hangs_up_ends_the_providers_stream():
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b": more\n\n"
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with streaming(endless) as (answer, pieces):
        await anext(pieces)
        await answer.aclose()
        await asyncio.wait_for(ended.wait(), 120)


async def test_a_provider_that_is_not_there_is_told():
    async with proxied("http://127.0.0.1:1") as address:
        answer = await post(address)
    assert answer.status_code == 502
    assert "the provider at 127.0.0.1:1 cannot be reached" in answer.json()["error"]["message"]


async def test_what_holds_no_history_that_can_be_read_goes_on_unchanged(monkeypatch):
    monkeypatch.setattr(application, "MAX_BYTES", 10_000)
    bodies = [b"", b"no json", b"[]", b'{"messages": 7}', b'{"messages": [7]}', b'{"messages": []}']
    bodies += [BODY.encode() + b" " * 300_000]
    async with between(Fake(behave=nothing)) as (fake, address), httpx2.AsyncClient(trust_env=False) as client:
        for body in bodies:
            for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/responses/compact"):
                assert (await post(address, path, body)).status_code == 200
                assert (fake.seen[-1]["path"], fake.seen[-1]["raw"]) == (path, body)
        await client.get(f"{address}/v1/models?limit=3")
        await client.delete(f"{address}/v1/files/a%2Fb")
        assert (await status(address))["sessions"] == []
    assert [each["path"] + each["query"] for each in fake.seen[-2:]] == ["/v1/modelslimit=3", "/v1/files/a/b"]
    assert "x-summarizing-context-token" not in str(fake.seen)
