"""A provider that answers as a request's header asks it to: in time, late, with errors, by halves, or not at all.

It speaks HTTP by hand, since no server sends half an answer or resets a connection when it is asked to. The bytes of an
answer follow from its kind and number alone, so a client knows what should have come.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from evals.clients.rules import problem
from evals.proxy.bodies import PATHS, SEAL

KINDS = {  # how often each is asked for
    "json": 30,
    "stream": 34,
    "slow": 6,
    "stall": 3,
    "hang up": 3,
    "pieces": 3,
    "429": 4,
    "500": 2,
    "529": 2,
    "418": 1,
    "too long": 3,
    "reset": 3,
    "half, then end": 2,
    "half, then reset": 2,
    "short": 2,
}

CUT = ("half, then end", "half, then reset", "short")  # answers that break off

NO_ANSWER = "reset"

_STALL = 0.8  # seconds

_TOO_LONG = (
    b'{"type":"error",  "error":{"type":"invalid_request_error","code":"context_length_exceeded",'
    b'"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'
)

_DIALECTS = {path: dialect for dialect, path in PATHS.items()}

_MARK = re.compile(rb"soak-[0-9]+-[0-9]+")


class Answer(NamedTuple):
    """What a request of some kind is answered with."""

    status: int
    headers: list[tuple[str, str]]
    parts: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


def answer_of(kind: str, number: int) -> Answer:
    """The answer; of one that breaks off as much as is sent."""
    about = [("x-request-id", f"req-{number}"), ("anthropic-ratelimit-tokens-remaining", str(number))]
    if kind in ("429", "500", "529", "418"):
        words = b'{"type":"error",   "error": {"type":"of_kind_%s", "message":"w\\u00f6rds\\n %d"}}'
        return Answer(int(kind), [*about, ("retry-after", "7")], [words % (kind.encode(), number)])
    if kind == "too long":
        return Answer(400, about, [_TOO_LONG])
    if kind in ("stream", "slow", "hang up", *CUT[:2]):
        events = [
            b'event: delta\ndata: {"type": "delta", "n": %d, "text": "%s"}\n\n' % (n, b"x" * 200) for n in range(12)
        ]
        half = events[:5] if kind in CUT else events
        return Answer(200, [*about, ("content-type", "text/event-stream")], half)
    text = b'{"id":"%d","content":[],"choices":[],"output":[],"usage":{"input_tokens":5,"output_tokens":9}}' % number
    return Answer(
        200, [*about, ("content-type", "application/json")], [text[: len(text) // 2] if kind == "short" else text]
    )


class Faulty:
    """The provider, with what it noticed."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.replays = 0
        self.hung_up = 0
        self.requests = 0
        self._refused: set[int] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether another may follow."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        kind, number, marker = headers["x-soak"].split("|")
        self.requests += 1
        self.kinds[kind] += 1
        self._look_at(first.split(" ")[1], body, marker)
        if kind == "too long" and int(number) in self._refused:
            self.replays += 1
            kind = "json"
        self._refused.add(int(number))
        return await self._answer(kind, int(number), reader, writer)

    def _look_at(self, path: str, body: bytes, marker: str) -> None:
        """Whether the request is lawful, whole at its end, and of one session alone."""
        found = {mark.decode() for mark in _MARK.findall(body)}
        if found != {marker.partition("#")[0]}:
            self.problems.append(f"{marker}: the request holds {sorted(found)}")
        if f"{marker}. ".encode() not in body:
            self.problems.append(f"{marker}: the newest message is missing")
        if wrong := problem(_DIALECTS[path], msgspec.json.decode(body), SEAL):
            self.problems.append(f"{marker}: {wrong}")

    async def _answer(self, kind: str, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(_STALL if kind == "stall" else 0.002 + number % 40 / 1_000)
        if kind == NO_ANSWER:
            return _reset(writer)
        answer = answer_of(kind, number)
        streams = ("content-type", "text/event-stream") in answer.headers
        size = len(answer.body) + (400 if kind == "short" else 0)
        length = ("transfer-encoding", "chunked") if streams else ("content-length", str(size))
        lines = [
            f"HTTP/1.1 {answer.status} Odd Words",
            *(f"{name}: {value}" for name, value in [*answer.headers, length]),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        for at, part in enumerate(answer.parts):
            writer.write(b"%x\r\n%s\r\n" % (len(part), part) if streams else part)
            await writer.drain()
            await asyncio.sleep(
                0.03 if kind == "slow" else 0.005 if kind == "hang up" or (kind in CUT and at == 4) else 0
            )
        if kind == "hang up":
            return await self._waits_for_the_end(reader)
        if kind == "half, then reset":
            await asyncio.sleep(0.05)  # what was sent is read by now, for a reset takes back what was not
            return _reset(writer)
        if kind in CUT:
            return False
        writer.write(b"0\r\n\r\n" if streams else b"")
        await writer.drain()
        return True

    async def _waits_for_the_end(self, reader: asyncio.StreamReader) -> bool:
        """The stream goes on until the client hangs up, which the proxy has to pass on."""
        try:
            await asyncio.wait_for(reader.read(1), 30)
            self.hung_up += 1
        except TimeoutError:
            self.problems.append("a client hung up, and its stream went on for 30 s")
        except ConnectionError:
            self.hung_up += 1
        return False


def _reset(writer: asyncio.StreamWriter) -> bool:
    """End the connection with a reset."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


@asynccontextmanager
async def faulty(provider: Faulty) -> AsyncIterator[str]:
    """The provider on the loopback, by its address."""
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1_000_000)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def wanted_headers(answer: Answer, got: Sequence[tuple[bytes, bytes]]) -> list[str]:
    """Headers of an answer that did not arrive as they were sent."""
    told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in got}
    return [name for name, value in answer.headers if told.get(name) != value]
