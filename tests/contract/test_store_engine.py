"""A file that is there again is opened anew, whatever a store there knows of the one before."""

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
