"""A proxy that is told to end, as a process of its own, with all sorts of work under way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from summarizing_context import Settings, open_context
from tests.proxy.clients import AnthropicAgent, status
from tests.proxy.fake import Behave, Fake, served
from tests.proxy.test_wire import BODY

pytestmark = pytest.mark.anyio

LONG = 600.0  # seconds; the end is not to wait for any of it


def silent(asked: asyncio.Event) -> Behave:
    """A provider that never ends what it is asked with a header, and never makes a summary. `asked`: one that gets no
    answer at all has come."""

    async def stream() -> Any:
        yield b": begun\n\n"
        await asyncio.sleep(LONG)

    async def behave(request: Request, raw: bytes) -> Response | None:
        if request.headers.get("x-silent") == "stream":
            return StreamingResponse(stream(), media_type="text/event-stream")
        if "x-silent" in request.headers or b"session_record" in raw:
            if "x-silent" in request.headers:
                asked.set()
            await asyncio.sleep(LONG)
        return None

    return behave


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_with_a_stream_a_request_and_summaries_under_way(tmp_path: Path, sign: signal.Signals):
    asked = asyncio.Event()
    fake, store = Fake(behave=silent(asked)), tmp_path / "run.db"
    command = [sys.executable, "-m", "summarizing_context", "proxy", "--store", str(store), "--listen", "0"]
    async with served(fake) as upstream, httpx2.AsyncClient(trust_env=False, timeout=LONG) as client:
        options = ["--anthropic", upstream, "--budget", "8k", "--summarizer", "client"]
        process = await asyncio.create_subprocess_exec(*command, *options, stderr=asyncio.subprocess.PIPE)
        try:
            assert process.stderr is not None
            address = (await process.stderr.readline()).decode().split(": ")[0]
            agent = AnthropicAgent(address)
            async with agent.client:
                step = 0
                while not any(b"session_record" in each["raw"] for each in fake.seen):
                    await agent.step(f"step {step}")
                    step += 1
            named = {"x-session-id": "s", "x-silent": "stream"}
            begun = client.build_request("POST", f"{address}/v1/messages", content=BODY, headers=named)
            stream = (await client.send(begun, stream=True)).aiter_raw()
            assert await anext(stream) == b": begun\n\n"
            rest = asyncio.ensure_future(anext(stream))
            waiting = client.post(f"{address}/v1/messages", content=BODY, headers={**named, "x-silent": "yes"})
            under_way = asyncio.ensure_future(waiting)
            await asyncio.wait_for(asked.wait(), 60)
            told = await status(address)
            process.send_signal(sign)
            assert await asyncio.wait_for(process.wait(), 60) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        with pytest.raises(httpx2.RemoteProtocolError):
            await rest
        answer = await under_way
    assert answer.status_code == 503
    assert "told to end" in answer.json()["error"]["message"]
    assert os.listdir(tmp_path) == ["run.db"]  # closed: no journal is left beside it
    session = next(each["session"] for each in told["sessions"] if each["client"] == "claude-code")
    async with open_context(Settings(store=store, session_id=session), read_only=True) as context:
        assert len(context) == len(agent.history) - 1
