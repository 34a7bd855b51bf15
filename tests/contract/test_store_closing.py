"""Closing a store: what is queued is finished, what is done in spare time is not waited for."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from functools import partial

import anyio.lowlevel
import pytest

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.writer import Writer
from summarizing_context.stores.sqlite.engine import SqliteEngine, open_memory
from summarizing_context.stores.sqlite.schema import SQL, transaction
from summarizing_context.stores.sqlite.search import catch_up, index_before_leaving
from tests.contract.store_builders import opened

pytestmark = pytest.mark.anyio
NAME = "closing"


class Spending(SqliteEngine):
    """Spends its spare time on what it is given."""

    def __init__(self, spare: Callable[[sqlite3.Connection], bool] | None) -> None:
        self._spare = spare
        super().__init__(":memory:")

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
