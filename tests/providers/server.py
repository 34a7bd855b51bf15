"""A provider on the loopback that speaks all protocols, and behaves as badly as a script tells it to.

HTTP/1.1 by hand, so that it can cut a reply short, reset a connection, or never stop talking.
"""

import asyncio
import hashlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from .protocols import Json, spoken_at, user_text

Ending = Literal["whole", "stall", "reset", "cut", "flood"]
FLOOD = 100_000_000  # bytes


@dataclass(frozen=True)
class Answer:
    """What comes back for one request. Without a body it is a good summary in the protocol of the path."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    ending: Ending = "whole"  # "stall" and "reset" send nothing, "cut" half of the body; "flood" does not end
    model: Callable[[Json], str] | None = None  # writes the summary
    after: asyncio.Event | None = None  # before which nothing is sent


@dataclass(frozen=True)
class Request:
    number: int  # from 0
    path: str
    headers: dict[str, str]
    body: Json


Script = Callable[[Request], Answer]


def summary_of(body: Json) -> str:
    """A lawful summary that differs from content to content."""
    name = hashlib.sha256(user_text(body).encode()).hexdigest()[:8]
    return f"## Done\n- part {name.translate(str.maketrans('0123456789abcdef', 'ghijklmnopqrstuv'))}"


@dataclass
class ProviderServer:
    """Counts what it is asked and what it does."""

    script: Script
    root: str = ""
    requests: list[Request] = field(default_factory=list)
    flooded: int = 0  # bytes that were taken from it in floods
    connections: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self.connections.add(task)
        try:
            while await self._answer(await self._read(reader), writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client, or the test, has gone
        finally:
            self.connections.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(len(self.requests), first.split(" ")[1], headers, json.loads(body or b"{}"))
        self.requests.append(request)
        return request

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection may be used again."""
        said = self.script(request)
        if said.after is not None:
            await said.after.wait()
        if said.ending == "stall":
            await asyncio.Event().wait()
        if said.ending == "reset":
            found = writer.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        body = said.body
        if body is None:
            reply = spoken_at(request.path).reply((said.model or summary_of)(request.body))
            body = json.dumps(reply).encode()
        size = FLOOD if said.ending == "flood" else len(body)
        headers = {"content-type": "application/json", **dict(said.headers), "content-length": size}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {said.status} Answer\r\n{lines}\r\n".encode("latin-1"))
        while said.ending == "flood" and self.flooded < FLOOD:
            writer.write(b" " * 65_536)
            await writer.drain()
            self.flooded += 65_536
        writer.write(body[: len(body) // 2] if said.ending == "cut" else body)
        await writer.drain()
        return said.ending == "whole"


@asynccontextmanager
async def serving(script: Script = lambda _: Answer()) -> AsyncIterator[ProviderServer]:
    """A server on a free port of the loopback; nothing of it is left afterwards."""
    provider = ProviderServer(script)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        for task in list(provider.connections):
            task.cancel()
        await asyncio.gather(*provider.connections, return_exceptions=True)
        await server.wait_closed()
