"""What the proxy passes on: errors, streams that break off, strange bodies; and which requests it refuses."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from summarizing_context.contrib.proxy import server as application
from tests.proxy.clients import between, proxied, status
from tests.proxy.fake import Fake, nothing, streams

TOKEN = "abcdefgh12345678"
BODY = json.dumps({"model": "m", "max_tokens": 9, "tools": [], "messages": [{"role": "user", "content": "hi"}] * 3})


async def post(address: str, path: str = "/v1/messages", body: Any = BODY, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as client:
        return await client.post(f"{address}{path}", content=body, headers={"x-api-key": "k", **headers})


@pytest.mark.parametrize("breaks", [True, False])
async def test_a_stream_comes_event_by_event_and_ends_for_both_where_one_of_them_ends_it(breaks):
    """The provider goes on only when the client has got what came first."""
    got, ended = asyncio.Event(), asyncio.Event()

    async def announced() -> AsyncIterator[bytes]:
        try:
            yield b'event: response.created\ndata: {"type":"response.created"}\n\n'
            await got.wait()
            for _ in range(1 if breaks else 12_000):
                yield b": more\n\n"
                await asyncio.sleep(0.01)
            raise ConnectionResetError
        finally:
            ended.set()

    async with (
        between(Fake(behave=streams(announced))) as (_, address),
        httpx2.AsyncClient(trust_env=False, timeout=120) as client,
        client.stream("POST", f"{address}/v1/responses", content=BODY) as answer,
    ):
        pieces = answer.aiter_raw()
        assert b"response.created" in await anext(pieces)
        got.set()
        assert await anext(pieces) == b": more\n\n"
        if breaks:
            with pytest.raises(httpx2.RemoteProtocolError):
                await anext(pieces)
        else:
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
