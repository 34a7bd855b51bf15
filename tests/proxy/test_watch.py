"""`proxy watch`: what a person sees at two widths, what a program reads, and its end."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from summarizing_context.cli.proxy_watch import Watched, watch_lines
from tests.proxy.clients import AnthropicAgent, port_of, proxied
from tests.proxy.fake import Fake, served

PROGRAM = [sys.executable, "-m", "summarizing_context", "proxy"]


async def told_by_a_proxy(steps: int) -> dict[str, Any]:
    """What a proxy tells after a session with activations."""
    import httpx2

    fake = Fake()
    async with served(fake) as upstream, proxied(upstream, budget=8_000) as address:
        client = AnthropicAgent(address, "5c0d2a1e-one", model="claude-sonnet-5")
        for step in range(steps):
            await client.step(f"step {step}")
        async with httpx2.AsyncClient(trust_env=False) as asking:
            told: dict[str, Any] = (await asking.get(f"{address}/_status")).json()
    return told


def shown(told: dict[str, Any], width: int, height: int = 40) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    watched = Watched()
    watched.take(json.loads(json.dumps(told)))
    console.print(watched)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.mark.anyio
async def test_requests_activations_prefix_and_cost_are_shown_at_any_width():
    told = await told_by_a_proxy(24)
    told["records"][-1].update(status=429)
    record = next(record for record in reversed(told["records"]) if record["activation"])
    for width in (80, 120):
        text = shown(told, width)
        assert max(map(len, text.splitlines())) <= width
        assert "24 requests" in text
        assert record["activation"].replace("_", " ") in text
        assert "429" in text
        assert "100%" in text
        assert "$" in text
    assert "own ms" in shown(told, 120)
    assert len(shown(told, 80, 24).splitlines()) <= 24


@pytest.mark.anyio
async def test_a_program_gets_each_request_once(capsys: pytest.CaptureFixture[str]):
    told = await told_by_a_proxy(5)
    stop: list[int] = []

    def look(after: int) -> dict[str, Any]:
        if after:
            stop.append(1)
        return {**told, "records": [each for each in told["records"] if each["number"] > after]}

    watch_lines(look, once=False, stop=stop)
    numbers = [json.loads(line)["number"] for line in capsys.readouterr().out.splitlines()]
    assert numbers == [1, 2, 3, 4, 5]


def test_a_proxy_that_starts_anew_is_seen_from_its_beginning():
    watched = Watched()
    told = {"requests": 7, "sessions": []}
    assert watched.take({**told, "records": [{"number": 7}]})
    assert not watched.take({**told, "records": []})
    assert watched.take({**told, "requests": 1, "records": []})
    assert watched.seen == 0


def test_it_watches_a_running_proxy_and_ends_with_ctrl_c(tmp_path: Path):
    serving = subprocess.Popen(
        [*PROGRAM, "--store", str(tmp_path / "run.db"), "--listen", "0"], stderr=subprocess.PIPE, text=True
    )
    with serving:
        assert serving.stderr is not None
        try:
            port = port_of(serving.stderr.readline())
            watching = subprocess.Popen(
                [*PROGRAM, "watch", "--listen", port], stdout=subprocess.PIPE, env={**os.environ, "COLUMNS": "80"}
            )
            with watching:
                assert watching.stdout is not None
                watching.stdout.readline()  # it is drawn once it has heard of the proxy
                watching.send_signal(signal.SIGINT)
                assert watching.wait(60) == 0
            again = [*PROGRAM, "watch", "--listen", port, "--once", "--json"]
            assert subprocess.run(again, capture_output=True, timeout=60, check=True).stdout == b""
        finally:
            serving.send_signal(signal.SIGTERM)
            serving.wait(60)
