"""The side of a host: ask the pool for a summary, and take it when it is there.

A pool that is down costs nothing but stand-ins: a request waits in the database, and views wait for nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import asdict
from typing import cast

from summarizing_context.errors import SettingsError, StoreError, SummarizerError
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import SessionStore, StoredSummary, SummaryClaims, SummaryKey
from summarizing_context.stores.requests import PoolStore, SummaryQueue
from summarizing_context.summarizers.base import NamedCaller, SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.attribution import ATTRIBUTION_VERSION
from summarizing_context.summarizers.verification.grounding import GROUNDING_VERSION

CLAIM = 300.0  # seconds that a summary may take before another host or worker pays for it

_PATIENCE = 2.0  # seconds until a host that also makes summaries itself makes one

_FIRST_LOOK, _LONGEST_LOOK = 1.0, 10.0  # seconds between two looks at a request, where no notice comes


class PoolCaller:
    """Has the summaries of one session made by the pool; with `own` also by this host, where the pool is behind."""

    def __init__(self, store: PoolStore, session_id: str, queue: SummaryQueue, inner: NamedCaller, *, own: int) -> None:
        self.recipe, self.model = inner.recipe, inner.model
        self._store = store
        self._session_id = session_id
        self._queue = queue
        self._inner = inner
        self._own = asyncio.Semaphore(own) if own else None

    def ready_in(self) -> float | None:
        """A request may always be made."""
        return 0.0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The summary of a job, by this process or a worker. Raises `SummarizerError` where the attempt failed."""
        key = SummaryKey(job.range_hash, job.recipe_hash)
        try:
            await self._queue.install()
            asked = asyncio.ensure_future(self._ask(key, job))
            try:
                if self._own is not None:
                    return await self._ask_or_make(asked, self._own, key, job)
                return await asked
            finally:
                asked.cancel()
        except StoreError as error:
            raise SummarizerError("the pool's queue is out of reach") from error

    async def _ask_or_make(
        self, asked: asyncio.Future[SummaryReply], own: asyncio.Semaphore, key: SummaryKey, job: SummaryJob
    ) -> SummaryReply:
        await asyncio.wait([asked], timeout=_PATIENCE)
        made = asyncio.ensure_future(self._make(own, key, job))
        try:
            await asyncio.wait([asked, made], return_when=asyncio.FIRST_COMPLETED)
            for first, other in ((made, asked), (asked, made)):
                if first.done() and first.exception() is None:
                    return first.result()
                if first.done():  # what failed here may succeed there
                    return await other
            raise AssertionError("neither has ended")
        finally:
            made.cancel()

    async def _ask(self, key: SummaryKey, job: SummaryJob) -> SummaryReply:
        requests, text = self._store.requests, encode(job)
        while True:
            await self._queue.ask(self._session_id, key, text)
            look = _FIRST_LOOK
            while (state := await requests.state(key)) is not None:
                if state.error is not None:
                    raise SummarizerError(state.error)
                await requests.wait(key, look)
                look = min(look * 1.5, _LONGEST_LOOK)
            if (found := await self._found(key)) is not None:
                return found

    async def _make(self, own: asyncio.Semaphore, key: SummaryKey, job: SummaryJob) -> SummaryReply:
        """Make it here, unless a worker has begun; then wait for that."""
        claims: SummaryClaims | None = self._store.claims
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


def encode(job: SummaryJob) -> bytes:
    """A job as the store keeps it; lone surrogates are escaped."""
    return json.dumps(asdict(job)).encode()


def decode(text: bytes) -> SummaryJob:
    """A job as a host has asked for it."""
    return SummaryJob(**json.loads(text))


def queue_name(recipe: str) -> str:
    """The queue for workers of one model, and of a version that checks replies alike."""
    made_by = f"{recipe} {GROUNDING_VERSION} {ATTRIBUTION_VERSION}"
    return f"summaries_{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"


def make_asking(settings: Settings, store: SessionStore, caller: NamedCaller | None) -> PoolCaller:
    """How a session asks the pool; with `workers = "both"` also by `caller`, which is None where no model is asked.

    Raises `SettingsError`.
    """
    for_hosts = shared(store, f"workers = {settings.workers!r} needs a store that hosts share")
    if caller is None or caller.recipe is None:
        raise SettingsError(
            f"workers = {settings.workers!r} needs a summarizer that workers have too: "
            f"{' or '.join(map(repr, PROVIDERS))}, or an object of yours with an attribute `recipe`"
        )
    own = settings.concurrency if settings.workers == "both" else 0
    return PoolCaller(for_hosts, settings.session_id, for_hosts.queue(queue_name(caller.recipe)), caller, own=own)


def shared(store: SessionStore, needs: str) -> PoolStore:
    """A store that hosts share; `SettingsError` for any other, which names what needs it."""
    if not callable(getattr(store, "queue", None)):
        raise SettingsError(f"{needs}: store = 'postgresql://…'")
    return cast(PoolStore, store)
