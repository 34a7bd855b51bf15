"""Async helpers: deferred cancellation, a worker thread, clocks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from summarizing_context.errors import ContextClosedError, SettingsError, WrongEventLoopError

Result = TypeVar("Result")
Item = TypeVar("Item")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this task. Raises `WrongEventLoopError` where it is not one of asyncio's."""
    with suppress(RuntimeError):
        if asyncio.current_task() is not None:  # trio as a guest of asyncio has its loop, and none of its tasks
            return asyncio.get_running_loop()
    raise WrongEventLoopError(
        "summarizing-context runs under asyncio only, and no asyncio task is running here (trio is not supported); "
        "run your program with asyncio.run(main()), or anyio.run(main) with the backend 'asyncio'"
    )


async def finish_despite_cancellation(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`. A cancellation is deferred until `work` ends, so `work` should be short."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and not task.cancelled():
        task.exception()  # seen
        raise cancellation
    return task.result()


async def in_turns(items: Iterable[Item], every: int = 250) -> AsyncIterator[Item]:
    """Yield the items, and let the event loop turn behind every so many."""
    for at, item in enumerate(items, 1):
        yield item
        if at % every == 0:
            await asyncio.sleep(0)


YieldNow = Callable[[int], None]  # called by work in a thread with the number of characters that it reads next


def never_yield(_: int) -> None:
    """Do not yield."""


class WorkerThread:
    """Runs one piece of work after another. The thread starts with the first piece and ends with `close`.

    Work must call `yield_now` throughout.
    """

    def __init__(self, name: str, yield_now: YieldNow = never_yield) -> None:
        self.yield_now = yield_now
        self._threads: list[threading.Thread] = []  # the one that has begun
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix=name, initializer=lambda: self._threads.append(threading.current_thread())
        )

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`. After a cancellation the thread still finishes a piece that has begun."""
        if self._pool is None:
            raise ContextClosedError("the context was closed meanwhile; open it again")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except asyncio.CancelledError:
            if self._pool is None and (task := asyncio.current_task()) and not task.cancelling():  # `close` dropped it
                raise ContextClosedError("the context was closed meanwhile; open it again") from None
            raise

    async def close(self) -> None:
        """Drop waiting pieces and end the thread. A long piece ends by itself. May be called twice."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            with anyio.move_on_after(0.4):  # seconds
                while any(thread.is_alive() for thread in self._threads):  # noqa: ASYNC110 - none tells when it ends
                    await anyio.sleep(0.001)


class Clock(Protocol):
    """A source of time that tests can replace."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""


class Events(Protocol):
    """A sink of events for observers. Handlers may not delay or break the caller."""

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Emit one event. Its data are finite JSON values, never message text."""


def choose_clock(clock: Clock | Callable[[], float] | None) -> Clock:
    """Return the clock of a session, called once to check it. Raise `SettingsError` if it gives no seconds."""
    ours: Clock = clock if hasattr(clock, "now") else SimpleNamespace(now=clock or time.monotonic)  # type: ignore[assignment]
    try:
        reading = ours.now()
    except Exception as error:
        raise SettingsError(f"clock must give seconds; tried out, it raised {type(error).__name__}") from error
    if isinstance(reading, bool) or not isinstance(reading, int | float):
        raise SettingsError(f"clock must give seconds as a number; it gave {type(reading).__name__}")
    return ours


class BlockingContext:
    """The methods and properties of a `SummarizingContext` for synchronous code, as `with open_context(...)` gives it.

    Each call runs in the event loop of a thread of its own and blocks until it is done; any thread may call.
    Raises what the method raises, and `ContextClosedError` after closing."""

    def __init__(self, target: Any, portal: BlockingPortal) -> None:
        self._target, self._portal = target, portal

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name == "memory":
            return BlockingContext(value, self._portal)
        if not callable(value):
            return value

        @wraps(value)
        def call(*args: Any, **named: Any) -> Any:
            return self._call(partial(value, *args, **named))

        return call

    def __len__(self) -> int:
        return int(self._call(self._target.__len__))

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def _call(self, work: Callable[[], Any]) -> Any:
        try:
            done = self._portal.start_task_soon(work)
        except RuntimeError as error:  # the portal has stopped
            raise ContextClosedError(f"the context is closed, or called from its own thread ({error})") from None
        return done.result()


@contextmanager
def blocking(opening: AbstractAsyncContextManager[Any]) -> Iterator[BlockingContext]:
    """Open a context in the event loop of a new thread, and close both at the end."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise WrongEventLoopError("an event loop runs in this thread; write `async with open_context(...) as context:`")
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as context:
        yield BlockingContext(context, portal)
