"""`proxy watch`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.proxy.clients import AnthropicAgent, port_of, proxied
from tests.proxy.fake import Fake, served

PROGRAM = [sys.executable, "-m", "summarizing_context", "proxy"]


@pytest.mark.anyio
async def test_each_request_is_one_line_for_people_and_for_programs():
    fake = Fake()
    async with served(fake) as upstream, proxied(upstream, budget=8_000) as address:
        client = AnthropicAgent(address, "5c0d2a1e-one", model="claude-sonnet-5")
        for step in range(24):
            await client.step(f"step {step}")
        command = [*PROGRAM, "watch", "--listen", address.removeprefix("http://"), "--once"]
        told = (await anyio.run_process([*command, "--json"])).stdout.decode()
        shown = (await anyio.run_process(command)).stdout.decode()
    records = [json.loads(line) for line in told.splitlines()]
    assert [record["number"] for record in records] == list(range(1, 25))
    lines = shown.splitlines()
    assert len(lines) == 24
    assert all("tokens sent" in line and "$" in line for line in lines)
    for record, line in zip(records, lines, strict=True):
        assert (record["activation"] or "").replace("_", " ") in line
    assert any(record["activation"] for record in records)


def test_a_proxy_without_requests_shows_none(tmp_path: Path):
    serving = subprocess.Popen(
        [*PROGRAM, "--store", str(tmp_path / "run.db"), "--listen", "0"], stderr=subprocess.PIPE, text=True
    )
    with serving:
        assert serving.stderr is not None
        try:
            port = port_of(serving.stderr.readline())
            again = [*PROGRAM, "watch", "--listen", port, "--once", "--json"]
            assert subprocess.run(again, capture_output=True, timeout=60, check=True).stdout == b""
        finally:
            serving.send_signal(signal.SIGTERM)
            serving.wait(60)
