"""One thread and one connection for the stores of a process that name the same file.

Stores with a connection each would wait for one another as processes do, and a busy machine makes one wait too long.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError
from summarizing_context.settings.addresses import is_address
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.writer import Writer
from summarizing_context.stores.sqlite.driver import SqliteDriver
from summarizing_context.stores.sqlite.files import Claims

Result = TypeVar("Result")


class Engine:
    """A writer for any number of stores. It starts with the first and ends with the last; then a new one is needed.

    `busy_timeout` is in seconds. `max_pages` caps the file's size (pages of 4096 bytes), as a full disk would.
    With `flushes_behind` a commit is acknowledged before the disk has it, and flushed right after: a power cut in
    between loses it, the end of the process does not.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        busy_timeout: float = 5.0,
        max_pages: int | None = None,
        flushes_behind: bool = False,
    ) -> None:
        self.path = None if path == ":memory:" else Path(os.path.realpath(path))
        self.name = str(self.path or ":memory:")
        self.read_only = read_only
        self.busy_timeout = busy_timeout
        self.driver = SqliteDriver(
            self.path,
            read_only=read_only,
            busy_timeout=busy_timeout,
            max_pages=max_pages,
            gives_way=self._gives_way,
            flushes_behind=flushes_behind,
        )
        self.writer = Writer(self.name, self.driver)
        self.stores: list[EngineSeat] = []  # that are open
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether another store may join."""
        starting = self._starting
        failed = starting is not None and starting.done() and (starting.cancelled() or starting.exception() is not None)
        return not (failed or self.writer.is_stopping or self.writer.has_lost_its_file)

    async def started(self) -> None:
        """Wait until the connection is there."""
        running_loop()
        if self._starting is None:
            self._starting = asyncio.create_task(self.writer.start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """End the thread; any number of times."""
        await self.writer.stop()
        if self._starting is not None:
            await asyncio.wait([self._starting])
            if not self._starting.cancelled():
                self._starting.exception()  # told already to who waited

    def _gives_way(self) -> bool:
        return any(store.gives_way() for store in list(self.stores))


def engine_of(path: str | Path, *, flushes_behind: bool = False) -> Engine | None:
    """What the sessions of one process share of a file. None where each has its own, or the store shares by itself."""
    return None if is_address(path) or str(path) == ":memory:" else Engine(path, flushes_behind=flushes_behind)


class EngineSeat:
    """The place of one store at an engine: to the store it is a writer of its own."""

    def __init__(self, engine: Engine, claims: Claims, gives_way: Callable[[], bool]) -> None:
        self.gives_way = gives_way
        self._engine = engine
        self._claims = claims
        self._opened = self._closed = False

    async def start(self) -> None:
        """Wait until the connection is there."""
        if self._opened or self._closed:
            raise StoreError(f"{self._engine.name}: the store was opened before; make a new one")
        self._opened = True
        self._engine.stores.append(self)
        self._engine.driver.claimed.append(self._claims)
        try:
            await self._engine.started()
        except Exception:
            await self.stop()
            raise

    def submit(
        self,
        work: Work[Result],
        *,
        committed: Callable[[], None] | None = None,
        alone: bool = False,
        reads: bool = False,
    ) -> asyncio.Future[Result]:
        """Queue an operation now, as `Writer` does."""
        self.check_open()
        return self._engine.writer.submit(work, committed=committed, alone=alone, reads=reads)

    def submit_spare(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue work of spare time, as `Writer` does."""
        self.check_open()
        return self._engine.writer.submit_spare(work)

    def check_open(self) -> None:
        """Raise unless operations may be submitted, here and now."""
        if self._closed:
            raise StoreError(f"{self._engine.name}: the store is closed")
        self._engine.writer.check_open()

    async def stop(self) -> None:
        """Finish what is queued, give up the claims, and end the thread where no other store uses it."""
        engine = self._engine
        engine.writer.check_loop()
        leaves = self._opened and not self._closed
        self._closed = True
        if leaves:
            engine.stores.remove(self)
        if not engine.stores:  # the driver gives the claims up
            await engine.stop()
        elif leaves:
            with suppress(StoreError):
                await engine.writer.submit(
                    lambda connection: engine.driver.release(connection, self._claims), alone=True
                )
        if leaves:
            engine.driver.claimed.remove(self._claims)
