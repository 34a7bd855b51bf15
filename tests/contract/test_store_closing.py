"""Closing a store: what is queued is finished, what is done in spare time is not waited for."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio.lowlevel
import pytest

from summarizing_context.assembly import open_context
from summarizing_context.errors import StoreError
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.writer import Writer
from summarizing_context.stores.sqlite.engine import SqliteEngine, open_memory
from summarizing_context.stores.sqlite.schema import SQL, transaction
from summarizing_context.stores.sqlite.search import catch_up, index_before_leaving
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import locks, opened

pytestmark = pytest.mark.anyio
NAME = "closing"


class Spending(SqliteEngine):
    """Spends its spare time on what it is given."""

    def __init__(self, spare: Callable[[sqlite3.Connection], bool] | None, path: Path | str = ":memory:") -> None:
        self._spare = spare
        super().__init__(path)

    def has_spare(self) -> bool:
        return self._spare is not None

    def spend(self, connection: sqlite3.Connection) -> bool:
        return self._spare is not None and self._spare(connection)


def writer(spare: Callable[[sqlite3.Connection], bool] | None = None) -> Writer:
    return Writer(NAME, Spending(spare))


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"store {NAME}"]


def endless(begun: threading.Event, connection: sqlite3.Connection) -> bool:
    """A statement that only ends when it is interrupted."""
    connection.create_function("begun", 1, lambda _: begun.set())
    connection.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select count(begun(i)) from n")
    return True


async def wait_for(event: threading.Event) -> None:
    while not event.is_set():
        await anyio.lowlevel.checkpoint()


async def test_a_store_has_one_thread():
    before = threading.active_count()
    async with opened(":memory:", "s"):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


async def test_a_statement_of_spare_time_is_interrupted(caplog):
    begun = threading.Event()
    closing = writer(partial(endless, begun))
    await closing.start()
    await wait_for(begun)
    await closing.stop()
    assert not threads()
    assert not caplog.records


async def test_spare_work_that_was_asked_for_fails_and_what_is_queued_behind_it_is_done():
    begun = threading.Event()
    closing = writer()
    await closing.start()
    spare = closing.submit_spare(partial(endless, begun))
    await wait_for(begun)
    queued, late = closing.submit(lambda _: "done"), closing.submit_spare(lambda _: "done")
    await closing.stop()
    assert await queued == "done"
    for failed in (spare, late):
        with pytest.raises(StoreError):
            await failed
    assert not threads()


async def test_spare_work_that_cannot_be_interrupted_is_not_waited_for_unless_something_is_queued():
    begun, go_on = threading.Event(), threading.Event()

    def long(_: sqlite3.Connection) -> bool:
        begun.set()
        return not go_on.wait(120)

    closing = writer(long)
    await closing.start()
    await wait_for(begun)
    await closing.stop()
    assert threads()
    go_on.set()
    await closing.stop()
    assert not threads()


async def cancelled(closing: Awaitable[None], begun: Callable[[], bool]) -> None:
    """Cancel a call of `close` once it has begun to wait for the busy thread."""
    task = asyncio.ensure_future(closing)
    await asyncio.sleep(0)
    while not begun():
        await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("what", ["store", "context"])
async def test_closing_again_after_a_cancelled_call_gives_up_the_claims_though_the_thread_is_busy(
    what: str, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("summarizing_context.stores.relational.writer._LONGEST_END", 0.05)
    claimed, begun, go_on = threading.Event(), threading.Event(), threading.Event()

    def long(_: sqlite3.Connection) -> bool:
        if claimed.wait(0.001):
            begun.set()
            go_on.wait(120)
        return True

    engine = Spending(long, path)
    store = SqliteStore(path, engine=engine)
    await store.open()
    async with open_context(Settings(session_id="s"), store=store) as context:
        claimed.set()
        await wait_for(begun)
        close = store.close if what == "store" else context.close
        await cancelled(close(), lambda: engine.writer.is_stopping)
        await close()
        assert not locks(path)
        async with opened(path, "s"):
            assert not go_on.is_set()
        go_on.set()
    await engine.stop()


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


def test_what_takes_long_to_index_is_left_for_later_when_a_store_is_closed():
    def say(text: str) -> StoredEntry:
        return StoredEntry(json.dumps({"role": "user", "content": text}).encode(), b"")

    def backlog() -> int:
        return int(connection.execute(SQL["backlog"]).fetchone()[0])

    connection = open_memory()
    log.open_session(connection, "s", None, 1)
    log.append(connection, "s", [say("short"), say("long " * 400_001), say("short again")])
    index_before_leaving(connection)
    assert backlog() == 2
    with transaction(connection):
        while catch_up(connection):
            pass
    assert backlog() == 0
