"""Who asks a model for a key: one task of an event loop, and one of the hosts that share a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from summarizing_context.concurrency import single_flight
from summarizing_context.stores.base import Store, SummaryKey

_DEADLINE = 300.0  # seconds; other hosts wait no longer for one that lives


@asynccontextmanager
async def paid_once(store: Store, place: Hashable, key: SummaryKey, *, claims: bool) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    `place` is the store's name, or what stands for a session that shares nothing. Without `claims` other hosts are not
    held off: nothing is paid here.
    """
    hosts = getattr(store, "claims", None) if claims and place == store.name else None  # a store may have none
    async with single_flight((place, key)):
        if hosts is None:
            yield
            return
        async with hosts.held(key, _DEADLINE):
            yield
