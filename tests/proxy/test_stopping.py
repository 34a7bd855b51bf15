"""A proxy that is told to end, as a process of its own, with all sorts of work under way."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from summarizing_context import Settings, open_context
from summarizing_context.adapters.open_sessions import opened_store
from tests.proxy.clients import AnthropicAgent, status
from tests.proxy.fake import Behave, Fake, served
from tests.proxy.test_wire import BODY

LONG = 600.0  # seconds; the end is not to wait for any of it

RUN = "import sys; from summarizing_context.cli import main; sys.exit(main(sys.argv[1:]))"

# With time for the slowest machine to close all.
PATIENT = f"from summarizing_context.contrib import serving; serving.PROCESS_ENDS_WITHIN = 50.0; {RUN}"

# It waits for a locked file as long as a test may take, and longer.
WAITING = (
    "from summarizing_context.stores.sqlite.store import SqliteStore; "
    f"SqliteStore.__init__.__kwdefaults__['busy_timeout'] = {LONG}; {RUN}"
)


def silent(asked: asyncio.Event) -> Behave:
    """A provider that never ends what it is asked with a header, and never makes a summary. `asked`: one that gets no
    answer at all has come."""

    async def stream() -> Any:
        yield b": begun\n\n"
        await asyncio.sleep(LONG)

    async def behave(request: Request, raw: bytes) -> Response | None:
        way = request.headers.get("x-silent")
        if way == "stream":
            return StreamingResponse(stream(), media_type="text/event-stream")
        if way or b"session_record" in raw:
            if way:
                asked.set()
            await asyncio.sleep(LONG)
        return None

    return behave


@asynccontextmanager
async def started(
    program: str, upstream: str, store: Path, *options: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A proxy as a process, and its address. `program` is what runs the command line."""
    command = [sys.executable, "-c", program, "proxy", "--store", str(store), "--listen", "0", "--budget", "8k"]
    command += ["--anthropic", upstream, *options]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        yield process, (await process.stderr.readline()).decode().split(": ")[0]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def post(client: httpx2.AsyncClient, address: str, session: str = "s", silent: str = "stream") -> httpx2.Response:
    headers = {"x-session-id": session, "x-silent": silent}
    asked = client.build_request("POST", f"{address}/v1/messages", content=BODY, headers=headers)
    return await client.send(asked, stream=silent == "stream")


async def begun(client: httpx2.AsyncClient, address: str) -> asyncio.Future[bytes]:
    """The rest of a stream that has begun."""
    stream = (await post(client, address)).aiter_raw()
    assert await anext(stream) == b": begun\n\n"
    return asyncio.ensure_future(anext(stream))


async def end_of(process: asyncio.subprocess.Process, sign: signal.Signals) -> int:
    """Its exit status, once it was told to end. One that would wait for anything waits for longer than this."""
    process.send_signal(sign)
    return await asyncio.wait_for(process.wait(), 60)


async def test_it_ends_with_a_stream_a_request_and_summaries_under_way(tmp_path):
    asked = asyncio.Event()
    fake, store = Fake(behave=silent(asked)), tmp_path / "run.db"
    async with served(fake) as upstream, httpx2.AsyncClient(trust_env=False, timeout=LONG) as client:
        async with started(PATIENT, upstream, store, "--summarizer", "client") as (process, address):
            agent = AnthropicAgent(address)
            async with agent.client:
                while not any(b"session_record" in each["raw"] for each in fake.seen):
                    await agent.steps(1)
            rest = await begun(client, address)
            under_way = asyncio.ensure_future(post(client, address, silent="yes"))
            await asyncio.wait_for(asked.wait(), 60)
            told = await status(address)
            assert await end_of(process, signal.SIGTERM) == 0
        with pytest.raises(httpx2.RemoteProtocolError):
            await rest
        answer = await under_way
    assert answer.status_code == 503
    assert "is ending" in answer.json()["error"]["message"]
    assert os.listdir(tmp_path) == ["run.db"]  # closed: no journal is left beside it
    session = next(each["session"] for each in told["sessions"] if each["client"] == "claude-code")
    async with open_context(Settings(store=store, session_id=session), read_only=True) as context:
        assert len(context) == len(agent.history) - 1


async def test_it_ends_where_another_process_has_locked_the_store(tmp_path):
    fake, store = Fake(behave=silent(asyncio.Event())), tmp_path / "run.db"
    async with served(fake) as upstream, httpx2.AsyncClient(trust_env=False, timeout=LONG) as client:
        async with started(WAITING, upstream, store) as (process, address):
            agent = AnthropicAgent(address, session="kept")
            async with agent.client:
                await agent.steps(6)
            rest = await begun(client, address)
            with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as other:
                other.execute("begin immediate")
                waiting = asyncio.ensure_future(post(client, address, "new"))
                await asyncio.sleep(0.5)  # by now it waits for the file; where not, there is less to end
                assert await end_of(process, signal.SIGINT) == 0
                assert other.in_transaction
        with pytest.raises(httpx2.HTTPError):
            await rest
        with suppress(httpx2.HTTPError):  # a machine that is too busy for an answer cuts it off
            assert (await waiting).status_code == 503
    async with opened_store(store, read_only=True) as held:
        [kept] = [one.session_id for one in await held.sessions() if one.session_id.startswith("claude-code")]
    async with open_context(Settings(store=store, session_id=kept)) as context:  # nothing stands in the way
        assert len(context) == len(agent.history) - 1
