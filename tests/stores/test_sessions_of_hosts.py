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
        child.kill()


async def test_sessions_are_listed_with_the_hosts_that_have_them_open(address, mars, capsys, monkeypatch):
    here, pid = socket.gethostname(), os.getpid()
    monkeypatch.setenv("COLUMNS", "200")
    async with open_context(Settings(store=address, session_id="mine")) as context:
        await context.add_message(user("Plant tulips."))
        with pytest.raises(SessionInUseError) as held:
            async with open_context(Settings(store=address, session_id="theirs")):
                pass
        assert (held.value.pid, held.value.host) == (mars.pid, "mars")
        async with opened_store(address, read_only=True) as reader:
            found = {one.session_id: (one.writer_host, one.writer_pid) for one in await reader.sessions()}
        assert found == {"mine": (here, pid), "theirs": ("mars", mars.pid)}
        told = await listed(address, capsys)
        assert f"process {pid} on {here}" in told
        assert f"process {mars.pid} on mars" in told
        document = json.loads(await listed(address, capsys, "--json", "-"))
        assert {one["session_id"]: (one["writer_host"], one["writer_pid"]) for one in document["sessions"]} == found
        mars.communicate("\n", timeout=60)
        document = json.loads(await listed(address, capsys, "--json", "-"))
        assert {one["session_id"]: one["writer_host"] for one in document["sessions"]} == {"mine": here, "theirs": None}


async def listed(address: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What the command prints."""
    assert await anyio.to_thread.run_sync(main, ["sessions", "list", "--store", address, *more]) == 0
    return capsys.readouterr().out
