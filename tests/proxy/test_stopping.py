"""A proxy that is told to end, as a process of its own, with all sorts of work under way."""

import asyncio
import os
import signal
import sqlite3
import sys
from contextlib import closing, nullcontext, suppress
from typing import Any

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from summarizing_context import Settings, open_context
from summarizing_context.adapters.open_sessions import opened_store
from tests.proxy.clients import AnthropicAgent
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


async def post(client: httpx2.AsyncClient, address: str, session: str = "s", silent: str = "stream") -> httpx2.Response:
    headers = {"x-session-id": session, "x-silent": silent}
    asked = client.build_request("POST", f"{address}/v1/messages", content=BODY, headers=headers)
    return await client.send(asked, stream=silent == "stream")


@pytest.mark.parametrize("locked", [False, True])
async def test_it_ends_with_a_stream_a_request_and_summaries_under_way_also_where_the_store_is_locked(locked, tmp_path):
    """By another process, for longer than the proxy may take to end."""
    asked, store = asyncio.Event(), tmp_path / "run.db"
    fake, sign = Fake(behave=silent(asked)), signal.SIGINT if locked else signal.SIGTERM
    command = [sys.executable, "-c", WAITING if locked else PATIENT, "proxy", "--store", str(store), "--listen", "0"]
    command += ["--budget", "8k", "--summarizer", "client", "--anthropic"]
    async with served(fake) as upstream, httpx2.AsyncClient(trust_env=False, timeout=LONG) as client:
        process = await asyncio.create_subprocess_exec(*command, upstream, stderr=asyncio.subprocess.PIPE)
        try:
            address = (await process.stderr.readline()).decode().split(": ")[0]
            agent = AnthropicAgent(address, session="kept")
            async with agent.client:
                while not any(b"session_record" in each["raw"] for each in fake.seen):
                    await agent.steps(1)
            stream = (await post(client, address)).aiter_raw()
            assert await anext(stream) == b": begun\n\n"
            rest = asyncio.ensure_future(anext(stream))
            with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as other:
                if locked:
                    other.execute("begin immediate")
                under_way = asyncio.ensure_future(post(client, address, "new", "yes"))
                with anyio.move_on_after(0.5) if locked else anyio.fail_after(60):  # by then it waits for the file
                    await asked.wait()
                process.send_signal(sign)
                assert await asyncio.wait_for(process.wait(), 60) == 0
                assert other.in_transaction == locked
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        with pytest.raises(httpx2.HTTPError if locked else httpx2.RemoteProtocolError):
            await rest
        with suppress(httpx2.HTTPError) if locked else nullcontext():  # a busy machine cuts the answer off
            answer = await under_way
            assert answer.status_code == 503
            assert "is ending" in answer.json()["error"]["message"]
    assert locked or os.listdir(tmp_path) == ["run.db"]  # closed: no journal is left beside it
    async with opened_store(store, read_only=True) as held:
        [kept] = [one.session_id for one in await held.sessions() if one.session_id.startswith("claude-code")]
    async with open_context(Settings(store=store, session_id=kept)) as context:  # nothing stands in the way
        assert len(context) == len(agent.history) - 1
