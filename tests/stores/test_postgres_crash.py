"""Hosts and the server are killed at any moment: what was acknowledged is there, once, and sessions go on elsewhere.

`POSTGRES_KILLS` kills more hosts, and the server in proportion.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.stores.base import StoredEntry, SummaryKey
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server
from tests.contract.crashes import Plan, killed, nursery
from tests.contract.store_builders import log_of, summary
from tests.contract.test_context_crash import Witness
from tests.making import assistant, user

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked"),
]

KILLS = int(os.environ.get("POSTGRES_KILLS", "12"))
KILLS_OF_A_SESSION = 10  # its log comes to an end


@pytest.fixture(scope="module")
def crasher() -> Iterator[subprocess.Popen[str]]:
    """One process that forks all those that are killed."""
    with nursery("context_crasher.py") as process:
        yield process


@pytest.mark.parametrize("model", [True, False], ids=["model", "extractive"])
async def test_a_session_of_a_killed_host_goes_on_at_another(model, crasher, postgres, tmp_path):
    rng = random.Random(model)
    for life in range(-(-KILLS // (2 * KILLS_OF_A_SESSION))):
        witness = Witness(postgres_server.address_for(tmp_path / str(life)), model)
        for number in range(min(KILLS // 2, KILLS_OF_A_SESSION)):
            await kill_and_go_on(witness, crasher, rng, number)
        assert witness.added > 40
        assert witness.serial > 1
        assert len(witness.summaries) > 2
        await witness.check_resting()


async def kill_and_go_on(witness: Witness, crasher: subprocess.Popen[str], rng: random.Random, number: int) -> None:
    plan: Plan = {"path": witness.path, "model": witness.model}
    if number % 5 == 4:
        plan |= {"acks": 1_000_000, "seconds": 0.3 + rng.random() / 2}
    elif number % 2:
        plan |= {"acks": rng.randint(20, 100)}
    else:
        plan |= {"acks": rng.randint(1, 3), "of": rng.choice(["activation", "summary", "view", "added"])}
    witness.hear(killed(crasher, plan))
    postgres_server.bury(str(witness.path))
    if witness.added:
        await witness.check_file()
    await witness.check_going_on(settle=number == 3)


async def test_a_killed_server_loses_nothing_that_was_acknowledged(tmp_path):
    acked: dict[str, list[str]] = {name: [] for name in "abc"}
    summaries: list[SummaryKey] = []
    stopping = anyio.Event()

    async def append(store: PostgresStore, name: str, task: int) -> None:
        number = 0
        while not stopping.is_set():
            text = f"{task}-{number} " + "x" * (number * 997 % 9_000)
            count = 600 if number % 50 == 49 else 1
            await store.append(name, [StoredEntry(f"{text} {at}".encode(), b"") for at in range(count)], lambda: None)
            acked[name] += [f"{text} {at}" for at in range(count)]
            number += 1

    async def save(store: PostgresStore) -> None:
        while not stopping.is_set():
            key = SummaryKey(f"range-{len(summaries)}", "recipe")
            await store.save_summary("a", key, summary("text"))
            summaries.append(key)

    with postgres_server.started() as server:
        address = f"{server.url}&schema=killed"
        store = PostgresStore(address)
        await store.open()
        for name in acked:
            await store.claim(name)
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
            assert sorted(found) == sorted(texts)  # each once; those that were under way at the end were acknowledged
            for task in range(3):
                own = [text for text in found if text.startswith(f"{task}-")]
                assert own == [text for text in texts if text.startswith(f"{task}-")]
        assert set(await store.find_summaries("a", summaries)) == set(summaries)
        await store.close()


async def test_a_session_that_moves_to_another_host_has_the_same_view(postgres, tmp_path):
    address = postgres_server.address_for(tmp_path)

    async def opened_at(host: str) -> tuple[list[dict[str, object]], int]:
        settings = Settings(store=f"{address}&application_name={host}", session_id="s", max_tokens=8_000)
        async with open_context(settings) as context:
            while len(await context.get_messages()) < 200:
                number = len(await context.get_messages())
                await context.add_message(user(f"Step {number}: the tulip of bed {number}. " * 12))
                await context.add_message(assistant("Planted."))
                await context.get_messages_for_request()
            return await context.get_messages_for_request(), context.statistics().activations

    first, activations = await opened_at("one")
    assert activations > 1
    for host in ("two", "three"):
        view, activations = await opened_at(host)
        assert view == first
        assert activations == 0
