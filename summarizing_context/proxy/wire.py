"""Requests and replies as they pass: bodies of a bounded size, replies of providers, and errors of the proxy's own.

A provider's reply is passed on as it comes, and looked at for the error that a request was too long. Such an error
comes with a status of its own, or as an event of a stream before any content. Only events that tell nothing are held
back for it, and those for a second at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import httpx2
import msgspec
from starlette.types import Receive, Send

from summarizing_context.proxy.upstream import passed_on

_BETWEEN = 60.0  # seconds that a client may take between two pieces of a body


class SlowBody(Exception):
    """The client took too long to send its request."""


class ClientGone(Exception):
    """The client has hung up."""


class Body:
    """The body of a request: `data` is what was read of it, which `is_whole` or not."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.data = b""
        self.is_whole = False

    async def read(self, most: int) -> None:
        """Read up to `most` bytes, or a little more of a longer body. Raise `SlowBody` and `ClientGone`."""
        parts, size = list[bytes](), 0
        while not self.is_whole and size <= most:
            parts.append(await self._part())
            size += len(parts[-1])
        self.data = b"".join(parts)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body without keeping it. Raise as `read` does."""
        yield self.data
        while not self.is_whole:
            if part := await self._part():
                yield part

    async def _part(self) -> bytes:
        try:
            async with asyncio.timeout(_BETWEEN):
                message = await self._receive()
        except TimeoutError:
            raise SlowBody from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.is_whole = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def unpacked(data: bytes, coding: str, most: int) -> bytes | None:
    """Return a body without its coding.

    None where that is another than gzip or deflate, is broken, or hides more than `most` bytes or a hundred times its
    own size.
    """
    most = min(most, 100 * len(data))
    for bits in {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}.get(coding, ()):  # -15: as some clients write it
        unpacking = zlib.decompressobj(bits)
        with contextlib.suppress(zlib.error):
            found = unpacking.decompress(data, most)
            if unpacking.eof and not unpacking.unused_data:
                return found
    return None


async def reply_error(send: Send, status: int, words: str) -> None:
    """Answer with an error of the proxy's own, in the form in which both providers' clients read errors."""
    error = {"type": "proxy_error", "message": f"summarizing-context proxy: {words}", "code": None, "param": None}
    body = msgspec.json.encode({"type": "error", "error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


_MOST_OF_AN_ERROR = 1_000_000  # bytes of an error that are looked at, and of what is held back of a stream
_HELD_BACK = 1.0  # seconds
_EVENT_ENDS = re.compile(rb"\r?\n\r?\n")

_TELLS_NOTHING = re.compile(
    rb'(?:event: ?|data: ?\{\s*"type"\s*:\s*")(?:response\.(?:created|in_progress|queued)|ping)\b|:'
)

_IS_ERROR = re.compile(rb'"error"\s*:\s*[{"]|event: error')


class Reply:
    """One answer of a provider. Close it after use."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.status = answer.status_code
        self.headers = answer.headers
        self._answer = answer
        self._chunks = answer.aiter_raw()
        self._begun = bytearray()  # what was read ahead
        self._reading: asyncio.Future[bytes] | None = None

    async def error(self) -> str | None:
        """Return an error that comes before any content, as text; None where there is none.

        What was read is passed on all the same. Raise `httpx2.HTTPError`.
        """
        held = self._begun
        if self.status in (400, 413):
            while len(held) <= _MOST_OF_AN_ERROR and await self._read_on():
                pass
            return held.decode("utf-8", "replace")
        if self.status != 200 or "event-stream" not in self.headers.get("content-type", ""):
            return None
        loop = asyncio.get_running_loop()
        ends = loop.time() + _HELD_BACK
        looked = at = 0  # where the present event begins, and where its end is looked for
        while len(held) <= _MOST_OF_AN_ERROR:
            if (end := _EVENT_ENDS.search(held, at)) is not None:
                event, at = bytes(held[looked : end.start()]), end.end()
                looked = at
                if not _TELLS_NOTHING.match(event):
                    return event.decode("utf-8", "replace") if _IS_ERROR.search(event) else None
                continue
            at = max(looked, len(held) - 3)
            if not await self._read_on(within=ends - loop.time()):
                break
        return None

    async def pass_on(self, send: Send, see: Callable[[bytes], None], more: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Send it to the client as it comes, with `more` headers; `see` is shown each piece.

        Raise `httpx2.HTTPError` where the provider breaks off: then the client's connection has to break off too.
        """
        if not 200 <= self.status < 600:
            raise httpx2.RemoteProtocolError(f"status {self.status} is not one that can be passed on")
        headers = [*passed_on(self.headers.raw), *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        while self._begun or await self._read_on():
            piece = bytes(self._begun)
            self._begun.clear()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            see(piece)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def aclose(self) -> None:
        """Give the answer up, or its connection back."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, httpx2.HTTPError):
                await self._reading
        await self._answer.aclose()

    async def _read_on(self, within: float | None = None) -> bool:
        """Read a piece; False at the end, or where none comes in time."""
        if within is not None:
            self._reading = self._reading or asyncio.ensure_future(anext(self._chunks, b""))
            await asyncio.wait([self._reading], timeout=max(0.0, within))
            if not self._reading.done():
                return False
        reading, self._reading = self._reading, None
        piece = await (anext(self._chunks, b"") if reading is None else reading)
        self._begun += piece
        return bool(piece)
