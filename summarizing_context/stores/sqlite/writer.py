"""The store's one thread, which owns the connection and commits all that is queued in one transaction; who may write.

What the operations do is the store's matter. Results and callbacks are handed back to the event loop, one call
for each batch, in the order in which the operations were submitted.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreReadOnlyError, WrongEventLoopError
from summarizing_context.stores.sqlite.faults import gone, translate
from summarizing_context.stores.sqlite.files import Claims, read
from summarizing_context.stores.sqlite.schema import roll_back, transaction

Result = TypeVar("Result")

Work = Callable[[sqlite3.Connection], Result]

logger = logging.getLogger(__name__)

_QUIET = 0.05  # seconds without an operation after which spare time begins

_LONGEST_END = 0.6  # seconds that stopping waits for what is done in spare time

LARGEST_BATCH = 1_000  # operations; their callbacks run in one go on the event loop


@dataclass(slots=True)
class _Operation:
    work: Work[Any]
    done: asyncio.Future[Any]
    committed: Callable[[], None] | None
    alone: bool  # opens its own transaction, or none
    may_be_undone: bool  # when the store is closed
    result: Any = None
    error: Exception | None = None

    def attempt(self, connection: sqlite3.Connection) -> None:
        self.error, self.result = None, self.work(connection)

    def settle(self) -> None:
        """On the event loop: the callback first, then whoever still waits."""
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
    """Runs operations on a connection that `opening` makes and `closing` ends, both in the thread.

    `is_gone` is asked after each batch, before it is acknowledged: once what it is written to is gone, all fails.
    While nothing is queued, `spare` is called until it says that there is no more to do, and again after each batch;
    not while `gives_way` says that other work comes first.
    """

    def __init__(
        self,
        name: str,
        opening: Callable[[], sqlite3.Connection],
        closing: Callable[[sqlite3.Connection], None],
        *,
        is_gone: Callable[[], bool],
        spare: Callable[[sqlite3.Connection], bool] | None = None,
        gives_way: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._is_gone, self._gone = is_gone, False
        self._opening, self._closing, self._spare, self._gives_way = opening, closing, spare, gives_way
        self._has_spare = spare is not None
        self._queue: SimpleQueue[_Operation | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"store {name}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stopping = False
        self._due = 0  # operations on their way that must be done, also when the thread is to stop
        self._spending = threading.Lock()  # held while spare time begins, ends or is cut short
        self._in_spare: sqlite3.Connection | None = None  # what is worked on in spare time

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
        self, work: Work[Result], *, committed: Callable[[], None] | None = None, alone: bool = False
    ) -> asyncio.Future[Result]:
        """Queue an operation now. Cancelling the future withdraws nothing: it only stops the waiting."""
        done: asyncio.Future[Result] = self.check_open().create_future()
        self._due += 1
        self._queue.put(_Operation(work, done, committed, alone, may_be_undone=False))
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
            connection = self._opening()
        except Exception as error:
            self._tell(_settle_future, self._opened, translate(error, self._name))
        else:
            self._tell(_settle_future, self._opened, None)
            while self._perform_next(connection):
                pass
            with suppress(Exception):  # all that was acknowledged is in the file
                self._closing(connection)
        self._tell(_settle_future, self._ended, None)

    def _perform_next(self, connection: sqlite3.Connection) -> bool:
        batch, is_last = self._take(connection)
        for alone, run in groupby(batch, key=lambda operation: operation.alone):
            if not alone:
                operations = list(run)
                self._perform_together(connection, operations)
                self._acknowledge(operations)
                continue
            for operation in run:
                self._perform_alone(connection, operation)
                self._acknowledge([operation])
        return not is_last

    def _acknowledge(self, operations: Sequence[_Operation]) -> None:
        self._gone = self._gone or self._is_gone()
        for operation in operations if self._gone else ():
            operation.error = gone(self._name)
        self._tell(self._settle, operations)

    def _wait(self, connection: sqlite3.Connection) -> _Operation | None:
        """The next operation, or None for the end; until one comes, the time is used."""
        quiet = _QUIET
        while self._has_spare and self._spare is not None:
            try:
                return self._queue.get(timeout=quiet)
            except Empty:
                if self._gives_way():
                    quiet = _QUIET
                else:
                    quiet, self._has_spare = 0.0, self._use_time(self._spare, connection)
        return self._queue.get()

    def _use_time(self, spare: Callable[[sqlite3.Connection], bool], connection: sqlite3.Connection) -> bool:
        try:
            with self._in_spare_time(connection):
                return spare(connection)
        except Exception as error:  # tried again after the next batch; nobody waits for it
            self._undo(connection)
            if not self._stopping:
                logger.warning("work in spare time failed", extra={"store": self._name, "cause": type(error).__name__})
            return False

    @contextmanager
    def _in_spare_time(self, connection: sqlite3.Connection) -> Iterator[None]:
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

    def _take(self, connection: sqlite3.Connection) -> tuple[list[_Operation], bool]:
        """All that is queued, at least one operation or the end; True when no more will come."""
        batch: list[_Operation] = []
        operation = self._wait(connection)
        self._has_spare = self._spare is not None
        try:
            while operation is not None:
                batch.append(operation)
                if len(batch) == LARGEST_BATCH:
                    return batch, False
                operation = self._queue.get_nowait()
        except Empty:
            return batch, False
        return batch, True

    def _perform_together(self, connection: sqlite3.Connection, operations: Sequence[_Operation]) -> None:
        if self._gone:
            return
        try:
            connection.execute("begin immediate")
        except sqlite3.Error as error:  # locked: each would have to wait as long as this one did
            for operation in operations:
                operation.error = translate(error, self._name)
            return
        try:
            for operation in operations:
                operation.attempt(connection)
            connection.execute("commit")
        except Exception as error:
            self._undo(connection)
            if len(operations) == 1:
                operations[0].error = translate(error, self._name)
                return
            for operation in operations:
                self._perform_together(connection, [operation])

    def _perform_alone(self, connection: sqlite3.Connection, operation: _Operation) -> None:
        if self._gone:
            return
        try:
            with self._in_spare_time(connection) if operation.may_be_undone else nullcontext():
                operation.attempt(connection)
        except Exception as error:
            self._undo(connection)
            operation.error = translate(error, self._name)

    def _undo(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):  # the first error is the one to tell
            roll_back(connection)

    def _settle(self, operations: Sequence[_Operation]) -> None:
        for operation in operations:
            self._due -= not operation.may_be_undone
            operation.settle()

    def _tell(self, receiver: Callable[..., None], *values: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(receiver, *values)


def _in_transaction(work: Work[Result], connection: sqlite3.Connection) -> Result:
    with transaction(connection):
        return work(connection)


def _settle_future(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class Access:
    """What the parts of one store share."""

    def __init__(self, path: Path | None, writer: Writer, claims: Claims, *, read_only: bool, wait: float) -> None:
        self.path = path
        self.name = str(path or ":memory:")
        self.writer = writer
        self.claims = claims
        self.read_only = read_only
        self._wait = wait  # seconds for a locked file

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one state of the file."""
        return await self.writer.submit(lambda connection: self._in_one_state(connection, work), alone=True)

    async def write(
        self, session_id: str, work: Work[Result], *, committed: Callable[[], None] | None = None
    ) -> Result:
        """Run `work` for a session that this store has claimed; it is durable when this returns."""
        self.refuse_unless_claimed(session_id)
        return await self.writer.submit(work, committed=committed)

    def refuse_if_read_only(self, what: str) -> None:
        """Raise where nothing may be written."""
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")

    def refuse_unless_claimed(self, session_id: str) -> None:
        """Raise unless this store may write to the session, as long as it is open."""
        self.refuse_if_read_only("write to a session")
        if session_id not in self.claims.sessions:
            self.writer.check_open()
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

    def _in_one_state(self, connection: sqlite3.Connection, work: Work[Result]) -> Result:
        if self.read_only and self.path is not None:
            return read(self.path, self._wait, work)
        with transaction(connection, "deferred"):
            return work(connection)
