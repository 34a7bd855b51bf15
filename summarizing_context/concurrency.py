"""Helpers for asyncio: deferred cancellation, a worker thread, single flight, yielding to the foreground, clocks.

Work is counted and never timed, so that it behaves the same on machines of any speed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

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
    """What `work` returns. A cancellation is passed on only when `work` has ended, so it should end soon."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancellation = error
        except Exception:  # that of the work; told below
            break
    if cancellation is not None and not task.cancelled():
        task.exception()  # seen
        raise cancellation
    return task.result()


GiveWay = Callable[[int], None]  # told by work in a thread how many characters it is about to read


def go_on(_: int) -> None:
    """Give way to nobody."""


_LONGEST_END = 0.4  # seconds that closing waits for the piece of work that runs


class WorkerThread:
    """Runs one piece of work after another. The thread starts with the first piece and ends with `close`.

    `give_way` is what its work has to call all along.
    """

    def __init__(self, name: str, give_way: GiveWay = go_on) -> None:
        self.give_way = give_way
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._pieces: set[Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns. When cancelled, the thread only finishes the piece that it is at."""
        if self._closed:
            raise ContextClosedError("the context was closed meanwhile; open it again")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        piece = self._thread.submit(work)
        self._pieces.add(piece)
        piece.add_done_callback(self._pieces.discard)
        async with current_default_thread_limiter():  # it counts as a thread of the loop, for who watches these
            return await asyncio.wrap_future(piece)

    async def close(self) -> None:
        """Drop the pieces that wait and end the thread; a long piece ends by itself. May be called twice."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.shutdown(wait=False, cancel_futures=True)
        if running := [asyncio.wrap_future(piece) for piece in list(self._pieces)]:
            await asyncio.wait(running, timeout=_LONGEST_END)
        if not self._pieces:
            thread.shutdown(wait=True)  # it has nothing left to do: this does not keep the loop waiting


@dataclass(slots=True)
class _Flight:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


_flights: dict[tuple[int, Hashable], _Flight] = {}  # by event loop and key; only those under way


@asynccontextmanager
async def single_flight(key: Hashable) -> AsyncIterator[None]:
    """Hold `key` against every other task of this event loop; they wait."""
    place = id(asyncio.get_running_loop()), key
    flight = _flights.setdefault(place, _Flight())
    flight.users += 1
    try:
        async with flight.lock:
            yield
    finally:
        flight.users -= 1
        if not flight.users:
            _flights.pop(place, None)


_NAP = 0.0002  # seconds

_NAPS = 5  # at most, between two pieces of work: a host that always calls leaves the background its share

SHARE = 128  # calls served for one piece of background work, while there is always one under way


class Foreground:
    """The calls of one session. All methods belong to its event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._served = 0
        self._gap = anyio.Event()
        self._asking = anyio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way. Any thread may ask."""
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

    def give_way(self) -> None:
        """Nap while a call is under way, not for ever. A background thread does it between small pieces of work:
        another thread that computes would give each step of the call its turn only after milliseconds."""
        for _ in range(_NAPS):
            if not self._under_way:
                return
            time.sleep(_NAP)

    async def wait_gap(self) -> None:
        """Wait until one more piece of background work may begin: no call is under way, or `SHARE` have been served.

        Pieces that wait get a gap each, in order, so that nothing waits for ever.
        """
        async with self._asking:
            if self._under_way:
                await self._gap.wait()


STEP = 4_000  # characters that a background thread reads in one go, which takes about a millisecond


class Steps:
    """The steps of one background thread: it gives way to the calls of a session after each."""

    def __init__(self, foreground: Foreground) -> None:
        self._foreground = foreground
        self._left = 0

    def give_way(self, characters: int) -> None:
        """Begin a new step if the present one is over; so many characters will be read."""
        if self._left <= 0:
            self._foreground.give_way()
            self._left = STEP
        self._left -= characters


Made = TypeVar("Made")

SLICE = 256  # messages read, or shown as they are

MOST_APART = 200  # pieces of work of a decision that are done in threads


class Pause(Exception):
    """A decision has to be made again: after a turn of the event loop, or after `work`, which any thread may do."""

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        super().__init__("a decision pauses")
        self.work = work


class Pace:
    """What the decisions of one session have done so far. Pauses only within `slice`."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._decisions = 0  # one within another
        self._may_pause = False
        self._spent = 0
        self._apart = 0  # pieces of work that were done in threads

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Keep what is worked out until the outermost of these ends."""
        self._decisions += 1
        try:
            yield
        finally:
            self._decisions -= 1
            if not self._decisions:
                self._kept, self._apart = {}, 0

    @contextmanager
    def slice(self) -> Iterator[None]:
        """One attempt at a decision that may pause."""
        self._may_pause, self._spent = True, 0
        try:
            yield
        finally:
            self._may_pause = False

    def spend(self, work: int = 1) -> None:
        """Note work whose result is kept; pause if it was enough for a slice."""
        self._spent += work
        if self._may_pause and self._spent > SLICE:
            raise Pause

    def once(self, name: Hashable, make: Callable[[], Made], work: int = 0) -> Made:
        """What `make` gives, worked out once in a decision. The name tells all that it depends on."""
        if name not in self._kept:
            made = make()
            if not self._decisions:
                return made
            self._kept[name] = made
            self.spend(work)
        found: Made = self._kept[name]
        return found

    def once_apart(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """The same for what takes long and may be done in any thread."""
        kept = self._kept
        if name not in kept:
            self.apart(lambda: kept.update({name: make()}))
        return self.once(name, make)

    def apart(self, work: Callable[[], object]) -> None:
        """Do work that takes long and may be done in any thread, or pause for it. That it is done has to be seen from
        what it leaves behind; a decision that asks too often gets it done at once."""
        if self._may_pause and self._apart < MOST_APART:
            self._apart += 1
            raise Pause(work)
        work()


class Clock(Protocol):
    """Where time comes from, so that tests can turn it."""

    def now(self) -> float:
        """Seconds, never going back."""


class Events(Protocol):
    """Where notices for observers go. Handlers may not delay or break the caller."""

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Hand one event over; finite JSON values, never message text."""


class MonotonicClock:
    """The machine's clock that never goes back."""

    def now(self) -> float:
        return time.monotonic()


class CalledClock:
    """A function as a clock."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.now = read


def choose_clock(clock: Clock | Callable[[], float] | None) -> Clock:
    """The session's clock, tried out; `SettingsError` for one that gives no seconds."""
    if clock is None:
        return MonotonicClock()
    ours: Clock = clock if hasattr(clock, "now") else CalledClock(clock)
    try:
        told = ours.now()
    except Exception as error:
        raise SettingsError(f"clock must give seconds; tried out, it raised {type(error).__name__}") from error
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise SettingsError(f"clock must give seconds as a number; it gave {type(told).__name__}")
    return ours
