"""Hosts, workers of the pool and the server are killed at any moment: what was acknowledged is there, once, sessions go
on elsewhere, every summary is made, and paid once beyond dead calls. `POSTGRES_KILLS` kills more of them.
"""

import asyncio
import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.contrib.postgres.pool import PostgresRequests, pool_worker
from summarizing_context.contrib.postgres.store import PostgresStore
from summarizing_context.stores.base import SummaryKey
from tests import postgres_server
from tests.contract.store_builders import entries, key, log_of, nothing, opened, summary
from tests.laws import places
from tests.laws.test_crash_safe import Grower
from tests.pool.test_pool import PATIENCE, Model, settings, talk, until
from tests.postgres_server import rows

KILLS = int(os.environ.get("POSTGRES_KILLS", "8"))
WORKERS_DIE = max(3, (KILLS + 1) // 3)
FORKS = multiprocessing.get_context("forkserver")
SERVER_DIES = 3  # every so many workers, it is the server
TURNS = 5  # of the session before each kill


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")
async def test_a_session_of_a_killed_host_goes_on_at_another(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(places, "chosen", "postgres")
    rng, grower = random.Random(1), Grower(tmp_path / "a.db")
    for _ in range(KILLS):
        grower.run_and_kill(rng.choice((1, 2, rng.randint(3, 40))))
        await grower.check()
    assert grower.acknowledged > 3 * KILLS
    assert grower.views_kept > KILLS // 2


async def test_a_killed_server_loses_nothing_that_was_acknowledged(tmp_path):
    acked: dict[str, list[str]] = {name: [] for name in "abc"}
    summaries: list[SummaryKey] = []
    stopping = anyio.Event()

    async def append(store: PostgresStore, name: str, task: int) -> None:
        number = 0
        while not stopping.is_set():
            text = f"{task}-{number} " + "x" * (number * 997 % 9_000)
            texts = [f"{text} {at}" for at in range(600 if number % 50 == 49 else 1)]
            await store.append(name, entries(*texts), nothing)
            acked[name] += texts
            number += 1

    async def save(store: PostgresStore) -> None:
        while not stopping.is_set():
            one = key(len(summaries))
            await store.save_summary("a", one, summary("text"))
            summaries.append(one)

    with postgres_server.started() as server:
        async with opened(f"{server.url}&schema=killed", *acked) as store:
            async with anyio.create_task_group() as tasks:
                for name in acked:
                    for task in range(3):
                        tasks.start_soon(append, store, name, task)
                tasks.start_soon(save, store)
                for _ in range(max(3, KILLS // 8)):
                    before = sum(map(len, acked.values()))
                    with anyio.fail_after(60):
                        while sum(map(len, acked.values())) < before + 100:  # it works again
                            await anyio.lowlevel.checkpoint()
                    await anyio.to_thread.run_sync(server.stop, signal.SIGKILL)
                    await anyio.to_thread.run_sync(server.start)
                stopping.set()
            for name, texts in acked.items():
                found = await log_of(store, name)
                assert sorted(found) == sorted(texts)  # each once; those under way at the end were acknowledged
                for task in range(3):
                    own = [text for text in found if text.startswith(f"{task}-")]
                    assert own == [text for text in texts if text.startswith(f"{task}-")]
            assert set(await store.find_summaries("a", dict.fromkeys(summaries))) == set(summaries)


def note(calls: str, what: str, range_hash: str) -> None:
    """A line that stays whole, whatever happens to this process."""
    with open(calls, "ab", buffering=0) as file:
        file.write(f"{what} {range_hash} {os.getpid()}\n".encode())


class Noting(Model):
    """It takes from none to some milliseconds, as the content has it."""

    def __init__(self, calls: str) -> None:
        super().__init__()
        self._calls = calls

    async def summarize(self, job: SummaryJob) -> str:
        note(self._calls, "began", job.range_hash)
        await asyncio.sleep(int(job.range_hash[:2], 16) % 40 / 1_000)
        return await super().summarize(job)


async def work(address: str, calls: str) -> None:
    """A worker that notes its calls in a file, and what it keeps."""
    store = PostgresStore(address)
    await store.open()
    answer = PostgresRequests.answer

    async def noted(requests: PostgresRequests, session_id: str, key: SummaryKey, *kept: Any) -> None:
        await answer(requests, session_id, key, *kept)
        note(calls, "kept", key.range_hash)

    PostgresRequests.answer = noted
    given = Settings(store=address, concurrency=4, attempts=1)
    async with pool_worker(given, store, summarizer=Noting(calls), drain_within=5) as worker:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
        await worker.run()
    await store.close()


def run_worker(address: str, calls: str) -> None:
    asyncio.run(work(address, calls))


class Workers:
    """Processes that work for the pool, and what they note."""

    def __init__(self, calls: Path) -> None:
        self._calls = calls
        self.started: list[Any] = []
        self.killed: set[int] = set()

    def start(self, address: str) -> Any:
        self.started.append(FORKS.Process(target=run_worker, args=(address, str(self._calls))))
        self.started[-1].start()
        return self.started[-1]

    def kill(self, worker: Any) -> None:
        worker.kill()
        worker.join()
        self.killed.add(worker.pid)

    def calls(self) -> list[tuple[str, str, int]]:
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [(what, key, int(pid)) for what, key, pid in map(str.split, lines)]

    def called(self, pid: int) -> int:
        """How many calls a worker has begun."""
        return sum(what == "began" and one == pid for what, _, one in self.calls())


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path / "calls")
    yield workers
    for one in workers.started:
        workers.kill(one)
    postgres_server.stop_looking()


async def test_killed_workers_and_a_killed_server_lose_no_summary_and_pay_none_twice(workers, tmp_path):
    rng, added = random.Random(1), list[str]()
    with postgres_server.started() as server:
        address = f"{server.url}&schema=pool&lease=30"
        given = settings(f"{address}&application_name=host", "pool")
        model = Noting(str(tmp_path / "calls"))  # of the host: it would note its calls
        async with open_context(given, summarizer=model) as context:
            for number in range(WORKERS_DIE):
                added += await talk(context, TURNS, f"tulips {number}")
                worker, wanted = workers.start(address), rng.randint(1, 3)
                await until(lambda worker=worker, wanted=wanted: workers.called(worker.pid) >= wanted)
                await anyio.sleep(rng.random() / 50)
                if number % SERVER_DIES == SERVER_DIES - 1:
                    await anyio.to_thread.run_sync(server.stop, signal.SIGKILL)
                    await anyio.to_thread.run_sync(server.start)
                    added += await talk(context, TURNS, f"roses {number}")
                workers.kill(worker)
                own = f"pid <> {os.getpid()}"
                await anyio.to_thread.run_sync(postgres_server.bury, address, "state <> 'idle'", own)
            last = workers.start(address)
            assert await context.wait_idle(PATIENCE)
            assert context.statistics().summaries_pending == 0
            assert [row["content"] for row in await context.get_messages()] == added
            await context.compact()  # else it may wait for the next message to show what has come
            view = await context.get_messages_for_request()
        await until(lambda: rows(address, "select count(*) from requests") == [(0,)])
        last.terminate()  # it ends when all that it made is told
        await until(lambda: not last.is_alive())
        elsewhere = replace(given, store=f"{address}&application_name=another-host")
        async with open_context(elsewhere, summarizer=model) as context:
            assert await context.get_messages_for_request() == view
            assert context.statistics().activations == 0
    check(workers)


def check(workers: Workers) -> None:
    """No call was made for a key whose summary had been kept, and only dead workers have lost calls."""
    began = Counter((key, pid) for what, key, pid in workers.calls() if what == "began")
    kept = Counter(key for what, key, _ in workers.calls() if what == "kept")
    assert len(kept) > WORKERS_DIE
    assert set(kept.values()) == {1}
    assert set(began.values()) == {1}  # no worker asks twice
    lost = [(key, pid) for key, pid in began if ("kept", key, pid) not in workers.calls()]
    assert {pid for _, pid in lost} <= workers.killed
    assert os.getpid() not in {pid for _, pid in began}
