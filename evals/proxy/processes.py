"""The processes of a measurement: the proxy as users start it, and a provider that answers at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

_ANSWER = (
    b'{"id":"x","object":"response","role":"assistant","type":"message","model":"m","stop_reason":"end_turn",'
    b'"content":[],"choices":[],"output":[],"usage":{"input_tokens":0,"output_tokens":9}}'
)

_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_ANSWER) + _ANSWER


@contextmanager
def proxy_process(upstream: str, store: Path, options: Sequence[str] = ()) -> Iterator[tuple[str, psutil.Process]]:
    """A proxy in a process of its own: its address, and the process. It ends with SIGTERM."""
    command = [sys.executable, "-m", "summarizing_context", "proxy", "--store", str(store), "--listen", "0"]
    given = ["--anthropic", upstream, "--openai", upstream, *options]
    with subprocess.Popen([*command, *given], stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        try:
            words = process.stderr.readline()
            address = words.split(": ")[0]
            if not address.startswith("http"):
                raise RuntimeError(f"the proxy did not start: {words}{process.stderr.read()}")
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def instant_provider() -> Iterator[str]:
    """A provider in a process of its own that reads requests and answers each of them alike."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("fork").Process(target=_provide, args=(listening,), daemon=True)
        process.start()
        host, port = listening.getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            process.terminate()
            process.join(10)


def _provide(listening: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(_Instant, sock=listening)
        await server.serve_forever()

    asyncio.run(run())


class _Instant(asyncio.Protocol):
    """One connection, whose requests tell their length."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0  # bytes of a body that are still to come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        while data:
            if not self._left:
                head, end, data = (self._head + data).partition(b"\r\n\r\n")
                if not end:
                    self._head = head
                    return
                self._head = b""
                lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length:" in line]
                self._left = int(lengths[0]) if lengths else 0
            taken = min(self._left, len(data))
            self._left, data = self._left - taken, data[taken:]
            if not self._left:
                self._transport.write(_REPLY)
