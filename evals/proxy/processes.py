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

_ANSWER = (
    b'{"id":"x","object":"response","role":"assistant","type":"message","model":"m","stop_reason":"end_turn",'
    b'"content":[],"choices":[],"output":[],"usage":{"input_tokens":0,"output_tokens":9}}'
)

_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_ANSWER) + _ANSWER


class Watched:
    """A process whose time and memory are looked at. Linux tells them; elsewhere they are 0."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._folder = Path(f"/proc/{process.pid}")

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of processor time so far."""
        try:
            fields = (self._folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1_000

    @property
    def megabytes(self) -> int:
        """Memory that it has in use."""
        try:
            return round(int((self._folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except OSError:
            return 0

    def end(self) -> int:
        """Ask it to end; its exit status. Raises `subprocess.TimeoutExpired`."""
        self._process.terminate()
        return self._process.wait(30)


@contextmanager
def proxy_process(upstream: str, store: Path, options: Sequence[str] = ()) -> Iterator[tuple[str, Watched]]:
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
            yield address, Watched(process)
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
