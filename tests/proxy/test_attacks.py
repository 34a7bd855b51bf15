"""Requests that want to get past the proxy, and providers that want to harm it, byte by byte over sockets."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from tests.proxy.clients import between, proxied, status
from tests.proxy.fake import Fake, nothing, served
from tests.proxy.test_wire import BODY, TOKEN

OWN, HELLO = b"127.0.0.1", BODY.encode()


async def said(address: str, data: bytes, most: int = 2_000_000) -> bytes:
    """What comes back for these bytes: as much as `most`, or until the connection ends."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    got = bytearray()
    try:
        async with asyncio.timeout(120):
            writer.write(data)
            while len(got) < most and (piece := await reader.read(65_536)):
                got += piece
    except ConnectionError:
        pass  # it is refused before all of it was read
    finally:
        writer.close()
    return bytes(got)


def asked(
    path: bytes = b"/v1/messages", *lines: bytes, host: bytes | None = OWN, method: bytes = b"POST", body: bytes = HELLO
) -> bytes:
    """A request as it is written; its length is told unless a line tells it in another way."""
    framed = any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in lines)
    head = [method + b" " + path + b" HTTP/1.1", *([] if host is None else [b"Host: " + host])]
    head += [] if framed else [b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*head, *lines, b"Connection: close", b"", body])


CHUNKED = b"Transfer-Encoding: chunked"
HOSTS = [
    *(b"evil.example", b"localhost.evil.example", b"127.0.0.1@evil.example", b"127.0.0.1, evil.example", b"0.0.0.0"),
    None,
]
PATHS = [
    *(b"http://evil.example/v1/messages", b"http://127.0.0.1/v1/messages", b"/v1/messages#@evil.example"),
    *(b"/v1/../../admin", b"/v1/%2e%2e/%2E./admin", b"/v1/..%2f..%5cadmin", b"/v1\\..\\admin"),
]
LINES = [
    *(b"Host: evil.example", b"Origin: https://evil.example", b"Origin: null", b"Origin: http://127.0.0.1:1"),
    *(b"X-A : b", b"X-A: b\rX-Evil: 1", b"X-A: b\x00c", b"X-A: " + b"a" * 300_000),
    b"Transfer-Encoding: xchunked",
]
REFUSED = [
    *(asked(host=host) for host in HOSTS),
    *(asked(path) for path in PATHS),
    *(asked(b"/v1/messages", line) for line in LINES),
    asked(host=None).replace(b"HTTP/1.1", b"HTTP/1.0"),
    asked(b"/v1/messages", b"Origin: https://evil.example", b"Origin: http://" + OWN),
    asked(b"/_status", b"Sec-Fetch-Site: cross-site", method=b"GET", body=b""),  # a picture in a page
    asked(b"evil.example:443", method=b"CONNECT", body=b""),
    asked(b"*", method=b"OPTIONS", body=b""),
    asked(b"/v1/messages", b"Content-Length: 3", b"Content-Length: 4"),
    asked(b"/v1/messages", b"Content-Length: +5", body=b"hello"),
    asked(b"/v1/messages", CHUNKED, b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    asked(b"/v1/messages", CHUNKED, body=b"5;a=\r\nb\r\nhello\r\n0\r\n\r\n"),  # a line end in a chunk
    *(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
]
PASSED = {
    "plain": asked(),
    "the other loopback": asked(host=b"[::1]:80"),
    "one of our own pages": asked(b"/v1/messages", b"Origin: http://" + OWN, b"Sec-Fetch-Site: same-origin"),
    "a slash within a name": asked(b"/v1/files/a%2Fb"),
    "line ends, escaped": asked(b"/v1/%0d%0aX-Evil:1/messages"),
    "a name in front": asked(b"/@evil.example/"),
    "a folded value": asked(b"/v1/messages", b"X-A: b\r\n X-Evil: 1"),
    "a header behind the body": asked(b"/v1/messages", CHUNKED, body=b"5\r\nhello\r\n0\r\nX-Evil: 1\r\n\r\n"),
    "a length that chunks deny": asked(b"/v1/messages", CHUNKED, b"Content-Length: 3", body=b"5\r\nhello\r\n0\r\n\r\n"),
    "an upgrade": asked(b"/v1/responses", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13"),
    "names of others": asked(b"/v1/messages", b"X-Forwarded-Host: evil.example", b"X-Forwarded-For: 1.2.3.4"),
}


async def test_what_is_no_clients_request_does_not_reach_the_provider():
    async with between(Fake(behave=nothing)) as (fake, address):
        for data in REFUSED:
            answer = await said(address, data)
            assert (answer[9:12] in (b"400", b"403", b""), fake.seen) == (True, []), (data[:200], answer)
        assert (await status(address))["failures"] == 0


async def test_what_goes_on_goes_to_the_provider_alone_and_in_one_piece():
    async with between(Fake(behave=nothing), budget=8_000) as (fake, address):
        for name, data in PASSED.items():
            answer = await said(address, data)
            assert answer.startswith(b"HTTP/1.1 200 "), (name, answer)
            seen = fake.seen.pop()
            assert fake.seen == [], name
            assert seen["headers"]["host"] == fake.address.removeprefix("http://")
            assert seen["raw"] in (HELLO, b"hello"), name
            assert seen["headers"]["content-length"] == str(len(seen["raw"])), name
            assert not {"x-evil", "upgrade", "transfer-encoding"} & seen["headers"].keys(), name


WITH_TOKEN = {
    f"/token/{TOKEN}/v1/messages": ["/v1/messages"],
    f"/token/{TOKEN}": ["/"],
    f"/token/%61{TOKEN[1:]}/v1/messages": [],
    f"/%74oken/{TOKEN}/v1/messages": [],
    f"/token/{TOKEN}x/v1/messages": [],
    f"/token//{TOKEN}/v1/messages": [],
    "/v1/messages": [],
}


async def test_no_part_of_a_token_reaches_the_provider():
    fake, header = Fake(behave=nothing), b"X-Summarizing-Context-Token: " + TOKEN.encode()
    async with served(fake) as upstream, proxied(upstream, token=TOKEN, budget=8_000) as address:
        for path, wanted in WITH_TOKEN.items():
            await said(address, asked(path.encode(), host=b"proxy.example"))
            await said(address, asked(b"/v1/messages", header, host=b"proxy.example"))
            assert [each["path"] for each in fake.seen] == [*wanted, "/v1/messages"], path
            assert TOKEN not in str(fake.seen)
            fake.seen.clear()


# providers

Provide = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def hostile(provide: Provide) -> AsyncIterator[str]:
    """A provider that writes what it likes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(HELLO))
            await provide(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def writes(*pieces: bytes, times: int = 1) -> Provide:
    async def provide(writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(pieces[:-1]))
        for _ in range(times):
            writer.write(pieces[-1])
            await writer.drain()

    return provide


OK, LENGTH = b"HTTP/1.1 200 OK\r\n", b"content-length: 2\r\n"
BROKEN = {
    "headers without end": writes(OK, b"x-a: %s\r\n" % (b"a" * 1_000), times=100_000),
    "one header without end": writes(OK, b"x-a: ", b"a" * 10_000, times=100_000),
    "a carriage return in a value": writes(OK, LENGTH, b"x-a: b\rx-evil: 1\r\n\r\nok"),
    "a name with a space": writes(OK, LENGTH, b"x y: 1\r\n\r\nok"),
    "another protocol": writes(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nfree"),
    "an impossible status": writes(b"HTTP/1.1 999 Odd\r\n", LENGTH, b"\r\nok"),
    "a status of two digits": writes(b"HTTP/1.1 99 Odd\r\n", LENGTH, b"\r\nok"),
    "no status": writes(b"just bytes\r\n\r\n"),
    "nothing": writes(b""),
}
BOMB = gzip.compress(b"\0" * 50_000_000)
PACKED = b"content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(BOMB)
STREAM = b"content-type: text/event-stream\r\n\r\n"
UNREADABLE = [b'data: {"usage": %s}\n\n' % usage for usage in (b'"\xff"', b"[" * 2_000 + b"]" * 2_000)]
ERROR = b'{"type":"error",  "error": {"message":"the wording\\u2026 counts"}}'
HEAD = b"HTTP/1.1 %d No\r\nretry-after: 7\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
STRANGE = {kind: (provide, [b"HTTP/1.1 502 "]) for kind, provide in BROKEN.items()} | {
    **{f"a usage {one[:30]!r}": (writes(OK, STREAM, one, b"data: [DONE]\n\n"), [one]) for one in UNREADABLE},
    **{
        f"an error {code}": (
            writes(HEAD % (code, len(ERROR)), ERROR),
            [b"HTTP/1.1 %d " % code, b"retry-after: 7\r\n", b"application/json\r\n", b"\r\n\r\n" + ERROR],
        )
        for code in (400, 401, 429, 500, 529)
    },
    "a way elsewhere": (
        writes(b"HTTP/1.1 307 There\r\nlocation: http://evil.example/steal\r\ncontent-length: 0\r\n\r\n"),
        [b"HTTP/1.1 307 ", b"location: http://evil.example/steal"],
    ),
    "a packed answer": (writes(OK, PACKED, BOMB), [b"HTTP/1.1 200 ", BOMB]),
    "a packed error": (writes(b"HTTP/1.1 400 No\r\n", PACKED, BOMB), [b"HTTP/1.1 400 ", BOMB]),
    "an error of megabytes": (
        writes(b"HTTP/1.1 400 No\r\ncontent-length: 1500000\r\n\r\n", b"e" * 15_000, times=100),
        [b"HTTP/1.1 400 ", b"e" * 1_500_000],
    ),
    "an event of megabytes": (writes(OK, STREAM, b"data: ", b"e" * 10_000, times=300), [OK[:13], b"data: eeee"]),
    "a length that chunks deny": (
        writes(OK, b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        [b"HTTP/1.1 200 ", b"2\r\nok\r\n0\r\n\r\n"],
    ),
    "more than it said": (writes(OK, LENGTH, b"\r\nokHTTP/1.1 200 OK\r\n\r\n"), [b"HTTP/1.1 200 ", b"\r\n\r\nok"]),
    "headers of one connection": (
        writes(OK, LENGTH, b"connection: x-own, close\r\nx-own: 1\r\nset-cookie: a\r\nset-cookie: b\r\n\r\nok"),
        [b"set-cookie: a\r\nset-cookie: b\r\n", b"\r\n\r\nok"],
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
async def test_a_strange_answer_is_passed_on_and_not_followed_nor_unpacked_and_none_is_told(kind):
    provide, wanted = STRANGE[kind]
    async with hostile(provide) as upstream, proxied(upstream, budget=8_000) as address:
        answer = await said(address, asked())
        told = await status(address)
    assert (told["failures"], [one["usage"] for one in told["records"]]) == (0, [None])
    assert [one["failed"] for one in told["sessions"]] == [answer[9:12] >= b"300"]
    for piece in wanted:
        assert piece in answer
    assert not re.search(rb"x-own|x-evil", answer)
    assert answer.count(b"HTTP/1.1 ") == 1
