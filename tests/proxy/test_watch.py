"""`proxy watch`: what a person sees, and what a program reads."""

from __future__ import annotations

import json
import sys

import anyio
import pytest

from tests.proxy.clients import AnthropicAgent, proxied
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
