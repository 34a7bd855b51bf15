"""Hosts and the server are killed at any moment: what was acknowledged is there, once, and sessions go on elsewhere.

`POSTGRES_KILLS` kills more hosts, and the server in proportion.
"""

import os
import random
import signal

import anyio
import pytest

from summarizing_context.contrib.postgres.store import PostgresStore
from summarizing_context.stores.base import SummaryKey
from tests import postgres_server
from tests.contract.store_builders import entries, key, log_of, nothing, opened, summary
from tests.laws import places
from tests.laws.test_crash_safe import Grower

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")

KILLS = int(os.environ.get("POSTGRES_KILLS", "8"))


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
            assert set(await store.find_summaries("a", summaries)) == set(summaries)
