"""The side of a worker: take requests from the queue, ask the model, and keep the summaries.

A worker holds the claim of a key while it pays. One that is killed loses its calls and nothing else: the queue gives
its jobs to another worker, and its claims end with its lease.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.pool.client import CLAIM
from summarizing_context.pool.metrics import PoolMetrics
from summarizing_context.stores.base import StoredSummary, SummaryKey
from summarizing_context.stores.postgres.queue import JobReleased, PostgresQueue
from summarizing_context.summarizers.base import Caller, Summarizer, SummaryJob, SummaryReply

if TYPE_CHECKING:
    from summarizing_context.stores.postgres.requests import PostgresFleet
    from summarizing_context.stores.postgres.store import PostgresStore

_LOOK = 0.5  # seconds between two looks at the caller while it lets nothing through
_CAPPED = 60.0  # seconds until a job is tried again whose worker has reached a cap for good
_UNREACHABLE = 1.0  # seconds until a job is tried again that the store failed

logger = logging.getLogger(__name__)


class CappedSummarizer:
    """A summarizer whose calls count against the caps of the fleet."""

    def __init__(self, inner: Summarizer, fleet: PostgresFleet) -> None:
        self._inner, self._fleet = inner, fleet
        self.recipe: str | None = getattr(inner, "recipe", None)
        self.model: str | None = getattr(inner, "model", None)
        self.host: str | None = getattr(inner, "host", None)

    async def summarize(self, job: SummaryJob) -> str | SummaryReply:
        """Ask, if the fleet may call now; else `SummarizerNotReady` says when to try again."""
        try:
            call, wait = await self._fleet.begin()
        except StoreError as error:
            raise SummarizerNotReady("the caps of the fleet cannot be read", retry_after=_UNREACHABLE) from error
        if call is None:
            raise SummarizerNotReady("the fleet makes as many calls as it may", retry_after=wait)
        try:
            return await self._inner.summarize(job)
        finally:
            self._fleet.end(call)


class PoolWorker:
    """Makes summaries for the sessions of one store, until told to drain. Belongs to its event loop."""

    def __init__(
        self,
        store: PostgresStore,
        queue: PostgresQueue,
        caller: Caller,
        *,
        concurrency: int,
        drain_within: float,
        metrics: PoolMetrics,
    ) -> None:
        self._store = store
        self._queue = queue
        self._caller = caller
        self._concurrency = concurrency
        self._drain_within = drain_within
        self._metrics = metrics
        self._slots = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def drain(self) -> None:
        """Take no more jobs; finish those under way, or give them back when the time for it has passed."""
        self._stopping.set()

    @property
    def health(self) -> str:
        """`ok`, `draining`, or `unreachable` while the database is."""
        if self._stopping.is_set():
            return "draining"
        return "ok" if self._queue.is_connected else "unreachable"

    async def run(self) -> None:
        """Work until drained."""
        helping = [asyncio.create_task(self._release_late()), asyncio.create_task(self._watch())]
        try:
            await self._queue.run(self._run_job, concurrency=self._concurrency, stopping=self._stopping)
        finally:
            for task in helping:
                task.cancel()
            await asyncio.wait(helping)

    async def _release_late(self) -> None:
        """Once draining has taken too long, end what runs; each job goes back into the queue."""
        await self._stopping.wait()
        await asyncio.sleep(self._drain_within)
        for task in list(self._running):
            task.cancel()

    async def _watch(self) -> None:
        """Keep the figures of the backlog and the model's gate, and see that each request has a job."""
        while True:
            try:
                self._metrics.note_backlog(*await self._store.requests.backlog())
                await self._queue.remind()
            except StoreError as error:
                logger.warning("the backlog cannot be read", extra={"cause": type(error).__name__})
            self._metrics.note_gate(self._caller.ready_in() == 0.0)
            await asyncio.sleep(self._metrics.every)

    async def _run_job(self, key: SummaryKey) -> None:
        """Make one summary, in a task of its own that draining may end."""
        task = asyncio.create_task(self._make_when_ready(key))
        self._running.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._running.discard(task)
        if task.cancelled():
            self._metrics.jobs.labels("released").inc()
            raise JobReleased
        task.result()

    async def _make_when_ready(self, key: SummaryKey) -> None:
        async with self._slots:
            while True:
                while (wait := self._caller.ready_in()) != 0.0:
                    if wait is None:
                        raise JobReleased(_CAPPED)
                    await asyncio.sleep(min(wait, _LOOK))
                try:
                    await self._make(key)
                    return
                except SummarizerNotReady:
                    continue
                except StoreError as error:
                    logger.warning("a job waits for the store", extra={"cause": type(error).__name__})
                    await asyncio.sleep(_UNREACHABLE)
                except Exception as error:  # a fault of this package or of a foreign object: the host is told
                    logger.error("a summary could not be made", extra={"cause": type(error).__name__})
                    await self._fail(key, type(error).__name__)
                    return

    async def _make(self, key: SummaryKey) -> None:
        claims, requests = self._store.claims, self._store.requests
        assert claims is not None
        async with claims.held(key, CLAIM):
            if (request := await requests.find(key)) is None:
                self._metrics.jobs.labels("answered").inc()  # by another, or removed with its session
                return
            session_id, text = request
            job = SummaryJob(**json.loads(text))
            places = {key: (job.start, job.stop)}
            if await self._store.find_summaries(session_id, [key], places):
                await requests.end(key)
                self._metrics.jobs.labels("answered").inc()
                return
            began = time.monotonic()
            self._metrics.running.inc()
            try:
                reply = await self._caller.summarize(job)
            except SummarizerNotReady:
                raise
            except SummarizerError as error:
                await self._fail(key, str(error))
                return
            finally:
                self._metrics.running.dec()
                self._metrics.seconds.observe(time.monotonic() - began)
            made = StoredSummary(reply.text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)
            await self._until_kept(lambda: requests.answer(session_id, key, made, places))
            self._metrics.note_made(job, reply)

    async def _fail(self, key: SummaryKey, cause: str) -> None:
        self._metrics.jobs.labels("failed").inc()
        await self._until_kept(lambda: self._store.requests.fail(key, cause))

    async def _until_kept(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write what was paid for, however long the server is away."""
        while True:
            try:
                await write()
                return
            except StoreError as error:
                logger.warning("a summary waits to be kept", extra={"cause": type(error).__name__})
                await asyncio.sleep(_UNREACHABLE)
