"""The store's one thread, which owns the connection and commits all that is queued in one transaction.

What the operations do is the store's matter. Results and callbacks are handed back to the event loop, one call
for each batch, in the order in which the operations were submitted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreLockedError, WrongEventLoopError
from summarizing_context.stores.relational.database import Connection, Work

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_QUIET = 0.05  # seconds without an operation after which spare time begins

_LONGEST_END = 0.6  # seconds that stopping waits for what is done in spare time

LARGEST_BATCH = 1_000  # operations; their callbacks run in one go on the event loop

_MOST_TRIES = 4  # of the same work, where what stopped it may pass


@dataclass(slots=True)
class _Operation:
    work: Work[Any]
    done: asyncio.Future[Any]
    committed: Callable[[], None] | None
    alone: bool  # opens its own transaction, or none
    may_be_undone: bool  # when the store is closed
    reads: bool = False  # and writes nothing, so that a process that has locked the file does not hold it up
    result: Any = None
    error: Exception | None = None

    def attempt(self, connection: Connection) -> None:
        self.error, self.result = None, self.work(connection)

    def settle(self) -> None:
        """On the event loop: the callback first, then the callers that still wait."""
        if self.error is None and self.committed is not None:
            self._call_back(self.committed)
        if self.done.done():  # nobody waits any longer: the task was cancelled
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.result)

    def _call_back(self, committed: Callable[[], None]) -> None:
        try:
            committed()
        except Exception as error:  # the caller's own fault goes to the caller, and spoils nothing for the others
            self.error = error
            if self.done.done():
                notice = {"message": "a store callback failed and nobody waits for it", "exception": error}
                self.done.get_loop().call_exception_handler(notice)


class Writer:
    """Runs operations on the connection of an engine, in a thread.

    While nothing is queued, spare time is spent until there is no more to do, and again after each batch.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        self._name = name
        self._engine = engine
        self._gone: Exception | None = None
        self._has_spare = engine.has_spare()
        self._beats_at: float | None = 0.0  # by the monotonic clock
        self._queue: SimpleQueue[_Operation | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stopping = False
        self._due = 0  # operations on their way that must be done, also when the thread is to stop
        self._spending = threading.Lock()  # held while spare time begins, ends or is cut short
        self._in_spare: Connection | None = None  # what is worked on in spare time

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
        self._due += 1
        self._queue.put(_Operation(work, done, committed, alone, may_be_undone=False, reads=reads))
        return done

    def submit_spare(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue work of spare time, in a transaction of its own. It fails where the store is closed meanwhile."""
        done: asyncio.Future[Result] = self.check_open().create_future()
        self._queue.put(_Operation(partial(_in_transaction, work), done, None, alone=True, may_be_undone=True))
        return done

    def check_open(self) -> asyncio.AbstractEventLoop:
        """Raise unless operations may be submitted, here and now; else the loop they are handed back to."""
        if self._stopping or self._loop is None:
            raise StoreError(f"{self._name}: the store is {'closed' if self._stopping else 'not open yet'}")
        self._check_loop(self._loop)
        return self._loop

    async def stop(self) -> None:
        """Finish what is queued and end the thread; any number of times. Work of spare time is undone; where only that
        is left and takes long, the thread ends by itself."""
        self._ask_to_stop()
        if self._loop is None or self._ended is None:
            return
        self._check_loop(self._loop)
        await asyncio.wait([self._ended], timeout=_LONGEST_END)
        if self._in_spare is not None and not self._due:
            return
        await asyncio.shield(self._ended)
        self._thread.join()

    def _ask_to_stop(self) -> None:
        if not self._stopping:
            with self._spending:
                self._stopping = True
                if self._in_spare is not None:
                    self._in_spare.interrupt()
            self._queue.put(None)

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` in another event loop than that in which it was started."""
        if self._loop is not None:
            self._check_loop(self._loop)

    def _check_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not loop:
            raise WrongEventLoopError(
                f"{self._name}: the store belongs to the event loop in which it was opened; "
                "call it from there, or open another one"
            )

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
        batch, is_last = self._take(connection)
        for alone, run in groupby(batch, key=lambda operation: operation.alone):
            if not alone:
                operations = list(run)
                self._perform_together(connection, operations)
                self._acknowledge(operations)
                continue
            locked: Exception | None = None
            for operation in run:
                if locked is None or operation.reads:
                    self._perform_alone(connection, operation)
                    locked = operation.error if isinstance(operation.error, StoreLockedError) else None
                else:  # it would have to wait as long as the one before did
                    operation.error = locked
                self._acknowledge([operation])
        self._engine.flush(connection)
        return not is_last

    def _acknowledge(self, operations: Sequence[_Operation]) -> None:
        self._gone = self._gone or self._engine.gone()
        for operation in operations if self._gone else ():
            operation.error = self._gone
        self._tell(self._settle, operations)

    def _wait(self, connection: Connection) -> _Operation | None:
        """The next operation, or None for the end; until one comes, the time is used."""
        quiet = _QUIET
        while True:
            waits = [quiet] if self._has_spare else []
            if self._beats_at is not None:
                waits.append(max(0.0, self._beats_at - time.monotonic()))
            with suppress(Empty):
                return self._queue.get(timeout=min(waits, default=None))
            if self._beats_at is not None and time.monotonic() >= self._beats_at:
                self._beat(connection)
            elif self._engine.gives_way():
                quiet = _QUIET
            else:
                quiet, self._has_spare = 0.0, self._use_time(connection)

    def _beat(self, connection: Connection) -> None:
        delay: float | None = _QUIET
        try:
            delay = self._engine.beat(connection)
        except Exception as error:
            self._undo(connection)
            logger.warning("a store's lease was not renewed", extra={"cause": type(error).__name__})
            delay = 1.0
        self._beats_at = None if delay is None else time.monotonic() + delay

    def _use_time(self, connection: Connection) -> bool:
        try:
            with self._in_spare_time(connection):
                return self._engine.spend(connection)
        except Exception as error:  # tried again after the next batch; nobody waits for it
            self._undo(connection)
            if not self._stopping:
                logger.warning("work in spare time failed", extra={"store": self._name, "cause": type(error).__name__})
            return False

    @contextmanager
    def _in_spare_time(self, connection: Connection) -> Iterator[None]:
        """What is done within is cut short, or not begun, when the thread is to stop."""
        with self._spending:
            if self._stopping:
                raise StoreError(f"{self._name}: the store was closed meanwhile; open it again")
            self._in_spare = connection
        try:
            yield
        finally:
            with self._spending:
                self._in_spare = None

    def _take(self, connection: Connection) -> tuple[list[_Operation], bool]:
        """All that is queued, at least one operation or the end; True when no more will come."""
        batch: list[_Operation] = []
        operation = self._wait(connection)
        self._has_spare = self._engine.has_spare()
        try:
            while operation is not None:
                batch.append(operation)
                if len(batch) == LARGEST_BATCH:
                    return batch, False
                operation = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

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
            with self._in_spare_time(connection) if operation.may_be_undone else nullcontext():
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

    def _settle(self, operations: Sequence[_Operation]) -> None:
        for operation in operations:
            self._due -= not operation.may_be_undone
            operation.settle()

    def _tell(self, receiver: Callable[..., None], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(receiver, *values)


class _Store(Protocol):
    gives_way: Callable[[], bool]


class Engine:
    """One writer for any number of stores, and what a database does for it.

    It starts with the first store and ends with the last; then a new one is needed.
    """

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name = name
        self.read_only = read_only
        self.stores: list[_Store] = []  # that are open
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

    # What follows is called by the writer, all but `gives_way` in its thread.

    def open(self) -> Any:
        """A `Connection`."""
        raise NotImplementedError

    def close(self, connection: Any) -> None:
        """Give up what the stores hold, and end the connection."""
        raise NotImplementedError

    def translate(self, error: Exception) -> Exception:
        """The error to raise in place of one of the database."""
        raise NotImplementedError

    def spend(self, connection: Any) -> bool:
        """Index a slice; whether there is more."""
        raise NotImplementedError

    def gone(self) -> Exception | None:
        """The error of all that follows, once what is written to is gone. A server that is gone may come back."""
        return None

    def flush(self, connection: Any) -> None:
        """Have what was committed on the disk."""

    def beat(self, connection: Any) -> float | None:
        """Renew what has to be renewed; seconds until the next time, None for never."""
        return None

    def has_spare(self) -> bool:
        """Whether messages may be left to index."""
        return not self.read_only

    def gives_way(self) -> bool:
        """Whether other work comes before the index."""
        return any(store.gives_way() for store in list(self.stores))


def _in_transaction(work: Work[Result], connection: Connection) -> Result:
    connection.begin_work()
    result = work(connection)
    connection.commit_work()
    return result


def _settle_future(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
