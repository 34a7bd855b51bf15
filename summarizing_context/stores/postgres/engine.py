"""One thread and one connection for all stores of a process and event loop that name the same address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from summarizing_context.concurrency import running_loop
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.driver import PostgresDriver
from summarizing_context.stores.postgres.notices import Notices
from summarizing_context.stores.relational.writer import Writer

_engines: dict[Hashable, Engine] = {}
_guard = threading.Lock()  # loops of several threads look here


class Once:
    """Work that is done once for all who ask for it. Where it failed, the next who asks begins it anew."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def wait_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin it unless that was done, and wait for its end. Raises what it raises."""
        if self._task is None:
            self._task = asyncio.create_task(work())
            self._task.add_done_callback(self._ended)
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Cut it short."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._task = None


class Engine:
    """A writer with the number of stores that use it."""

    def __init__(self, address: Address, key: Hashable, *, read_only: bool) -> None:
        self.giving_way: list[Callable[[], bool]] = []
        driver = PostgresDriver(
            address,
            read_only=read_only,
            is_leaving=lambda: self.writer.is_stopping,
            may_index=lambda: not any(gives_way() for gives_way in list(self.giving_way)),
        )
        self.writer = Writer(address.name, driver)
        self.notices = Notices(address)
        self.installing = Once()  # of the queue
        self._key = key
        self._users = 0
        self._starting: asyncio.Task[None] | None = None

    @classmethod
    def joined(cls, address: Address, gives_way: Callable[[], bool], *, read_only: bool) -> Engine:
        """The engine of this address and event loop, with one user more."""
        key = (address, read_only, id(running_loop()))
        with _guard:
            engine = _engines.get(key)
            if engine is None or engine.writer.is_stopping:
                engine = _engines[key] = cls(address, key, read_only=read_only)
            engine._users += 1
        engine.giving_way.append(gives_way)
        return engine

    async def started(self) -> None:
        """Wait until the connection is there."""
        if self._starting is None:
            self._starting = asyncio.create_task(self.writer.start())
        await asyncio.shield(self._starting)

    async def leave(self, gives_way: Callable[[], bool]) -> None:
        """One user less; the last one ends the thread."""
        self.giving_way.remove(gives_way)
        with _guard:
            self._users -= 1
            if self._users:
                return
            if _engines.get(self._key) is self:
                del _engines[self._key]
        await self.installing.stop()
        await self.notices.stop()
        await self.writer.stop()
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
            if not self._starting.cancelled():
                self._starting.exception()  # told already to who waited
