"""Workers of the pool and the server are killed at any moment: every summary is made, and paid once beyond dead calls.

`POSTGRES_KILLS` kills more of them.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import psycopg
import pytest

from summarizing_context import SummarizingContext, open_context
from summarizing_context.contrib.postgres.store import read_address
from tests import postgres_server
from tests.laws.builders import assistant, user
from tests.pool.test_pool import PATIENCE, settings, until
from tests.pool.worker_crasher import Model
from tests.postgres_server import rows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")

KILLS = max(3, int(os.environ.get("POSTGRES_KILLS", "9")) // 3)
SERVER_DIES = 3  # every so many workers, it is the server
TURNS = 3  # of the session before each kill


class Workers:
    """Workers that are forked from one process, so that Python starts only once."""

    def __init__(self, crasher: subprocess.Popen[str], address: str, calls: Path) -> None:
        self._crasher, self._address, self._calls = crasher, address, calls
        self.killed: set[int] = set()

    def start(self) -> int:
        plan = {"address": self._address, "calls": str(self._calls)}
        self._crasher.stdin.write(json.dumps(plan) + "\n")
        self._crasher.stdin.flush()
        return int(self._crasher.stdout.readline())

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.killed.add(pid)

    async def drain(self, pid: int) -> None:
        """Have a worker end when all that it made is told, and wait for that."""
        os.kill(pid, signal.SIGTERM)
        with suppress(ProcessLookupError):
            await until(lambda: os.kill(pid, 0))

    def calls(self) -> list[tuple[str, str, int]]:
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [(what, key, int(pid)) for what, key, pid in map(str.split, lines)]

    def called(self, pid: int) -> int:
        """How many calls a worker has begun."""
        return sum(what == "began" and one == pid for what, _, one in self.calls())


@pytest.fixture
def crasher() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(Path(__file__).with_name("worker_crasher.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        yield one
        one.kill()


def bury(address: str) -> None:
    """End the lease of dead workers, so that no test waits for it."""
    known = read_address(address)
    with psycopg.connect(known.url, autocommit=True) as connection:
        connection.execute(f"set search_path = {known.schema}".encode())
        postgres_server.wait_for_the_dead(connection, "state <> 'idle'")
        connection.execute("update writers set until = now() - interval '1 second' where pid <> %s", [os.getpid()])


async def go_on(context: SummarizingContext, added: list[str]) -> None:
    for _ in range(TURNS):
        for row in (user(f"Plant bed {len(added)} with tulips. " * 20), assistant(f"Bed {len(added)} is planted.")):
            await context.add_message(row)
            added.append(row["content"])
        await context.get_messages_for_request()


async def test_killed_workers_and_a_killed_server_lose_no_summary_and_pay_none_twice(crasher, tmp_path):
    rng = random.Random(1)
    added: list[str] = []
    with postgres_server.started() as server:
        address = f"{server.url}&schema=pool&lease=30"
        workers = Workers(crasher, address, tmp_path / "calls")
        given = settings(f"{address}&application_name=host", "pool")
        model = Model(str(tmp_path / "calls"))  # of the host: it would note its calls
        async with open_context(given, summarizer=model) as context:
            for number in range(KILLS):
                await go_on(context, added)
                worker, wanted = workers.start(), rng.randint(1, 3)
                await until(lambda worker=worker, wanted=wanted: workers.called(worker) >= wanted)
                await anyio.sleep(rng.random() / 50)
                if number % SERVER_DIES == SERVER_DIES - 1:
                    await anyio.to_thread.run_sync(server.stop, signal.SIGKILL)
                    await anyio.to_thread.run_sync(server.start)
                    await go_on(context, added)
                workers.kill(worker)
                await anyio.to_thread.run_sync(bury, address)
            last = workers.start()
            assert await context.wait_idle(PATIENCE)
            assert context.statistics().summaries_pending == 0
            assert [row["content"] for row in await context.get_messages()] == added
            await context.compact()  # else it may wait for the next message to show what has come
            view = await context.get_messages_for_request()
        await until(lambda: rows(address, "select count(*) from requests") == [(0,)])
        await workers.drain(last)
        elsewhere = replace(given, store=f"{address}&application_name=another-host")
        async with open_context(elsewhere, summarizer=model) as context:
            assert await context.get_messages_for_request() == view
            assert context.statistics().activations == 0
    check(workers)


def check(workers: Workers) -> None:
    """No call was made for a key whose summary had been kept, and only dead workers have lost calls."""
    began = Counter((key, pid) for what, key, pid in workers.calls() if what == "began")
    kept = Counter(key for what, key, _ in workers.calls() if what == "kept")
    assert len(kept) > KILLS
    assert set(kept.values()) == {1}
    assert set(began.values()) == {1}  # no worker asks twice
    lost = [(key, pid) for key, pid in began if ("kept", key, pid) not in workers.calls()]
    assert {pid for _, pid in lost} <= workers.killed
    assert os.getpid() not in {pid for _, pid in began}
