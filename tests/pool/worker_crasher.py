"""Run by `test_pool_crash.py`: forks a worker of the pool for each line it reads, and says its process id.

A line is JSON: the store's `address`, and a file `calls`. The worker writes a line there when a call of its model
begins, and another when the summary is kept. It works until it is killed, or until the line is followed by its end.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from summarizing_context import Settings, SummaryJob
from summarizing_context.contrib.postgres.pool import PostgresRequests, pool_worker
from summarizing_context.contrib.postgres.store import PostgresStore
from summarizing_context.stores.base import SummaryKey
from summarizing_context.testing import range_name

PATIENCE = 600  # seconds, after which a worker that nobody kills ends by itself


def note(calls: str, what: str, range_hash: str) -> None:
    """A line that stays whole, whatever happens to this process."""
    with open(calls, "ab", buffering=0) as file:
        file.write(f"{what} {range_hash} {os.getpid()}\n".encode())


class Model:
    """A model that takes from none to some milliseconds, as the content has it; known by one name on all machines."""

    recipe = "pool-crash-tests/1"

    def __init__(self, calls: str) -> None:
        self._calls = calls

    async def summarize(self, job: SummaryJob) -> str:
        note(self._calls, "began", job.range_hash)
        await asyncio.sleep(int(job.range_hash[:2], 16) % 40 / 1_000)
        return f"## Done\n- worked on {range_name(job.range_hash)}"


async def work(address: str, calls: str) -> None:
    store = PostgresStore(address)
    await store.open()
    given = Settings(store=address, concurrency=4, attempts=1)
    answer = PostgresRequests.answer

    async def noted(requests: PostgresRequests, session_id: str, key: SummaryKey, *kept: Any) -> None:
        await answer(requests, session_id, key, *kept)
        note(calls, "kept", key.range_hash)

    PostgresRequests.answer = noted
    async with pool_worker(given, store, summarizer=Model(calls), drain_within=5) as worker:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
        await worker.run()
    await store.close()


def fork(plan: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(PATIENCE)
            asyncio.run(work(**plan))
        finally:
            os._exit(0)
    return pid


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whatever has ended is gone
    for line in sys.stdin:
        print(fork(json.loads(line)), flush=True)
