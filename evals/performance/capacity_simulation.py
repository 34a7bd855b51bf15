"""A fleet on one PostgreSQL server, event by event: how long an append waits, and what is busy.

Pure. A host commits what its sessions have appended, one transaction at a time. A transaction takes CPU of the host and
of the server, then waits for the log's next flush, which serves all that wait. A summary takes CPU and log beside that.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import NamedTuple


class Costs(NamedTuple):
    """What was measured. CPU in seconds, log in bytes."""

    commit: float  # CPU of the server for a transaction of appends
    append: float  # CPU of the server for each append in it
    host_commit: float  # CPU of the host
    host_append: float
    log: float  # of an append
    summary: float  # CPU of the server from request to kept summary
    summary_log: float


class Server(NamedTuple):
    """A machine for PostgreSQL alone."""

    cores: int
    flush: float  # seconds until a write of the log is on the disk
    log_rate: float = 200e6  # bytes a second
    trip: float = 0.0002  # seconds between host and server, both ways
    shared: bool = False  # the hosts take the same cores


class Load(NamedTuple):
    """What the hosts do."""

    hosts: int
    sessions: int
    pause: float  # seconds between two appends of a session, on average
    per_summary: float = 7.0  # appends for which one summary is made; 0 for none


class Outcome(NamedTuple):
    """Of the appends after the first quarter; shares are of the whole time."""

    per_second: float
    p50: float  # seconds
    p99: float
    cpu: float  # share of the server's cores
    log: float  # share of the disk's rate
    host: float  # share of a host's core


@dataclass
class _Host:
    waiting: list[float] = field(default_factory=list)  # when each append was asked for
    is_busy: bool = False


class Simulation:
    """One run of so many seconds."""

    def __init__(self, costs: Costs, server: Server, load: Load, *, seconds: float, seed: int = 1) -> None:
        self._costs, self._server, self._load, self._seconds = costs, server, load, seconds
        self._rng = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._now = 0.0
        self._hosts = [_Host() for _ in range(load.hosts)]
        self._free = server.cores
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()  # for a core: CPU seconds, and what follows
        self._unflushed: list[Callable[[], None]] = []
        self._unflushed_bytes = 0.0
        self._is_flushing = False
        self._busy = self._host_busy = self._bytes = 0.0
        self._times: list[float] = []

    def run(self) -> Outcome:
        """The whole run."""
        for number in range(self._load.sessions):
            host = self._hosts[number % self._load.hosts]
            self._at(self._pause(), partial(self._append, host))
        while self._events and self._events[0][0] < self._seconds:
            self._now, _, then = heapq.heappop(self._events)
            then()
        return self._outcome()

    def _outcome(self) -> Outcome:
        times = sorted(self._times) or [self._seconds]
        measured = self._seconds * 0.75
        return Outcome(
            per_second=len(self._times) / measured,
            p50=times[len(times) // 2],
            p99=times[min(len(times) - 1, len(times) * 99 // 100)],
            cpu=self._busy / self._seconds / self._server.cores,
            log=self._bytes / self._seconds / self._server.log_rate,
            host=self._host_busy / self._seconds / self._load.hosts,
        )

    def _at(self, delay: float, then: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._now + delay, next(self._order), then))

    def _pause(self) -> float:
        return self._rng.expovariate(1 / self._load.pause) if self._load.pause else 0.0

    def _append(self, host: _Host) -> None:
        host.waiting.append(self._now)
        self._begin(host)

    def _begin(self, host: _Host) -> None:
        if host.is_busy or not host.waiting:
            return
        batch, host.waiting, host.is_busy = host.waiting, [], True
        costs = self._costs
        own = costs.host_commit + costs.host_append * len(batch)
        self._host_busy += own
        sent: Callable[[], None] = lambda: self._at(self._server.trip, lambda: self._received(host, batch))  # noqa: E731
        if self._server.shared:
            self._compute(own, sent)
        else:
            self._at(own, sent)

    def _received(self, host: _Host, batch: list[float]) -> None:
        cpu = self._costs.commit + self._costs.append * len(batch)
        self._compute(cpu, lambda: self._log(self._costs.log * len(batch), lambda: self._committed(host, batch)))

    def _committed(self, host: _Host, batch: list[float]) -> None:
        if self._now > self._seconds / 4:
            self._times += [self._now - asked for asked in batch]
        for _ in batch:
            self._at(self._pause(), lambda: self._append(host))
            if self._load.per_summary and self._rng.random() < 1 / self._load.per_summary:
                self._compute(self._costs.summary, lambda: self._log(self._costs.summary_log, lambda: None))
        host.is_busy = False
        self._begin(host)

    def _compute(self, cpu: float, then: Callable[[], None]) -> None:
        self._queue.append((cpu, then))
        self._use_cores()

    def _use_cores(self) -> None:
        while self._free and self._queue:
            cpu, then = self._queue.popleft()
            self._free -= 1
            self._busy += cpu

            def done(then: Callable[[], None] = then) -> None:
                self._free += 1
                then()
                self._use_cores()

            self._at(cpu, done)

    def _log(self, size: float, then: Callable[[], None]) -> None:
        self._unflushed.append(then)
        self._unflushed_bytes += size
        self._bytes += size
        self._flush()

    def _flush(self) -> None:
        if self._is_flushing or not self._unflushed:
            return
        some, size = self._unflushed, self._unflushed_bytes
        self._unflushed, self._unflushed_bytes, self._is_flushing = [], 0.0, True

        def done() -> None:
            self._is_flushing = False
            for then in some:
                then()
            self._flush()

        self._at(self._server.flush + size / self._server.log_rate, done)


def simulate(costs: Costs, server: Server, load: Load, *, seconds: float = 20.0) -> Outcome:
    """What such a load does to such a server."""
    return Simulation(costs, server, load, seconds=seconds).run()


def most_sessions(costs: Costs, server: Server, load: Load, *, p99: float, share: float) -> tuple[int, Outcome]:
    """The most sessions, within a twentieth, whose appends take no longer than `p99` seconds while CPU and disk are
    busy for no more than `share` of the time."""
    cpu, log = costs.append, costs.log
    if load.per_summary:
        cpu, log = cpu + costs.summary / load.per_summary, log + costs.summary_log / load.per_summary
    low, high = load.hosts, int(load.pause * min(server.cores / cpu, server.log_rate / log))  # where nothing waits
    best = simulate(costs, server, load._replace(sessions=low))
    while high - low > high // 20:
        middle = (low + high) // 2
        outcome = simulate(costs, server, load._replace(sessions=middle), seconds=_length(middle, load))
        if outcome.p99 <= p99 and max(outcome.cpu, outcome.log, outcome.host) <= share:
            low, best = middle, outcome
        else:
            high = middle
    return low, best


def _length(sessions: int, load: Load) -> float:
    """Seconds in which each session appends some times, and all of them often enough for a hundredth part."""
    return max(1.5 * load.pause, min(20.0, 20_000 * load.pause / sessions))
