"""What stands between a client and its provider: this package's proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

_PATIENCE = 60.0  # seconds for a proxy to start

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by a proxy of the machine

_EVERY = 0.5  # seconds between two looks at its status


class Middle:
    """Passes requests on at `address`. `records` is what it told of each request."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.records: list[dict[str, Any]] = []
        self.told: dict[str, Any] = {}

    async def look(self) -> None:
        """Read what the proxy has told since the last look."""
        after = self.records[-1]["number"] if self.records else 0
        self.told = await asyncio.to_thread(_read, f"{self.address}/_status?after={after}")
        self.records += self.told["records"]

    async def watch(self) -> None:
        """Look again and again, until cancelled: a proxy keeps its newest records alone."""
        while True:
            await asyncio.sleep(_EVERY)
            await self.look()


@asynccontextmanager
async def between(provider: str, budget: int, folder: Path) -> AsyncIterator[Middle]:
    """Start the proxy in front of a provider. Raise `RuntimeError` if it does not answer."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    given = ["--store", str(folder / "proxy.db"), "--listen", str(port), "--budget", str(budget), "--no-token"]
    ways = ["--anthropic", provider, "--openai", provider]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "summarizing_context", "proxy", *given, *ways),
        env={**os.environ, "HOME": str(folder), "NO_COLOR": "1"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=(folder / "proxy.log").open("wb"),
    )
    try:
        await answering(f"{address}/_status", process)
        yield Middle(address)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def _read(url: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_OPENER.open(url, timeout=10).read())
    return told


async def answering(url: str, process: asyncio.subprocess.Process) -> None:
    """Wait until a server answers there. Raises `RuntimeError` where it ends or takes too long.

    One that takes connections may not answer yet: what OpenCode is asked in its first moments it never answers.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + _PATIENCE
    while loop.time() < ends and process.returncode is None:
        with contextlib.suppress(OSError):
            return await asyncio.to_thread(lambda: _OPENER.open(url, timeout=5).close())
        await asyncio.sleep(0.1)
    raise RuntimeError("the server did not answer; a proxy says why in its log")


def post(url: str, body: bytes, *, timeout: float) -> bytes:
    """Send JSON, and wait for the answer. Raises `OSError`."""
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with _OPENER.open(request, timeout=timeout) as answer:
        answered: bytes = answer.read()
        return answered
