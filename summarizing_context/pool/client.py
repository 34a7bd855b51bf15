"""The side of a host: ask the pool for a summary, and take it when it is there.

A pool that is down costs nothing but stand-ins: a request waits in the database, and views wait for nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from summarizing_context.errors import SettingsError, StoreError, SummarizerError
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import SessionStore, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import NamedCaller, SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.attribution import ATTRIBUTION_VERSION
from summarizing_context.summarizers.verification.grounding import GROUNDING_VERSION

if TYPE_CHECKING:
    from summarizing_context.stores.postgres.queue import PostgresQueue
    from summarizing_context.stores.postgres.store import PostgresStore

CLAIM = 300.0  # seconds that a summary may take before another host or worker pays for it

_PATIENCE = 2.0  # seconds until a host that also makes summaries itself makes one


class PoolCaller:
    """Has the summaries of one session made by the pool; with `own` also by this host, where the pool is behind."""

    def __init__(
        self, store: PostgresStore, session_id: str, queue: PostgresQueue, inner: NamedCaller, *, own: int
    ) -> None:
        self.recipe, self.model = inner.recipe, inner.model
        self._store = store
        self._session_id = session_id
        self._queue = queue
        self._inner = inner
        self._own = asyncio.Semaphore(own) if own else None

    def ready_in(self) -> float | None:
        """Return 0: a request may always be made."""
        return 0.0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job, by this process or a worker. Raises `SummarizerError` where the attempt
        failed."""
        key = SummaryKey(job.range_hash, job.recipe_hash)
        tasks: list[asyncio.Task[SummaryReply]] = []
        try:
            await self._queue.install()
            tasks.append(asyncio.create_task(self._ask(key, job)))
            if self._own is not None:
                await asyncio.wait(tasks, timeout=_PATIENCE)
                tasks.insert(0, asyncio.create_task(self._make(self._own, key, job)))
                done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                made = [task for task in tasks if task in done and task.exception() is None]
                return await (made or list(running) or tasks)[0]  # what failed here may succeed there
            return await tasks[0]
        except StoreError as error:
            raise SummarizerError("the pool's queue is out of reach") from error
        finally:
            for task in tasks:
                task.cancel()

    async def _ask(self, key: SummaryKey, job: SummaryJob) -> SummaryReply:
        while True:
            await self._queue.ask(self._session_id, key, json.dumps(asdict(job)).encode())
            error = await self._store.requests.wait(key)
            if error is not None:
                raise SummarizerError(error)
            if (found := await self._found(key)) is not None:
                return found

    async def _make(self, own: asyncio.Semaphore, key: SummaryKey, job: SummaryJob) -> SummaryReply:
        """Make it here, unless a worker has begun; then wait for that."""
        claims = self._store.claims
        assert claims is not None
        async with own, claims.held(key, CLAIM):
            if (found := await self._found(key)) is not None:
                return found
            reply = await self._inner.summarize(job)
            made = StoredSummary(reply.text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)
            await self._store.requests.answer(self._session_id, key, made, {key: (job.start, job.stop)})
            return reply

    async def _found(self, key: SummaryKey) -> SummaryReply | None:
        kept = (await self._store.find_summaries(self._session_id, [key])).get(key)
        return None if kept is None else SummaryReply(kept.text, kept.input_tokens, kept.output_tokens)


def queue_name(recipe: str) -> str:
    """Return the queue for workers of one model, and of a version that checks replies alike."""
    made_by = f"{recipe} {GROUNDING_VERSION} {ATTRIBUTION_VERSION}"
    return f"summaries_{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def make_asking(settings: Settings, store: SessionStore, caller: NamedCaller | None) -> PoolCaller:
    """Return how a session asks the pool; with `workers = "both"` also by `caller`, which is None where no model is
    asked. Raises `SettingsError`."""
    for_hosts = shared(store, f"workers = {settings.workers!r} needs a store that hosts share")
    if caller is None or caller.recipe is None:
        raise SettingsError(
            f"workers = {settings.workers!r} needs a summarizer that workers have too: "
            f"{' or '.join(map(repr, PROVIDERS))}, or an object of yours with an attribute `recipe`"
        )
    own = settings.concurrency if settings.workers == "both" else 0
    return PoolCaller(for_hosts, settings.session_id, for_hosts.queue(queue_name(caller.recipe)), caller, own=own)


def shared(store: SessionStore, needs: str) -> PostgresStore:
    """Return a store that hosts share; raise `SettingsError` for any other, which names what `needs` it."""
    if not callable(getattr(store, "queue", None)):
        raise SettingsError(f"{needs}: store = 'postgresql://…'")
    return cast("PostgresStore", store)
