"""A file that is there again, and flushing behind: what is acknowledged is kept, and a failure is told."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from summarizing_context import assembly
from summarizing_context.errors import StoreError
from tests.contract.store_builders import entries, log_of, nothing, opened


async def test_a_file_that_is_there_again_is_opened_anew(path: Path):
    async with opened(path, "a") as store:
        os.remove(path)
        with pytest.raises(StoreError, match="removed"):
            await store.append("a", entries("lost"), nothing)
        async with opened(path, "b") as other:
            await other.append("b", entries("kept"), nothing)
            assert await log_of(other, "b") == ["kept"]


async def test_a_store_whose_thread_cannot_start_says_so_and_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(StoreError, match="thread"):
        await asyncio.wait_for(assembly.open_store(path), 60)


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
