"""Stores of one file and event loop share a thread; each has its own sessions, and each may be closed by itself."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from summarizing_context import assembly
from summarizing_context.errors import SessionInUseError, StoreError, StoreLockedError
from tests.contract.store_builders import entries, locks, log_of, make_store, nothing, numbered, opened

pytestmark = pytest.mark.anyio


def threads(path: Path) -> int:
    return sum(thread.name == f"store {path}" for thread in threading.enumerate())


async def test_stores_share_a_thread_and_each_has_its_own_sessions(path: Path):
    async with opened(path, "a", "b") as one, opened(path, "c") as other:
        assert threads(path) == 1
        with pytest.raises(SessionInUseError):
            await other.claim("a")
        with pytest.raises(StoreError, match="not claimed"):
            await other.append("a", entries("not mine"), nothing)
        with pytest.raises(SessionInUseError):
            await other.delete_session("a")
        await asyncio.gather(one.append("a", entries("mine"), nothing), other.append("c", entries("its own"), nothing))
        assert await log_of(one, "c") == await log_of(other, "c") == ["its own"]
    assert threads(path) == 0
    assert not locks(path)


async def test_a_store_that_leaves_gives_up_its_sessions_and_the_others_go_on(path: Path):
    async with opened(path, "b") as other:
        async with opened(path, "a") as one:
            last = one.append("a", entries("last"), nothing)
        assert await last is None
        with pytest.raises(StoreError, match="closed"):
            await one.sessions()
        await other.claim("a")
        assert await log_of(other, "a") == ["last"]
        with pytest.raises(StoreError, match="opened before"):
            await one.open()
    assert [file.name for file in path.parent.iterdir()] == ["run.db"]


async def test_closing_after_a_cancelled_call_finishes_what_is_queued_and_frees_the_claims(path: Path):
    async with opened(path, "other") as other:
        store = make_store(path)
        await store.open()
        await store.claim("s")
        waiting = [store.append("s", numbered(100), nothing) for _ in range(20)]
        task = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await store.close()
        await asyncio.gather(*waiting)
        await other.claim("s")
        assert len(await log_of(other, "s")) == 2_000


async def test_where_the_file_is_locked_those_that_wait_behind_another_fail_with_it(path: Path):
    async with opened(path, "first", busy_timeout=0.5) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("begin immediate")
            asked = [store.claim("s0"), *(store.claim(f"s{number}") for number in range(1, 200)), store.load("first")]
            *failed, loaded = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
            assert {type(error) for error in failed} == {StoreLockedError}
            assert loaded is not None
        await store.claim("s1")


async def test_stores_that_open_what_is_no_file_at_once_all_fail_and_leave_no_thread(path: Path):
    stores = [make_store(path.parent) for _ in range(3)]
    found = await asyncio.wait_for(asyncio.gather(*(store.open() for store in stores), return_exceptions=True), 60)
    assert [type(error) for error in found] == [StoreError] * 3
    assert threads(path.parent) == 0


async def test_a_file_that_is_there_again_is_opened_anew(path: Path):
    async with opened(path, "a") as store:
        os.remove(path)
        with pytest.raises(StoreError, match="removed"):
            await store.append("a", entries("lost"), nothing)
        async with opened(path, "b") as other:
            await other.append("b", entries("kept"), nothing)
            assert await log_of(other, "b") == ["kept"]


async def test_what_is_flushed_behind_is_acknowledged_first_and_on_the_disk_before_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    flushed, permits = list[int](), threading.Semaphore(1)

    def flush(file: int) -> None:
        flushed.append(os.fstat(file).st_ino)
        permits.acquire(timeout=20)

    monkeypatch.setattr(os, "fsync", flush)
    store = await assembly.open_store(path, flushes_behind=True)
    await store.claim("a")
    await store.append("a", entries("one"), nothing)  # not held up
    later = asyncio.ensure_future(store.append("a", entries("two"), nothing))
    await asyncio.wait([later], timeout=0.05)
    assert not later.done()
    permits.release(100)
    await later
    await store.close()
    assert flushed == [flushed[0]] * len(flushed)
    assert len(flushed) >= 3


async def test_where_flushing_behind_fails_all_is_kept_and_one_line_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(_file: int) -> None:
        raise OSError("disk error")

    store = await assembly.open_store(path, flushes_behind=True)
    monkeypatch.setattr(os, "fsync", fail)
    await store.claim("a")
    for text in ("one", "two"):
        await store.append("a", entries(text), nothing)
    await store.close()
    assert [record.message for record in caplog.records] == ["a store could not be flushed behind"]
    async with opened(path) as reader:
        assert await log_of(reader, "a") == ["one", "two"]
