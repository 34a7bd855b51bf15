"""Closing a store: what is queued is finished, and claims are given up, also where a first call was cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio.lowlevel
import pytest

from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.sqlite.engine import SqliteEngine
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import opened

pytestmark = pytest.mark.anyio
NAME = "closing"


async def test_a_store_has_one_thread():
    before = threading.active_count()
    async with opened(":memory:", "s"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


async def cancelled(closing: Awaitable[None], begun: Callable[[], bool]) -> None:
    """Cancel a call of `close` once it has begun to wait for the busy thread."""
    task = asyncio.ensure_future(closing)
    await asyncio.sleep(0)
    while not begun():
        await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_closing_finishes_what_is_queued(path: Path):
    go_on = threading.Event()
    store = SqliteStore(path)
    await store.open()
    await store.claim("s")
    busy = asyncio.ensure_future(store.read(lambda _: go_on.wait(120)))
    await asyncio.sleep(0)
    added = asyncio.ensure_future(store.append("s", [StoredEntry(b"{}", b"")], lambda: None))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    await added
    assert await busy
    async with opened(path, read_only=True) as reader:
        assert len((await reader.load("s")).entries) == 1


async def test_closing_again_after_a_cancelled_call_waits_for_the_claims_though_another_store_goes_on(path: Path):
    engine, go_on = SqliteEngine(path), threading.Event()
    store, other = SqliteStore(path, engine=engine), SqliteStore(path, engine=engine)
    await store.open()
    await other.open()
    await store.claim("s")
    busy = asyncio.ensure_future(other.read(lambda _: go_on.wait(120)))
    await asyncio.sleep(0)
    await cancelled(store.close(), lambda: True)
    again = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    assert not again.done()
    go_on.set()
    await again
    async with opened(path, "s"):
        assert await busy
    await store.close()
    assert engine.is_usable
    await other.close()
