"""The job queue between hosts and workers: PgQueuer's tables in the schema of the store.

A job carries a key. A request is not queued twice. A job whose worker gives no sign of
life goes to another one; times are the server's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg

from summarizing_context.errors import MissingExtraError, StoreUnreachableError
from summarizing_context.stores.base import SummaryKey
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import connect
from summarizing_context.stores.postgres.engine import PostgresEngine
from summarizing_context.stores.postgres.faults import is_connection_lost, translate
from summarizing_context.stores.postgres.requests import Notices, PostgresRequests

try:
    from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
    from pgqueuer.db import PsycopgDriver, SyncPsycopgDriver
    from pgqueuer.domain.settings import DBSettings
    from pgqueuer.errors import RetryRequested
    from pgqueuer.models import Job
    from pgqueuer.ports.driver import NotifyCallback
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries, SyncQueries
    from pgqueuer.types import Channel
except ImportError as error:
    raise MissingExtraError("pool", "a pool of workers needs the package pgqueuer") from error

_NAME = "summarizing-context worker"  # by which the server knows the connections
_LOOK_AGAIN = timedelta(seconds=2)  # where no notice comes, and for jobs whose worker is gone
_RETRY = 0.5  # seconds
_IN_A_ROW = 60.0  # seconds; a fault that comes later begins to count anew
NOTES_KEPT = timedelta(minutes=10)  # for people who look into the queue; nothing here reads them
_NOTES_AT_ONCE = 5_000

logger = logging.getLogger(__name__)


class JobReleased(Exception):
    """Raised by what makes a summary to give its job back, for any worker, after so many seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        super().__init__("the job is given back")


class QueueDriver(PsycopgDriver):
    """PgQueuer's driver; its notices come by the connection of `Notices`.

    On one connection for both, each query would wait up to a second for the end of a wait for notices.
    """

    def __init__(self, connection: psycopg.AsyncConnection[Any], notices: Notices) -> None:
        super().__init__(connection)
        self._notices = notices

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Have the callback told the payload of each notice of a channel."""
        self._notices.hear(channel, callback)


class PostgresQueue:
    """The jobs of one store for the workers of one model; `name` is the queue's."""

    def __init__(self, address: Address, name: str, requests: PostgresRequests, engine: PostgresEngine) -> None:
        self.is_connected = False  # whether `run` gets jobs now
        self._address = address
        self._name = name
        self._requests = requests
        self._engine = engine
        self._settings = DBSettings(db_schema=address.schema, channel=Channel(f"{address.schema[:50]}_jobs"))

    async def ask(self, session_id: str, key: SummaryKey, text: bytes) -> None:
        """Keep a request and put its job into the queue, in one transaction. Raises `StoreError`."""
        await self._requests.ask(session_id, key, text, self._name, self._put)

    async def remind(self) -> None:
        """Put the jobs of requests that have waited for long, or are to be tried again, into the queue, unless they are
        there; forget the oldest of the queue's notes about changes of jobs. Raises `StoreError`."""
        await self.install()
        notes = self._settings.qualified.queue_table_log  # three for each job, and nobody removes them
        old = f"select id from {notes} where created < now() - %s limit %s for update skip locked"
        query = f"delete from {notes} where id in ({old})".encode()
        await self._requests.remind(self._name, self._put, lambda raw: raw.execute(query, [NOTES_KEPT, _NOTES_AT_ONCE]))

    def _put(self, raw: psycopg.Connection[Any], key: SummaryKey, number: str) -> None:
        """Put the job of a key into the queue, within the transaction of a connection; the same number only once."""
        queries = SyncQueries(SyncPsycopgDriver(raw), qbq=QueryQueueBuilder(self._settings))
        queries.enqueue(self._name, " ".join(key).encode(), dedupe_key=number, on_conflict="skip")

    async def install(self) -> None:
        """Make the tables, or bring them up to date, once for all stores of the process. Raises `StoreError`.

        A transaction holds the lock: behind a pooler, a session's would stay with a connection of others.
        """
        async with self._engine.installing:
            if self._engine.is_installed:
                return
            try:
                async with await connect(self._address, _NAME) as guard, guard.transaction():
                    lock = "select pg_advisory_xact_lock(hashtextextended(%s, 0))"
                    await guard.execute(lock, [self._settings.channel])
                    async with await connect(self._address, _NAME) as connection:
                        queries = self._queries(connection)
                        if not await queries.schema_is_installed():
                            await queries.install(create_schema=False)
                        for statement in (await queries.plan_upgrade()).statements:
                            await connection.execute(statement.encode())
            except psycopg.Error as error:
                fault = translate(error, self._address)
                raise fault from fault.__cause__
            self._engine.is_installed = True

    async def run(
        self, make: Callable[[SummaryKey], Awaitable[None]], *, concurrency: int, stopping: asyncio.Event
    ) -> None:
        """Have jobs made until told to stop, and then wait for those that are under way.

        A lost connection is made anew. What `make` raises beside `JobReleased` ends a job for good. A fault of another
        kind is raised at the third time in a row.
        """
        faults, began = 0, time.monotonic()
        while not stopping.is_set():
            try:
                await self.install()
                async with await connect(self._address, _NAME) as connection:
                    await self._run_on(connection, make, concurrency, stopping)
            except Exception as error:  # a lost connection may look like anything from within the queue
                is_lost = isinstance(error, StoreUnreachableError | OSError) or is_connection_lost(error)
                faults = 0 if is_lost else faults + 1 if time.monotonic() - began < _IN_A_ROW else 1
                if faults == 3:
                    raise
                logger.warning("the queue is out of reach for now", extra={"cause": type(error).__name__})
                began = time.monotonic()
            finally:
                self.is_connected = False
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), _RETRY)

    async def _run_on(self, connection: Any, make: Any, concurrency: int, stopping: asyncio.Event) -> None:
        manager = QueueManager(self._queries(connection), channel=Channel(self._settings.channel))

        @manager.entrypoint(self._name, accepts_context=False)
        async def run(job: Job) -> None:
            range_hash, recipe_hash = (job.payload or b"").decode().split(" ")
            try:
                await make(SummaryKey(range_hash, recipe_hash))
            except JobReleased as released:
                raise RetryRequested(timedelta(seconds=released.seconds)) from released

        async def stop() -> None:
            await stopping.wait()
            manager.shutdown.set()

        watching = asyncio.create_task(stop())
        self.is_connected = True
        try:
            await manager.run(
                dequeue_timeout=_LOOK_AGAIN,
                batch_size=max(1, concurrency // 2),
                max_concurrent_tasks=max(2, concurrency),
                heartbeat_timeout=timedelta(seconds=self._address.lease),
                log_aggregation_interval=timedelta(0),  # statistics that nobody reads
            )
        finally:
            watching.cancel()

    def _queries(self, connection: Any) -> Queries:
        settings = self._settings
        return Queries(
            QueueDriver(connection, self._engine.notices),
            qbe=QueryBuilderEnvironment(settings),
            qbq=QueryQueueBuilder(settings),
        )
