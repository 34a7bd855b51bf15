"""The job queues that the proof compares, each behind the same few lines: SAQ and PgQueuer.

A host asks for keys. A worker gets them one by one, several at once, and an answer that is lost with it comes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

import psycopg

from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.postgres.requests import Notices

Make = Callable[[str], Awaitable[None]]

TAKEOVER = 4  # seconds without a sign of life, after which a job is given to another worker
_RETRY = 0.3  # seconds


class JobQueue(Protocol):
    """One kind of queue on one server."""

    async def prepare(self) -> None:
        """Make its tables."""

    async def ask(self, keys: list[str]) -> None:
        """Have these made; those that wait already are not asked twice. Tries until the server has taken them."""

    async def work(self, make: Make, concurrency: int) -> None:
        """Make what is asked, for ever."""

    async def left(self) -> int:
        """How many jobs have not ended."""


class Saq:
    """SAQ with its PostgreSQL backend. For each job of a killed worker it waits `patience` seconds, 5 as it comes."""

    def __init__(self, url: str, patience: float = 5.0) -> None:
        self._url = url
        self._patience = patience
        self._queue: Any = None

    async def prepare(self) -> None:
        await self._connected(1)
        await self._queue.disconnect()

    async def ask(self, keys: list[str]) -> None:
        from saq import Job

        await self._connected(2)
        for key in keys:
            while True:
                try:
                    job = Job(
                        "make", kwargs={"name": key}, key=key, timeout=0, heartbeat=TAKEOVER, retries=1_000, ttl=-1
                    )
                    await self._queue.enqueue(job)
                    break
                except (psycopg.Error, TimeoutError):
                    await asyncio.sleep(_RETRY)

    async def work(self, make: Make, concurrency: int) -> None:
        from saq import Worker

        await self._connected(8)

        async def run(context: Any, *, name: str) -> None:
            beating = asyncio.create_task(_beat(context["job"]))
            try:
                await make(name)
            finally:
                beating.cancel()

        Worker.SIGNALS = []
        timers: Any = {"sweep": 1, "schedule": 1}
        worker: Any = Worker(self._queue, [("make", run)], concurrency=concurrency, timers=timers, poll_interval=0.0)
        await worker.start()

    async def left(self) -> int:
        await self._connected(1)
        return int(await self._queue.count("incomplete"))

    async def _connected(self, connections: int) -> None:
        from saq.queue.postgres import PostgresQueue

        if self._queue is None:
            self._queue = PostgresQueue(url=self._url, min_size=connections, max_size=connections)
            self._queue.sweep = partial(self._queue.sweep, abort=self._patience)
            await self._queue.connect()


async def _beat(job: Any) -> None:
    while True:
        await asyncio.sleep(TAKEOVER / 3)
        with suppress(Exception):  # the server may be away
            await job.update()


class PgQueuer:
    """PgQueuer with psycopg, as the package uses it. Its runner ends with its connection, and is made anew."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def prepare(self) -> None:
        from pgqueuer.queries import Queries

        async with await self._connection() as connection:
            await Queries.from_psycopg_connection(connection).install()

    async def ask(self, keys: list[str]) -> None:
        from pgqueuer.queries import Queries

        payloads: list[bytes | None] = [key.encode() for key in keys]
        while True:
            try:
                async with await self._connection() as connection:
                    queries = Queries.from_psycopg_connection(connection)
                    await queries.enqueue(
                        ["make"] * len(keys), payloads, [0] * len(keys), dedupe_key=[*keys], on_conflict="skip"
                    )
                return
            except psycopg.Error:
                await asyncio.sleep(_RETRY)

    async def work(self, make: Make, concurrency: int) -> None:
        from pgqueuer.qm import QueueManager
        from pgqueuer.queries import Queries

        from summarizing_context.stores.postgres.queue import QueueDriver

        notices = Notices(read_address(self._url))
        while True:
            try:
                async with await self._connection() as connection:
                    manager = QueueManager(Queries(QueueDriver(connection, notices)))

                    @manager.entrypoint("make", on_failure="hold")
                    async def run(job: Any) -> None:
                        await make(job.payload.decode())

                    await manager.run(
                        dequeue_timeout=timedelta(seconds=1),
                        batch_size=concurrency // 2,
                        max_concurrent_tasks=concurrency,
                        heartbeat_timeout=timedelta(seconds=TAKEOVER),
                        shutdown_on_listener_failure=True,
                    )
            except Exception as error:  # whatever a lost connection looks like
                logging.getLogger(__name__).info("the runner is made anew: %r", error)
                await asyncio.sleep(_RETRY)

    async def left(self) -> int:
        async with await self._connection() as connection:
            row = await (await connection.execute("select count(*) from pgqueuer")).fetchone()
            return int(row[0]) if row else 0

    async def _connection(self) -> Any:
        return await psycopg.AsyncConnection.connect(self._url, autocommit=True, connect_timeout=5)


QUEUES: dict[str, Callable[[str], JobQueue]] = {
    "saq": Saq,
    "saq-quick": partial(Saq, patience=0.1),
    "pgqueuer": PgQueuer,
}
