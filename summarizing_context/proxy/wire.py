"""Requests and replies as ASGI has them: bodies of a bounded size, and replies of the proxy's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec
from starlette.types import Receive, Send

from summarizing_context.proxy.upstream import Headers

_BETWEEN = 60.0  # seconds that a client may take between two pieces of a body


class SlowBody(Exception):
    """The client took too long to send its request."""


class ClientGone(Exception):
    """The client has hung up."""


class Body(NamedTuple):
    """What was read of a body, and whether it is all."""

    data: bytes
    is_whole: bool


async def read_body(receive: Receive, most: int) -> Body:
    """A body up to `most` bytes, or a little more of a longer one. Raises `SlowBody` and `ClientGone`."""
    parts, size = list[bytes](), 0
    async for part in _parts(receive):
        parts.append(part)
        size += len(part)
        if size > most:
            return Body(b"".join(parts), False)
    return Body(b"".join(parts), True)


async def rest_of(body: Body, receive: Receive) -> AsyncIterator[bytes]:
    """A body of which some was read, without keeping it."""
    yield body.data
    if not body.is_whole:
        async for part in _parts(receive):
            yield part


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(_BETWEEN):
                message = await receive()
        except TimeoutError:
            raise SlowBody from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            return


async def start(send: Send, status: int, headers: Headers) -> None:
    """Begin a reply."""
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def reply_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """A reply whose body is known."""
    await start(send, status, headers)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def reply_error(send: Send, status: int, words: str) -> None:
    """An error of the proxy's own, in the form in which both providers' clients read errors."""
    error = {"type": "proxy_error", "message": f"summarizing-context proxy: {words}", "code": None, "param": None}
    body = msgspec.json.encode({"type": "error", "error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await reply_whole(send, status, headers, body)
