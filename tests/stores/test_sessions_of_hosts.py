"""The list of sessions names the host and the process of each that is open, for the command line and the library."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.cli import main
from summarizing_context.errors import SessionInUseError
from tests.laws.builders import user

HELD = """
import asyncio, socket, sys
from summarizing_context import Settings, open_context

async def hold():
    async with open_context(Settings(store=sys.argv[1], session_id="theirs")):
        print("ready", flush=True)
        sys.stdin.readline()

socket.gethostname = lambda: "mars"
asyncio.run(hold())
"""


@pytest.fixture
def mars(address: str) -> Iterator[subprocess.Popen[str]]:
    """A process on another host that has the session `theirs` open."""
    command = [sys.executable, "-c", HELD, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        yield child


async def test_sessions_are_listed_with_the_hosts_that_have_them_open(address, mars, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    async def listed(*more: str) -> str:
        assert await anyio.to_thread.run_sync(main, ["sessions", "list", "--store", address, *more]) == 0
        return capsys.readouterr().out

    async def hosts() -> dict[str, tuple[str, int]]:
        rows = json.loads(await listed("--json", "-"))["sessions"]
        return {one["session_id"]: (one["writer_host"], one["writer_pid"]) for one in rows}

    here = (socket.gethostname(), os.getpid())
    async with open_context(Settings(store=address, session_id="mine")) as context:
        await context.add_message(user("Plant tulips."))
        with pytest.raises(SessionInUseError) as held:
            await open_context(Settings(store=address, session_id="theirs")).__aenter__()
        assert (held.value.pid, held.value.host) == (mars.pid, "mars")
        async with opened_store(address, read_only=True) as reader:
            found = {one.session_id: (one.writer_host, one.writer_pid) for one in await reader.sessions()}
        assert found == await hosts() == {"mine": here, "theirs": ("mars", mars.pid)}
        told = await listed()
        assert f"process {here[1]} on {here[0]}" in told
        assert f"process {mars.pid} on mars" in told
        mars.communicate("\n", timeout=60)
        assert {session: host for session, (host, _) in (await hosts()).items()} == {"mine": here[0], "theirs": None}
