"""The command as a process of its own: a client run behind it, who makes summaries with whose keys, its end with all
sorts of work under way, and what is told where something is missing."""

import asyncio
import fcntl
import json
import logging
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from summarizing_context import Settings, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.cli import main
from summarizing_context.contrib.serving import bound_socket
from tests.proxy.clients import OPEN, AnthropicAgent, ChatAgent, ResponsesAgent, between, status
from tests.proxy.fake import Behave, Fake, served
from tests.proxy.test_sessions import contents
from tests.proxy.test_wire import BODY

PROGRAM = [sys.executable, "-m", "summarizing_context"]


@asynccontextmanager
async def started(
    folder: Path, *options: object, program: Sequence[str] = PROGRAM, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A proxy with its store in this folder: the process, and the line that begins with its address."""
    command = [*program, "proxy", "--store", folder / "run.db", "--listen", "0", *options]
    env = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(*map(str, command), env=env, stderr=asyncio.subprocess.PIPE)
    try:
        yield process, (await process.stderr.readline()).decode()
    finally:
        while OPEN:
            await OPEN.pop().close()
        if process.returncode is None:
            process.kill()
            await process.wait()


def running(folder: Path, code: str) -> list[str]:
    """The command that runs a program of Python behind a proxy."""
    options = ["--store", folder / "run.db", "--json", folder / "at.json", "--summarizer", "client"]
    return [*PROGRAM, "proxy", "run", *map(str, options), "--", sys.executable, "-c", code]


async def test_a_command_is_answered_from_the_address_that_it_had_and_ends_with_its_proxy(tmp_path):
    asks = f"u.Request(at + '/chat/completions', {BODY!r}.encode(), {{'content-type': 'application/json'}})"
    code = f"import os, time, urllib.request as u; at = os.environ['OPENAI_BASE_URL']; u.urlopen({asks})\n"
    code += "print(os.getpid(), flush=True); time.sleep(600)"
    fake = Fake()
    async with served(fake) as upstream:
        own = {"env": {**os.environ, "OPENAI_BASE_URL": f"{upstream}/v1"}, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(*running(tmp_path, code), **own)
        pid = int(await process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 128 + signal.SIGTERM
    assert fake.seen[-1]["path"] == "/v1/chat/completions"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


COUNTING = """
import json, os, signal, sys, time, urllib.request
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(1))
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
assert os.environ["OPENAI_BASE_URL"].endswith("/v1")
print(json.load(ask(os.environ["ANTHROPIC_BASE_URL"] + "/_status"))["summarizer"], flush=True)
while not told:
    time.sleep(0.05)
time.sleep(1)  # another would be here by now
sys.exit(10 + len(told))
"""


@pytest.mark.parametrize("alone", [False, True])
def test_an_interrupt_at_a_terminal_reaches_the_command_once(tmp_path, alone):
    """The command runs behind a proxy of its own, which a file tells of; its exit status is that of the whole."""
    keyboard, terminal = pty.openpty()
    own = {} if alone else {"stdin": terminal, "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
    own |= {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(running(tmp_path, COUNTING), **own) as process:
        try:
            assert process.stdout.readline() == "client\n"
            said = json.loads((tmp_path / "at.json").read_text())
            assert (said["serves"], said["command"][0]) == ("proxy", sys.executable)
            process.send_signal(signal.SIGINT) if alone else os.write(keyboard, b"\x03")
            assert process.wait(60) == 11
        finally:
            process.terminate()
            os.close(keyboard)
            os.close(terminal)


INTERRUPTED = """
import asyncio, os, signal, sys
from summarizing_context.cli import main
made, turns = asyncio.create_subprocess_exec, int(sys.argv[1])
async def interrupted(*command, **options):
    process = await made(*command, **options)
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(turns):  # turns of the event loop before the proxy knows the command
        await asyncio.sleep(0)
    return process
asyncio.create_subprocess_exec = interrupted
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("turns", ["0", "2"])
def test_an_interrupt_while_the_command_starts_is_not_lost(tmp_path, turns):
    options = ["proxy", "run", "--store", str(tmp_path / "run.db"), "--", "sleep", "30"]
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, turns, *options], timeout=25, check=False)
    assert run.returncode == 128 + signal.SIGINT


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_all_addresses_of_ipv6_hold_those_of_ipv4():
    with bound_socket("::", 0) as listening:
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), 5).close()


async def test_a_proxy_serves_tells_its_status_and_ends(tmp_path, capsys):
    async with started(tmp_path, "--json", tmp_path / "at.json") as (process, line):
        asking = ["proxy", "status", "--listen", str(urlsplit(line.split(": ")[0]).port)]
        for _ in range(100):
            if await anyio.to_thread.run_sync(main, [*asking, "--json", "-"]) == 0:
                break
        assert json.loads(capsys.readouterr().out)["requests"] == 0
        assert await anyio.to_thread.run_sync(main, asking) == 0
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 20)
    assert "0 requests" in capsys.readouterr().out
    said = json.loads((tmp_path / "at.json").read_text())
    token = (await anyio.Path(said["token_file"]).read_text()).strip()
    assert said["urls"]["ANTHROPIC_BASE_URL"] == line.split(": ")[0] == f"{said['at']}/token/{token}"
    assert (said["serves"], said["store"]) == ("proxy", str(tmp_path / "run.db"))


# Who makes the summaries, and with whose keys: a named model, or the client's own

BUDGET = 3_000
SAID = "The model says that the work went on and that the parser was read."
SUMMARY = f"## Facts\n- {SAID}"
AGENTS: dict[Any, tuple[str, str]] = {
    AnthropicAgent: ("/v1/messages", "claude-x"),
    ChatAgent: ("/v1/chat/completions", "gpt-x"),
    ResponsesAgent: ("/v1/responses", "gpt-5-codex"),
}


async def goes_on(client: Any, until: Callable[[], bool]) -> bool:
    """Whether it comes to pass, beside the session of a client that goes on until it does."""
    for step in range(60):
        await client.steps(1)
        if until():
            return True
        await asyncio.sleep(0.02 * min(step, 20))
    return False


async def shown_at_last(agent: Any, fake: Fake, address: str) -> bool:
    """Whether the provider is sent the model's summary in the end."""
    return await goes_on(agent(address), lambda: SAID in fake.seen[-1]["raw"].decode())


def asked(fake: Fake) -> list[dict[str, Any]]:
    """The requests for summaries."""
    return [each for each in fake.seen if b"session_record" in each["raw"]]


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_clients_own_model_is_asked_with_the_clients_own_key(agent, tmp_path, caplog):
    fake = Fake(summary=SUMMARY)
    with caplog.at_level(logging.DEBUG):
        async with between(fake, store=tmp_path / "run.db", budget=BUDGET, lends=True) as (_, proxy):
            assert await shown_at_last(agent, fake, proxy)
    assert {(each["path"], each["body"]["model"]) for each in asked(fake)} == {AGENTS[agent]}
    assert all("sk-secret" in str(each["headers"]) for each in asked(fake))
    assert fake.problems == []
    assert b"sk-secret" not in contents(tmp_path)
    assert "sk-secret" not in caplog.text


async def test_the_command_takes_a_named_model_and_its_key_from_the_environment(tmp_path):
    """As a user starts it: the key stands in the environment alone, and nowhere afterwards."""
    fake, other = Fake(), Fake(summary=SUMMARY)
    async with served(fake) as upstream, served(other) as place:
        given = ["--summarizer", "anthropic", "--model", "small", "--budget", BUDGET, "--openai", upstream]
        own = {"ANTHROPIC_API_KEY": "sk-of-the-summaries", "ANTHROPIC_BASE_URL": place}
        async with started(tmp_path, *given, **own) as (process, line):
            proxy = line.split(": ")[0]
            assert await shown_at_last(ChatAgent, fake, proxy)
            told = (await status(proxy))["summarizer"]
            process.terminate()
            words = line + (await process.stderr.read()).decode()
            await process.wait()
    assert told == "anthropic"
    assert {(each["path"], each["body"]["model"]) for each in asked(other)} == {("/v1/messages", "small")}
    assert all("sk-of-the-summaries" in str(each["headers"]) for each in other.seen)
    assert asked(fake) == []
    assert "sk-" not in contents(tmp_path).decode("latin-1") + words


async def test_summaries_go_to_the_server_that_is_named_for_the_provider_or_there_is_a_notice(tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    named = {"summarizer": "anthropic", "model": "claude-y"}
    given = {"store": tmp_path / "run.db", "settings": named, "budget": BUDGET}
    async with between(**given) as (fake, proxy):
        for _ in range(3):
            await AnthropicAgent(proxy).steps(1)
        told = await status(proxy)
    assert told["failures"] == len(fake.seen) == 3
    assert [notice for notice in told["notices"] if "ANTHROPIC_API_KEY" in notice]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-own")
    async with between(Fake(summary=SUMMARY), **given) as (fake, proxy):
        assert await shown_at_last(AnthropicAgent, fake, proxy)
    assert all("sk-own" in str(one["headers"]) for one in asked(fake))


# Its end

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
    is_asked, store = asyncio.Event(), tmp_path / "run.db"
    fake, sign = Fake(behave=silent(is_asked)), signal.SIGINT if locked else signal.SIGTERM
    program = [sys.executable, "-c", WAITING if locked else PATIENT]
    async with served(fake) as upstream, httpx2.AsyncClient(trust_env=False, timeout=LONG) as client:
        given = ["--budget", "8k", "--summarizer", "client", "--anthropic", upstream]
        async with started(tmp_path, *given, program=program) as (process, line):
            address = line.split(": ")[0]
            agent = AnthropicAgent(address, session="kept")
            async with agent.client:
                assert await goes_on(agent, lambda: bool(asked(fake)))
            stream = (await post(client, address)).aiter_raw()
            assert await anext(stream) == b": begun\n\n"
            rest = asyncio.ensure_future(anext(stream))
            with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as other:
                if locked:
                    other.execute("begin immediate")
                under_way = asyncio.ensure_future(post(client, address, "new", "yes"))
                with anyio.move_on_after(0.5) if locked else anyio.fail_after(60):  # by then it waits for the file
                    await is_asked.wait()
                process.send_signal(sign)
                assert await asyncio.wait_for(process.wait(), 60) == 0
                assert other.in_transaction == locked
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
