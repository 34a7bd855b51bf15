"""Async helpers: deferred cancellation, a worker thread, single flight, yielding to the foreground, pauses, clocks.

Work is counted, never timed, so behaviour does not depend on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import current_default_thread_limiter

from summarizing_context.errors import ContextClosedError, SettingsError, WrongEventLoopError

Result = TypeVar("Result")


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this task. Raises `WrongEventLoopError` where it is not one of asyncio's."""
    try:
        if asyncio.current_task() is not None:  # trio as a guest of asyncio has its loop, and none of its tasks
            return asyncio.get_running_loop()
    except RuntimeError:
        pass
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
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancellation = error
        except Exception:  # of the work; `task.result()` raises it
            break
    if cancellation is not None and not task.cancelled():
        task.exception()  # seen
        raise cancellation
    return task.result()


YieldNow = Callable[[int], None]  # called by work in a thread with the number of characters that it reads next


def never_yield(_: int) -> None:
    """Do not yield."""


class WorkerThread:
    """Runs one piece of work after another. The thread starts with the first piece and ends with `close`.

    Work must call `yield_now` throughout.
    """

    def __init__(self, name: str, yield_now: YieldNow = never_yield) -> None:
        self.yield_now = yield_now
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._pieces: set[Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`. After a cancellation the thread still finishes a piece that has begun."""
        if self._closed:
            raise ContextClosedError("the context was closed meanwhile; open it again")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        piece = self._thread.submit(work)
        self._pieces.add(piece)
        piece.add_done_callback(self._pieces.discard)
        async with current_default_thread_limiter():  # counts against the thread limit of the loop
            return await asyncio.wrap_future(piece)

    async def close(self) -> None:
        """Drop waiting pieces and end the thread. A long piece ends by itself. May be called twice."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.shutdown(wait=False, cancel_futures=True)
        if running := [asyncio.wrap_future(piece) for piece in list(self._pieces)]:
            await asyncio.wait(running, timeout=0.4)  # seconds
        if not self._pieces:
            thread.shutdown(wait=True)  # no work is left, so this does not block the loop


_key_locks: WeakValueDictionary[tuple[int, Hashable], asyncio.Lock] = WeakValueDictionary()  # by event loop and key


@asynccontextmanager
async def single_flight(key: Hashable) -> AsyncIterator[None]:
    """Hold `key` for this task. Other tasks of this event loop that want it wait."""
    async with _key_locks.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock()):
        yield


class Foreground:
    """The calls of one session. All methods belong to its event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._served = 0
        self._gap = anyio.Event()
        self._asking = anyio.Lock()

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the host, from beginning to end."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._served += 1
            if not self._under_way or self._served % 128 == 0:  # also under a host that always calls
                self._gap.set()
                self._gap = anyio.Event()

    def steps(self) -> YieldNow:
        """Return what one background thread calls all along: it pauses while a call is running.

        Without it, each step of a call would wait milliseconds for the interpreter lock. The pauses are bounded: 0.2 ms
        up to eight times, for 4,000 characters that the thread reads, about a millisecond.
        """
        left = 0

        def yield_now(characters: int) -> None:
            nonlocal left
            if left <= 0:
                for _ in range(8):
                    if self._under_way:
                        time.sleep(0.0002)
                left = 4_000
            left -= characters

        return yield_now

    async def wait_gap(self) -> None:
        """Wait until background work may begin: no call is running, or 128 calls were served.

        Each gap starts one waiting piece, in order, so every piece starts eventually.
        """
        async with self._asking:
            if self._under_way:
                await self._gap.wait()


Made = TypeVar("Made")


class Pause(Exception):
    """Raised to restart a decision: after a turn of the event loop, or after `work` has run in any thread."""

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        super().__init__("a decision pauses")
        self.work = work


class Pace:
    """The results that the decisions of one session have computed so far. It pauses only within `run`."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._decisions = 0  # one within another
        self._may_pause = False
        self._may_part = False
        self._spent = 0
        self._apart = 0  # pieces of work that were done in threads

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Keep computed results until the outermost decision ends."""
        self._decisions += 1
        try:
            yield
        finally:
            self._decisions -= 1
            if not self._decisions:
                self._kept, self._apart = {}, 0

    async def run(
        self,
        decide: Callable[[], Made],
        in_thread: Callable[[Callable[[], object]], Awaitable[object]],
        log_name: Callable[[], object],
        foreground: Foreground,
    ) -> Made:
        """Return what is decided, in slices, so that no decision keeps the event loop for long. Of a log that others
        change all the while it is decided in one go at last, but for what threads work out."""
        changes = 0
        with self.decision(), foreground.call():
            while True:
                self._may_pause, self._may_part, self._spent = changes <= 8, True, 0
                try:
                    return decide()
                except Pause as pause:
                    work = pause.work
                finally:
                    self._may_pause = self._may_part = False
                name = log_name()
                await (asyncio.sleep(0) if work is None else in_thread(work))
                changes += log_name() != name

    def spend(self, work: int = 1) -> None:
        """Count work whose result is kept, messages read or shown, and pause when a slice of 256 is used up."""
        self._spent += work
        if self._may_pause and self._spent > 256:
            raise Pause

    def once(self, name: Hashable, make: Callable[[], Made], work: int = 0) -> Made:
        """The result of `make`, computed once in a decision. The name holds all that the result depends on."""
        if name not in self._kept:
            made = make()
            if not self._decisions:
                return made
            self._kept[name] = made
            self.spend(work)
        found: Made = self._kept[name]
        return found

    def once_apart(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """The same as `once`, for long work that may run in any thread."""
        if name not in (kept := self._kept):
            self.apart(lambda: kept.update({name: make()}))
        return self.once(name, make)

    def apart(self, work: Callable[[], object]) -> None:
        """Pause for long work that may run in any thread, or run it here.

        The work must leave a trace of its result. After 200 such pauses of one decision it runs at once.
        """
        if self._may_part and self._apart < 200:
            self._apart += 1
            raise Pause(work)
        work()


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
