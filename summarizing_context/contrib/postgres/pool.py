"""The pool: workers apart from the hosts make the summaries that hosts on one PostgreSQL store ask for.

A host asks, and takes the summary when it is there. A pool that is down costs nothing but stand-ins: a request waits in
the database, and views wait for no request. A worker holds the claim of a key while it pays. One that is killed loses
its calls and nothing else: its claims end with its lease, and another worker takes what is left.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, cast

from summarizing_context.contrib.postgres.store import CLAIM, PostgresFleet, PostgresStore
from summarizing_context.errors import SettingsError, StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.stores.base import SessionStore, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import Caller, NamedCaller, Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.providers import make_caller, make_model
from summarizing_context.summarizers.verification.grounding import GROUNDING_VERSION

if TYPE_CHECKING:
    from summarizing_context.contrib.postgres.metrics import PoolMetrics

_PATIENCE = 2.0  # seconds until a host that also makes summaries itself makes one
_LOOK_AGAIN = 1.0  # seconds until a worker that has room looks for requests
_UNREACHABLE = 1.0  # seconds until what the store failed is tried again

logger = logging.getLogger(__name__)


def queue_name(recipe: str) -> str:
    """Return the queue for workers of one model, and of a version that checks replies alike."""
    made_by = f"{recipe} {GROUNDING_VERSION}"
    return f"summaries_{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def _shared(store: SessionStore, needs: str) -> PostgresStore:
    if not isinstance(store, PostgresStore):
        raise SettingsError(f"{needs}: store = 'postgresql://…'")
    return store


async def _find(store: PostgresStore, session_id: str, key: SummaryKey) -> SummaryReply | None:
    kept = (await store.find_summaries(session_id, [key])).get(key)
    return None if kept is None else SummaryReply(kept.text, kept.input_tokens, kept.output_tokens)


def _stored(job: SummaryJob, reply: SummaryReply) -> StoredSummary:
    return StoredSummary(reply.text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)


# The side of a host


def make_asking(settings: Settings, store: SessionStore, caller: NamedCaller | None) -> PoolCaller:
    """Return how a session asks the pool; with `workers = "both"` also by `caller`, which is None where no model is
    asked. Raises `SettingsError`."""
    for_hosts = _shared(store, f"workers = {settings.workers!r} needs a store that hosts share")
    if caller is None or caller.recipe is None:
        raise SettingsError(
            f"workers = {settings.workers!r} needs a summarizer that workers have too: "
            f"{' or '.join(map(repr, PROVIDERS))}, or an object of yours with an attribute `recipe`"
        )
    return PoolCaller(for_hosts, settings.session_id, caller, settings.concurrency if settings.workers == "both" else 0)


class PoolCaller:
    """Has the summaries of one session made by the pool; with `own` calls at once also by this host, where the pool is
    behind."""

    def __init__(self, store: PostgresStore, session_id: str, inner: NamedCaller, own: int) -> None:
        self.recipe, self.model = inner.recipe, inner.model
        self._store = store
        self._session_id = session_id
        self._queue = queue_name(inner.recipe or "")
        self._inner = inner
        self._own = asyncio.Semaphore(own) if own else None

    def ready_in(self) -> float | None:
        """Return 0: a request may always be made."""
        return 0.0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job, by this process or a worker. Raises `SummarizerError` where the attempt
        failed."""
        tasks = [asyncio.create_task(self._ask(job))]
        try:
            if self._own is not None:
                await asyncio.wait(tasks, timeout=_PATIENCE)
                tasks.insert(0, asyncio.create_task(self._make(self._own, job)))
                done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                made = [task for task in tasks if task in done and task.exception() is None]
                return await (made or list(running) or tasks)[0]  # what failed here may succeed there
            return await tasks[0]
        except StoreError as error:
            raise SummarizerError("the pool's queue is out of reach") from error
        finally:
            for task in tasks:
                task.cancel()

    async def _ask(self, job: SummaryJob) -> SummaryReply:
        key, requests = SummaryKey(job.range_hash, job.recipe_hash), self._store.requests
        while True:
            await requests.ask(self._session_id, key, self._queue, json.dumps(asdict(job)).encode())
            error = await requests.wait(key)
            if error is not None:
                raise SummarizerError(error)
            if (found := await _find(self._store, self._session_id, key)) is not None:
                return found

    async def _make(self, own: asyncio.Semaphore, job: SummaryJob) -> SummaryReply:
        """Make it here, unless a worker has begun; then wait for that."""
        key, claims = SummaryKey(job.range_hash, job.recipe_hash), self._store.claims
        assert claims is not None
        async with own, claims.held(key, CLAIM):
            if (found := await _find(self._store, self._session_id, key)) is not None:
                return found
            reply = await self._inner.summarize(job)
            places = {key: (job.start, job.stop)}
            await self._store.requests.answer(self._session_id, key, _stored(job, reply), places)
            return reply


# The side of a worker


@asynccontextmanager
async def pool_worker(
    settings: Settings,
    store: SessionStore,
    metrics: PoolMetrics,
    *,
    summarizer: Summarizer | None = None,
    drain_within: float = 20.0,
) -> AsyncIterator[PoolWorker]:
    """A worker on an open store; the settings name the model and its limits. Raises `SettingsError`."""
    for_hosts = _shared(store, "a worker serves hosts that share a store")
    if summarizer is None and settings.summarizer not in PROVIDERS:
        raise SettingsError(f"a worker asks a model: summarizer is {' or '.join(map(repr, PROVIDERS))}")
    own = make_model(settings, read_only=False) if summarizer is None else None
    model: Summarizer = cast(Summarizer, own or summarizer)
    try:
        capped = CappedSummarizer(model, for_hosts.fleet)
        caller = make_caller(without_default_cap(settings), capped, read_only=False)
        if caller.recipe is None:
            raise SettingsError("the summarizer needs an attribute `recipe`, by which hosts name it too")
        yield PoolWorker(for_hosts, queue_name(caller.recipe), caller, settings.concurrency, drain_within, metrics)
    finally:
        if own is not None:
            await own.close()


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


@dataclass(eq=False)
class PoolWorker:
    """Makes summaries for the sessions of one store, until told to drain. Belongs to its event loop."""

    _store: PostgresStore
    _queue: str
    _caller: Caller
    _concurrency: int
    _drain_within: float
    _metrics: PoolMetrics
    _is_connected: bool = False
    _is_draining: bool = False
    _look: asyncio.Event = field(default_factory=asyncio.Event)  # there may be something to do
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    def drain(self) -> None:
        """Take no more requests; finish those under way, or give them back when the time for it has passed."""
        self._is_draining = True
        self._look.set()

    @property
    def health(self) -> str:
        """`ok`, `draining`, or `unreachable` while the database is."""
        if self._is_draining:
            return "draining"
        return "ok" if self._is_connected else "unreachable"

    async def run(self) -> None:
        """Work until drained."""
        watching = asyncio.create_task(self._watch())
        try:
            while not self._is_draining:
                self._look.clear()
                wait = await self._take_some()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._look.wait(), wait)
            if self._running:
                _, late = await asyncio.wait(self._running, timeout=self._drain_within)
                for task in late:
                    task.cancel()
                    self._metrics.jobs.labels("released").inc()
                await asyncio.gather(*late, return_exceptions=True)
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _take_some(self) -> float:
        """Begin to make what is asked for, as far as there is room; return the seconds until the next look."""
        gate, room = self._caller.ready_in(), self._concurrency - len(self._running)
        if gate != 0.0 or not room:
            return _LOOK_AGAIN if not gate else min(gate, _LOOK_AGAIN)
        try:
            taken = await self._store.requests.take(self._queue, room)
        except StoreError as error:
            logger.warning("the queue is out of reach for now", extra={"cause": type(error).__name__})
            self._is_connected = False
            return _UNREACHABLE
        self._is_connected = True
        for key, session_id, text in taken:
            task = asyncio.create_task(self._make(key, session_id, text))
            self._running.add(task)
            task.add_done_callback(self._end)
        return _LOOK_AGAIN

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._look.set()

    async def _watch(self) -> None:
        """Keep the figures of the backlog and the model's gate."""
        while True:
            with suppress(StoreError):
                for state, number in zip(("waiting", "failed"), await self._store.requests.backlog(), strict=True):
                    self._metrics.requests.labels(state).set(number)
            self._metrics.held.set(self._caller.ready_in() != 0.0)
            await asyncio.sleep(self._metrics.every)

    async def _make(self, key: SummaryKey, session_id: str, text: bytes) -> None:
        """Make one summary, whose key is claimed until then."""
        requests = self._store.requests
        try:
            job = SummaryJob(**json.loads(text))
            places = {key: (job.start, job.stop)}
            if await self._store.find_summaries(session_id, [key], places):  # made by another meanwhile
                await requests.end(key)
                self._metrics.jobs.labels("answered").inc()
                return
            began = time.monotonic()
            self._metrics.running.inc()
            try:
                reply = await self._caller.summarize(job)
            finally:
                self._metrics.running.dec()
                self._metrics.seconds.observe(time.monotonic() - began)
            await self._until_kept(lambda: requests.answer(session_id, key, _stored(job, reply), places))
            self._metrics.note_made(job, reply)
        except SummarizerNotReady:  # it waits in the table; the gate of the caller says when to take it again
            pass
        except StoreError as error:
            logger.warning("a request waits for the store", extra={"cause": type(error).__name__})
            await asyncio.sleep(_UNREACHABLE)
        except Exception as error:
            cause = str(error)
            if not isinstance(error, SummarizerError):  # a fault of this package or of a foreign object
                cause = type(error).__name__
                logger.error("a summary could not be made", extra={"cause": cause})
            self._metrics.jobs.labels("failed").inc()
            await self._until_kept(lambda: requests.fail(key, cause))
        finally:
            if self._store.claims is not None:
                self._store.claims.give_up(key)

    async def _until_kept(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write what was paid for, however long the server is away."""
        while True:
            try:
                await write()
                return
            except StoreError as error:
                logger.warning("a summary waits to be kept", extra={"cause": type(error).__name__})
                await asyncio.sleep(_UNREACHABLE)
