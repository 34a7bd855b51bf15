"""Stores of one file that share a thread and a connection."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import SessionInUseError, StoreError, StoreLockedError
from summarizing_context.stores.sqlite.engine import SqliteEngine
from summarizing_context.stores.sqlite.files import Claims
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import entries, locks, log_of, nothing

pytestmark = pytest.mark.anyio


async def joined(engine: SqliteEngine, path: Path, *sessions: str) -> SqliteStore:
    store = SqliteStore(path, engine=engine)
    await store.open()
    for session in sessions:
        await store.claim(session)
    return store


def threads(path: Path) -> int:
    """The threads of one file; another test may have left some of its own."""
    return sum(thread.name == f"store {path}" for thread in threading.enumerate())


async def test_stores_share_a_thread_and_each_has_its_own_sessions(path: Path):
    engine = SqliteEngine(path)
    one, other = await asyncio.gather(joined(engine, path, "a", "b"), joined(engine, path, "c"))
    assert threads(path) == 1
    with pytest.raises(SessionInUseError):
        await other.claim("a")
    with pytest.raises(StoreError, match="not claimed"):
        await other.append("a", entries("not mine"), nothing)
    with pytest.raises(SessionInUseError):
        await other.delete_session("a")
    await asyncio.gather(one.append("a", entries("mine"), nothing), other.append("c", entries("its own"), nothing))
    assert await log_of(one, "c") == await log_of(other, "c") == ["its own"]
    await asyncio.gather(one.close(), other.close())
    assert threads(path) == 0
    assert not locks(path)


async def test_a_store_that_leaves_gives_up_its_sessions_and_the_others_go_on(path: Path):
    engine = SqliteEngine(path)
    one, other = await joined(engine, path, "a"), await joined(engine, path, "b")
    last = one.append("a", entries("last"), nothing)
    await one.close()
    await one.close()
    assert await last is None
    with pytest.raises(StoreError, match="closed"):
        await one.sessions()
    await other.claim("a")
    assert await log_of(other, "a") == ["last"]
    with pytest.raises(StoreError, match="opened before"):
        await one.open()
    assert engine.is_usable
    await other.close()
    assert not engine.is_usable
    assert not locks(path)
    assert not path.with_name("run.db-wal").exists()


async def test_where_the_file_is_locked_those_that_wait_behind_another_fail_with_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    engine = SqliteEngine(path, busy_timeout=0.2)
    first = await joined(engine, path, "first")
    tried: list[str] = []
    take = Claims.take
    monkeypatch.setattr(Claims, "take", lambda claims, session: tried.append(session) or take(claims, session))
    with closing(sqlite3.connect(path, isolation_level=None)) as locker:
        locker.execute("begin immediate")
        all_queued = threading.Event()
        holding = asyncio.ensure_future(first.read(lambda _: all_queued.wait(60)))
        claims = [asyncio.ensure_future(first.claim(f"s{number}")) for number in range(20)]
        reading = asyncio.ensure_future(first.load("first"))
        await asyncio.sleep(0)  # each of them has queued what it does
        all_queued.set()
        failed: list[Any] = await asyncio.gather(*claims, return_exceptions=True)
        assert await holding
        assert {type(error) for error in failed} == {StoreLockedError}
        assert tried == ["s0"]
        assert (await reading) is not None
    await first.claim("s1")
    await first.close()


async def test_an_engine_whose_file_is_gone_takes_no_more_stores(path: Path):
    engine = SqliteEngine(path)
    store = await joined(engine, path, "a")
    os.remove(path)
    with pytest.raises(StoreError, match="removed"):
        await store.append("a", entries("lost"), nothing)
    assert not engine.is_usable
    await store.close()
    assert not locks(path)


async def test_an_engine_that_cannot_start_is_not_used_again(path: Path):
    engine = SqliteEngine(path.parent)  # a folder
    for _ in range(2):
        with pytest.raises(StoreError):
            await joined(engine, path)
    assert not engine.is_usable
    assert threads(path.parent) == 0


async def test_what_is_flushed_behind_is_acknowledged_first_and_on_the_disk_before_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    flushed, permits = list[int](), threading.Semaphore(1)

    def flush(file: int) -> None:
        flushed.append(os.fstat(file).st_ino)
        permits.acquire(timeout=20)

    monkeypatch.setattr(os, "fsync", flush)
    engine = SqliteEngine(path, flushes_behind=True)
    store = await joined(engine, path, "a")
    await store.append("a", entries("one"), nothing)  # not held up
    later = asyncio.ensure_future(store.append("a", entries("two"), nothing))
    await asyncio.wait([later], timeout=0.05)
    assert not later.done()
    permits.release(100)
    await later
    await store.close()
    assert flushed == [flushed[0]] * len(flushed)
    assert len(flushed) >= 3
    assert await _stored(path) == ["one", "two"]


async def test_where_flushing_behind_fails_commits_wait_for_the_disk_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(_file: int) -> None:
        raise OSError("disk error")

    async def waits() -> int:
        found = await engine.writer.submit(lambda connection: connection.execute("pragma synchronous").fetchone())
        return int(found[0])

    engine = SqliteEngine(path, flushes_behind=True)
    store = await joined(engine, path, "a")
    assert await waits() == 1
    monkeypatch.setattr(os, "fsync", fail)
    await store.append("a", entries("one"), nothing)
    assert await waits() == 2
    await store.append("a", entries("two"), nothing)
    await store.close()
    assert [record.message for record in caplog.records] == ["a store could not be flushed behind"]
    assert await _stored(path) == ["one", "two"]


async def _stored(path: Path) -> list[str]:
    store = await joined(SqliteEngine(path), path)
    found = await log_of(store, "a")
    await store.close()
    return found
