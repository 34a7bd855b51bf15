"""What a database gives its stores: queries by name, and one thread with one connection, which commits all that is
queued in one transaction. Results and callbacks come back to the event loop in the order of the submissions."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby
from typing import Any, Protocol, TypeVar

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreError, StoreVersionError, SummarizingContextError, WrongEventLoopError

Values = Mapping[str, Any] | Sequence[Any]
Result = TypeVar("Result")
Work = Callable[[Any], Result]  # on a `Connection`

VERSION = 1  # of the schema; one version of the package reads and writes one of the schema


class Connection(Protocol):
    """A connection with queries by name. It begins and ends no transaction by itself."""

    def run(self, query: str, /, **values: Any) -> Any: ...

    def run_many(self, query: str, rows: Iterable[Values]) -> object: ...

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> object:
        """Index the words of texts by the numbers that they have in the index."""

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction that writes; at its end, what was written is durable."""

    def undo_work(self) -> object:
        """Undo the open transaction, if there is one."""


@dataclass(slots=True)
class _Operation:
    work: Work[Any]
    done: asyncio.Future[Any]
    committed: Callable[[], None] | None
    alone: bool  # opens its own transactions, or none
    result: Any = None
    error: Exception | None = None

    def settle(self) -> None:
        """On the event loop: the callback first, then the caller, if it still waits."""
        if self.error is None and self.committed is not None:
            try:
                self.committed()
            except Exception as error:  # the caller's own fault goes to the caller, and spoils nothing for the others
                if self.done.done():
                    raise  # to the event loop, which reports it
                self.error = error
        if not self.done.done():  # else it was cancelled
            if self.error is not None:
                self.done.set_exception(self.error)
            else:
                self.done.set_result(self.result)


class Engine:
    """The thread and the connection of any number of stores. It starts with the first and ends with the last of them;
    then a new one is needed. A database says how it is opened and closed, and what its errors mean."""

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name, self.read_only = name, read_only
        self.stores: list[object] = []  # that are open
        self.is_stopping = False
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"store {name}")
        self._queue: deque[_Operation] = deque()
        self._is_awake = False  # the thread is about to look into the queue
        self._connection: Any = None
        self._gone: Exception | None = None  # the error of all that follows
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[None]

    @property
    def is_usable(self) -> bool:
        return not (self.is_stopping or self._gone or self.gone())

    async def start(self) -> None:
        """Begin the thread, unless another store has, and wait until the connection is there."""
        if self._loop is None:
            loop = running_loop()
            try:
                self._opening = loop.run_in_executor(self.thread, self._open)
            except RuntimeError as error:  # there are too many threads
                raise StoreError(f"{self.name}: no thread could be started for the store; try again") from error
            self._loop = loop
        await asyncio.shield(self._opening)

    def submit(
        self, work: Work[Result], *, committed: Callable[[], None] | None = None, alone: bool = False
    ) -> asyncio.Future[Result]:
        """Queue an operation now. Cancelling the future withdraws nothing: it only stops the waiting."""
        self.check_loop()
        if self._loop is None or self.is_stopping:
            raise StoreError(f"{self.name}: the store is closed")
        done: asyncio.Future[Result] = self._loop.create_future()
        self._queue.append(_Operation(work, done, committed, alone))
        if not self._is_awake:
            self._is_awake = True
            self.thread.submit(self._work_off)
        return done

    async def stop(self) -> None:
        """Finish what is queued and end the thread."""
        self.is_stopping = True
        if self._loop is not None:
            await asyncio.shield(self._loop.run_in_executor(self.thread, self._close))
            self.thread.shutdown()
            self._opening.exception()  # raised already to those that waited

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` in another event loop than that in which it was started."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self._loop is not None and running is not self._loop:
            raise WrongEventLoopError(
                f"{self.name}: the store belongs to the event loop in which it was opened; "
                "call it from there, or open another one"
            )

    # What a database does in its own way, in the thread.

    def open(self) -> Any:
        """Return a `Connection`."""
        raise NotImplementedError

    def close(self, connection: Any) -> None:
        """Give up what the stores hold, and end the connection."""
        raise NotImplementedError

    def fault(self, error: Exception) -> StoreError | None:
        """Return the error to raise in place of one of the database; None for one of another kind."""
        raise NotImplementedError

    def may_pass(self, error: Exception) -> bool:
        """Return whether the same work may succeed if it is tried again at once."""
        return False

    def gone(self) -> Exception | None:
        """Return the error of all that follows, once what is written to is gone. A server may come back."""
        return None

    # The thread.

    def _open(self) -> None:
        try:
            self._connection = self.open()
        except Exception as error:
            self._gone = fault = self._translated(error)
            raise fault from fault.__cause__

    def _close(self) -> None:
        with suppress(Exception):  # all that was acknowledged is in the file
            if self._connection is not None:
                self.close(self._connection)

    def _translated(self, error: BaseException) -> Exception:
        """Return the error to raise in place of `error`. The values of a query do not get into it."""
        if isinstance(error, SummarizingContextError):
            return error
        if isinstance(error, UnicodeError):  # no cause: it carries the whole text that could not be written
            return StoreError(
                f"{self.name}: a name given to the store is not valid Unicode; leave lone surrogates out of it"
            )
        kind = type(error).__name__
        if not isinstance(error, Exception):
            return StoreError(f"{self.name}: the store was interrupted ({kind}); try again")
        return self.fault(error) or StoreError(f"{self.name}: the store cannot keep a value ({kind})")

    def _work_off(self) -> None:
        """Perform all that is queued."""
        self._is_awake = False  # what is queued from now on wakes the thread again
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        for alone, run in groupby(batch, key=lambda one: one.alone):
            for operations in [[one] for one in run] if alone else [list(run)]:
                if not self._gone:
                    self._perform(operations)
                self._gone = self._gone or self.gone()
                for one in operations:
                    one.error = self._gone or one.error
                    with suppress(RuntimeError):  # the loop is closed: no caller waits
                        one.done.get_loop().call_soon_threadsafe(one.settle)

    def _perform(self, operations: Sequence[_Operation], tries: int = 1) -> None:
        """Perform operations in one transaction, or one that is alone. Where one fails, perform each by itself."""
        connection, may_part = self._connection, False
        try:
            with nullcontext() if operations[0].alone else connection.transaction():
                may_part = len(operations) > 1
                for operation in operations:
                    operation.error, operation.result = None, operation.work(connection)
                may_part = False  # where a commit has no answer, nothing may be done twice
        except BaseException as error:  # whatever it is, each caller gets an answer
            with suppress(Exception):  # the first error is the one to raise
                connection.undo_work()
            if tries < 4 and isinstance(error, Exception) and self.may_pass(error):
                self._perform(operations, tries + 1)
            elif may_part:
                for operation in operations:
                    self._perform([operation])
            else:  # locked, or out of reach: each would have to wait as long as this one did
                for operation in operations:
                    operation.error = self._translated(error)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def readable(text: bytes) -> str:
    """Return a text as it is kept without the halves of characters that are let through: no index takes them."""
    return text.decode("utf-8", "replace")


def read_queries(package: str, *, schema: str) -> dict[str, str]:
    """Return queries by name: those that all databases share, and those of the folder `sql` of a package.

    Each begins with a line `-- name: purpose` and ends where the next begins; `schema` is the file of that name, whole.
    The argument `schema` takes the place of `store.`.
    """
    found: dict[str, str] = {}
    for folder in ("summarizing_context.stores.relational", package):
        for file in (files(folder) / "sql").iterdir():
            text = re.sub(r"\bstore\.(?=[a-z])", schema, file.read_text(encoding="utf-8"))
            if file.name == "schema.sql":
                found["schema"] = text
                continue
            _, *parts = re.split(r"^-- ([a-z_]+): .*$", text, flags=re.MULTILINE)
            for name, body in zip(parts[::2], parts[1::2], strict=True):
                found[name] = body.strip().removesuffix(";")
    return found


def check_version(version: int, name: str, instead: str) -> None:
    """Raise `StoreVersionError` for a store of another schema than that of this version of the package."""
    if version != VERSION:
        raise StoreVersionError(
            f"{name}: its schema version is {version} but this version of summarizing-context reads and writes "
            f"{VERSION} only; use the version of summarizing-context that wrote it, or {instead} was left as it is"
        )
