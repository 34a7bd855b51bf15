"""Assembly of a pool's worker: the model that the settings name, behind the caps of the fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from summarizing_context.concurrency import choose_clock
from summarizing_context.errors import SettingsError
from summarizing_context.pool.client import queue_name, shared
from summarizing_context.pool.metrics import PoolMetrics
from summarizing_context.pool.worker import CappedSummarizer, PoolWorker
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive.summarizer import ExtractiveSummarizer
from summarizing_context.summarizers.providers import make_caller, make_model


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
    for_hosts = shared(store, "a worker serves hosts that share a store")
    if summarizer is None and settings.summarizer not in PROVIDERS:
        raise SettingsError(f"a worker asks a model: summarizer is {' or '.join(map(repr, PROVIDERS))}")
    own = make_model(settings, read_only=False) if summarizer is None else None
    model: Summarizer = cast(Summarizer, own or summarizer)
    try:
        capped = CappedSummarizer(model, for_hosts.fleet)
        caller = make_caller(without_default_cap(settings), capped, choose_clock(None), read_only=False)
        if isinstance(caller, ExtractiveSummarizer) or caller.recipe is None:
            raise SettingsError("the summarizer needs an attribute `recipe`, by which hosts name it too")
        queue = for_hosts.queue(queue_name(caller.recipe))
        concurrency = settings.concurrency
        yield PoolWorker(for_hosts, queue, caller, concurrency=concurrency, drain_within=drain_within, metrics=metrics)
    finally:
        if own is not None:
            await own.close()
