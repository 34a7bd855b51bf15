"""What a pool of workers needs of a store that hosts share: requests for summaries, their queue, and caps on calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from summarizing_context.stores.base import NOWHERE, Places, StoredSummary, SummaryClaims, SummaryKey

Make = Callable[[SummaryKey], Awaitable[None]]


class Request(NamedTuple):
    """What a session asked of the pool."""

    session_id: str
    text: bytes


class RequestState(NamedTuple):
    """A request that is not answered yet."""

    error: str | None  # why the last attempt failed


class Backlog(NamedTuple):
    """How many requests there are."""

    waiting: int
    failed: int


class Admission(NamedTuple):
    """Whether a call may begin."""

    call: int | None  # its number; None where a cap has no room
    wait: float = 0.0  # seconds until it is worth asking again


class JobReleased(Exception):
    """Raised by what makes a summary to give its job back, for any worker, after so many seconds."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        super().__init__("the job is given back")


class SummaryQueue(Protocol):
    """The jobs of one store for the workers of one model."""

    @property
    def is_connected(self) -> bool:
        """Whether `run` gets jobs now."""

    async def install(self) -> None:
        """Make the tables, or bring them up to date. Raises `StoreError`."""

    async def ask(self, session_id: str, key: SummaryKey, text: bytes) -> None:
        """Keep a request and put its job into the queue, in one transaction. Raises `StoreError`."""

    async def remind(self) -> None:
        """Put jobs of requests that have waited for long, or are to be tried again, into the queue, unless they are
        there; forget what the queue has noted of jobs that ended long ago. Raises `StoreError`."""

    async def run(self, make: Make, *, concurrency: int, stopping: asyncio.Event) -> None:
        """Have jobs made until told to stop, and then wait for those that are under way.

        A lost connection is made anew. What `make` raises beside `JobReleased` ends a job for good.
        """


class SummaryRequests(Protocol):
    """The requests of a store. Every method raises `StoreError`."""

    async def find(self, key: SummaryKey) -> Request | None:
        """A request with what it asks; None where nobody waits for an answer."""

    async def state(self, key: SummaryKey) -> RequestState | None:
        """How a request stands; None where it is answered, or was removed with its session."""

    async def wait(self, key: SummaryKey, seconds: float) -> None:
        """Wait for a notice about a request; so many seconds at most."""

    async def answer(self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places) -> None:
        """Keep a summary unless there is one, and end its request, in one transaction.

        It is dropped where its session was deleted meanwhile and nobody else asks.
        """

    async def end(self, key: SummaryKey) -> None:
        """End a request: its summary is there."""

    async def fail(self, key: SummaryKey, error: str) -> None:
        """Say why a request was not answered. It is tried again, later and later; a host may ask before."""

    async def backlog(self) -> Backlog:
        """How many requests there are."""


class FleetCaps(Protocol):
    """Caps on the calls of all workers on one store: how many at once, and how many in a minute."""

    async def set(self, at_once: int | None, per_minute: int | None) -> None:
        """Change the caps that are told, for all workers from now on; -1 removes one. Raises `StoreError`."""

    async def begin(self) -> Admission:
        """Begin a call of this worker, if the caps let it through. Raises `StoreError`."""

    def end(self, call: int) -> None:
        """A call of this worker has ended. Where this cannot be noted, it counts until the lease ends."""


class PoolStore(Protocol):
    """A store that hosts and the workers of a pool share."""

    @property
    def claims(self) -> SummaryClaims | None: ...

    @property
    def requests(self) -> SummaryRequests: ...

    @property
    def fleet(self) -> FleetCaps: ...

    def queue(self, maker: str) -> SummaryQueue:
        """The jobs for the workers of a model, by the name of what makes the summaries."""

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Those of `keys` that are there, noted as used by the session at these places."""
