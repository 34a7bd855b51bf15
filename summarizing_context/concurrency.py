"""Async helpers: deferred cancellation, a worker thread, single flight, yielding to the foreground, pauses, clocks.

Work is counted, never timed, so behaviour does not depend on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
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


_LONGEST_END = 0.4  # seconds that closing waits for the piece of work that runs


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
            await asyncio.wait(running, timeout=_LONGEST_END)
        if not self._pieces:
            thread.shutdown(wait=True)  # no work is left, so this does not block the loop


_key_locks: WeakValueDictionary[tuple[int, Hashable], asyncio.Lock] = WeakValueDictionary()  # by event loop and key


@asynccontextmanager
async def single_flight(key: Hashable) -> AsyncIterator[None]:
    """Hold `key` for this task. Other tasks of this event loop that want it wait."""
    async with _key_locks.setdefault((id(asyncio.get_running_loop()), key), asyncio.Lock()):
        yield


_PAUSE = 0.0002  # seconds
_MOST_PAUSES = 8  # between two pieces of work, so that the background also runs under a host that always calls

_STEP = 4_000  # characters that a background thread reads between two pauses, about a millisecond

SHARE = 128  # calls for each piece of background work, while a call is always running


class Foreground:
    """The calls of one session. All methods belong to its event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._served = 0
        self._gap = anyio.Event()
        self._asking = anyio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a call is running. Safe from any thread."""
        return self._under_way > 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the host, from beginning to end."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._served += 1
            if not self._under_way or self._served % SHARE == 0:
                self._gap.set()
                self._gap = anyio.Event()

    def yield_to_calls(self) -> None:
        """Pause for a bounded time while a call is running.

        A background thread calls this between small pieces of work. Without it, each step of a call would wait
        milliseconds for the interpreter lock.
        """
        for _ in range(_MOST_PAUSES):
            if not self._under_way:
                return
            time.sleep(_PAUSE)

    def steps(self) -> YieldNow:
        """Return what one background thread calls all along: it yields to the calls after each step."""
        left = 0

        def yield_now(characters: int) -> None:
            nonlocal left
            if left <= 0:
                self.yield_to_calls()
                left = _STEP
            left -= characters

        return yield_now

    async def wait_gap(self) -> None:
        """Wait until background work may begin: no call is running, or `SHARE` calls were served.

        Each gap starts one waiting piece, in order, so every piece starts eventually.
        """
        async with self._asking:
            if self._under_way:
                await self._gap.wait()


Made = TypeVar("Made")

SLICE = 256  # units of work of one slice: messages that are read or shown
_MOST_CHANGES = 8  # of the log while a view is decided
MOST_APART = 200  # pieces of work of one decision that run in threads


class Pause(Exception):
    """Raised to restart a decision: after a turn of the event loop, or after `work` has run in any thread."""

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        super().__init__("a decision pauses")
        self.work = work


class Pace:
    """The results that the decisions of one session have computed so far. It pauses only within `slice`."""

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

    @contextmanager
    def slice(self, *, is_last: bool = False) -> Iterator[None]:
        """One attempt at a decision that may pause. The last one pauses for work in threads only."""
        self._may_pause, self._may_part, self._spent = not is_last, True, 0
        try:
            yield
        finally:
            self._may_pause = self._may_part = False

    async def run(
        self,
        decide: Callable[[], Made],
        in_thread: Callable[[Callable[[], object]], Awaitable[object]],
        log_name: Callable[[], object],
        foreground: Foreground,
    ) -> Made:
        """What is decided, in slices, so that no decision keeps the event loop for long. Of a log that others change
        all the while it is decided in one go at last, but for what threads work out."""
        changes = 0
        with self.decision(), foreground.call():
            while True:
                try:
                    with self.slice(is_last=changes > _MOST_CHANGES):
                        return decide()
                except Pause as pause:
                    name = log_name()
                    await (asyncio.sleep(0) if pause.work is None else in_thread(pause.work))
                    changes += log_name() != name

    def spend(self, work: int = 1) -> None:
        """Count work whose result is kept, and pause when the slice is used up."""
        self._spent += work
        if self._may_pause and self._spent > SLICE:
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
        kept = self._kept
        if name not in kept:
            self.apart(lambda: kept.update({name: make()}))
        return self.once(name, make)

    def apart(self, work: Callable[[], object]) -> None:
        """Pause for long work that may run in any thread, or run it here.

        The work must leave a trace of its result. After `MOST_APART` pauses of one decision it runs at once.
        """
        if self._may_part and self._apart < MOST_APART:
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


@dataclass(frozen=True, slots=True)
class _ReadClock:
    """A function as a clock."""

    now: Callable[[], float]


def choose_clock(clock: Clock | Callable[[], float] | None) -> Clock:
    """Return the clock of a session, called once to check it. Raise `SettingsError` if it gives no seconds."""
    if clock is None:
        return _ReadClock(time.monotonic)
    ours: Clock = clock if hasattr(clock, "now") else _ReadClock(clock)
    try:
        reading = ours.now()
    except Exception as error:
        raise SettingsError(f"clock must give seconds; tried out, it raised {type(error).__name__}") from error
    if isinstance(reading, bool) or not isinstance(reading, int | float):
        raise SettingsError(f"clock must give seconds as a number; it gave {type(reading).__name__}")
    return ours
