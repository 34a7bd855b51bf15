"""The store's one thread, which owns the connection and commits all that is queued in one transaction.

What the operations do is the store's matter. Results and callbacks are handed back to the event loop, one call
for each batch, in the order in which the operations were submitted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreLockedError, WrongEventLoopError
from summarizing_context.stores.relational.database import Connection, Work

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

LARGEST_BATCH = 1_000  # operations; their callbacks run in one go on the event loop

_MOST_TRIES = 4  # of the same work, where what stopped it may pass


@dataclass(slots=True)
class _Operation:
    work: Work[Any]
    done: asyncio.Future[Any]
    committed: Callable[[], None] | None
    alone: bool  # opens its own transaction, or none
    reads: bool = False  # and writes nothing, so that a process that has locked the file does not hold it up
    result: Any = None
    error: Exception | None = None

    def attempt(self, connection: Connection) -> None:
        self.error, self.result = None, self.work(connection)

    def settle(self) -> None:
        """On the event loop: the callback first, then the callers that still wait."""
        if self.error is None and self.committed is not None:
            try:
                self.committed()
            except Exception as error:  # the caller's own fault goes to the caller, and spoils nothing for the others
                self.error = error
                if self.done.done():
                    notice = {"message": "a store callback failed and nobody waits for it", "exception": error}
                    self.done.get_loop().call_exception_handler(notice)
        if self.done.done():  # nobody waits any longer: the task was cancelled
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.result)


class Writer:
    """Runs operations on the connection of an engine, in a thread."""

    def __init__(self, name: str, engine: Engine) -> None:
        self._name = name
        self._engine = engine
        self._gone: Exception | None = None
        self._beats_at: float | None = 0.0  # by the monotonic clock
        self._queue: SimpleQueue[_Operation | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stopping = False

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping

    @property
    def has_lost_its_file(self) -> bool:
        """Whether what it writes to is gone: then all fails."""
        return self._gone is not None

    async def start(self) -> None:
        """Begin the thread and wait until the connection is there."""
        if self._loop is not None or self._stopping:
            raise StoreError(f"{self._name}: the store was opened before; make a new one")
        self._loop = running_loop()
        self._opened, self._ended = self._loop.create_future(), self._loop.create_future()
        self._thread.start()
        try:
            await self._opened
        except asyncio.CancelledError:
            self._ask_to_stop()
            raise
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
        """Queue an operation now. Cancelling the future withdraws nothing: it only stops the waiting."""
        done: asyncio.Future[Result] = self.check_open().create_future()
        self._queue.put(_Operation(work, done, committed, alone, reads))
        return done

    def check_open(self) -> asyncio.AbstractEventLoop:
        """Raise unless operations may be submitted, here and now; else the loop they are handed back to."""
        if self._stopping or self._loop is None:
            raise StoreError(f"{self._name}: the store is {'closed' if self._stopping else 'not open yet'}")
        self.check_loop()
        return self._loop

    async def stop(self) -> None:
        """Finish what is queued and end the thread; any number of times."""
        self._ask_to_stop()
        if self._ended is not None:
            self.check_loop()
            await asyncio.shield(self._ended)
            self._thread.join()

    def _ask_to_stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` in another event loop than that in which it was started."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self._loop is not None and running is not self._loop:
            raise WrongEventLoopError(
                f"{self._name}: the store belongs to the event loop in which it was opened; "
                "call it from there, or open another one"
            )

    # What follows runs in the thread.

    def _run(self) -> None:
        assert self._opened is not None
        assert self._ended is not None
        try:
            connection = self._engine.open()
        except Exception as error:
            self._tell(_settle_future, self._opened, self._engine.translate(error))
        else:
            self._tell(_settle_future, self._opened, None)
            while self._perform_next(connection):
                pass
            with suppress(Exception):  # all that was acknowledged is in the file
                self._engine.close(connection)
        self._tell(_settle_future, self._ended, None)

    def _perform_next(self, connection: Connection) -> bool:
        """Perform all that is queued, at least one operation or the end; False when no more will come."""
        batch: list[_Operation] = []
        operation = self._wait(connection)
        with suppress(Empty):
            while operation is not None:
                batch.append(operation)
                if len(batch) == LARGEST_BATCH:
                    break
                operation = self._queue.get_nowait()
        for alone, run in groupby(batch, key=lambda operation: operation.alone):
            if not alone:
                operations = list(run)
                self._perform_together(connection, operations)
                self._acknowledge(operations)
                continue
            locked: Exception | None = None
            for operation_alone in run:
                if locked is None or operation_alone.reads:
                    self._perform_alone(connection, operation_alone)
                    locked = operation_alone.error if isinstance(operation_alone.error, StoreLockedError) else None
                else:  # it would have to wait as long as the one before did
                    operation_alone.error = locked
                self._acknowledge([operation_alone])
        self._engine.flush(connection)
        return operation is not None

    def _wait(self, connection: Connection) -> _Operation | None:
        """The next operation, or None for the end; until one comes, what has to be renewed is renewed."""
        while True:
            wait = None if self._beats_at is None else max(0.0, self._beats_at - time.monotonic())
            with suppress(Empty):
                return self._queue.get(timeout=wait)
            try:
                delay = self._engine.beat(connection)
            except Exception as error:
                self._undo(connection)
                logger.warning("a store's lease was not renewed", extra={"cause": type(error).__name__})
                delay = 1.0
            self._beats_at = None if delay is None else time.monotonic() + delay

    def _perform_together(self, connection: Connection, operations: Sequence[_Operation], tries: int = 1) -> None:
        if self._gone:
            return
        try:
            connection.begin_work()
        except Exception as error:  # locked, or out of reach: each would have to wait as long as this one did
            for operation in operations:
                operation.error = self._engine.translate(error)
            return
        try:
            for operation in operations:
                operation.attempt(connection)
            connection.commit_work()
        except Exception as error:
            self._undo(connection)
            if tries < _MOST_TRIES and connection.may_pass(error):
                self._perform_together(connection, operations, tries + 1)
            elif len(operations) == 1:
                operations[0].error = self._engine.translate(error)
            else:
                for operation in operations:
                    self._perform_together(connection, [operation])

    def _perform_alone(self, connection: Connection, operation: _Operation, tries: int = 1) -> None:
        if self._gone:
            return
        try:
            operation.attempt(connection)
        except Exception as error:
            self._undo(connection)
            if tries < _MOST_TRIES and connection.may_pass(error):
                self._perform_alone(connection, operation, tries + 1)
            else:
                operation.error = self._engine.translate(error)

    def _undo(self, connection: Connection) -> None:
        with suppress(Exception):  # the first error is the one to tell
            connection.undo_work()

    def _acknowledge(self, operations: Sequence[_Operation]) -> None:
        self._gone = self._gone or self._engine.gone()
        for operation in operations if self._gone else ():
            operation.error = self._gone
        self._tell(_settle_all, operations)

    def _tell(self, receiver: Callable[..., None], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(receiver, *values)


class Engine:
    """One writer for any number of stores, and what a database does for it.

    It starts with the first store and ends with the last; then a new one is needed.
    """

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name = name
        self.read_only = read_only
        self.stores: list[object] = []  # that are open
        self.writer = Writer(name, self)
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether another store may join."""
        starting = self._starting
        failed = starting is not None and starting.done() and (starting.cancelled() or starting.exception() is not None)
        return not (failed or self.writer.is_stopping or self.writer.has_lost_its_file)

    async def started(self) -> None:
        """Wait until the connection is there."""
        if self._starting is None:
            self._starting = asyncio.create_task(self.writer.start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """End the thread; any number of times."""
        await self.writer.stop()
        if self._starting is not None:
            await asyncio.wait([self._starting])
            if not self._starting.cancelled():
                self._starting.exception()  # told already to those that waited

    # What follows is called by the writer, in its thread.

    def open(self) -> Any:
        """A `Connection`."""
        raise NotImplementedError

    def close(self, connection: Any) -> None:
        """Give up what the stores hold, and end the connection."""
        raise NotImplementedError

    def translate(self, error: Exception) -> Exception:
        """The error to raise in place of one of the database."""
        raise NotImplementedError

    def gone(self) -> Exception | None:
        """The error of all that follows, once what is written to is gone. A server that is gone may come back."""
        return None

    def flush(self, connection: Any) -> None:
        """Have what was committed on the disk."""

    def beat(self, connection: Any) -> float | None:
        """Renew what has to be renewed; seconds until the next time, None for never."""
        return None


def _settle_all(operations: Sequence[_Operation]) -> None:
    for operation in operations:
        operation.settle()


def _settle_future(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
