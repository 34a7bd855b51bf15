"""What hosts and workers on one PostgreSQL store tell one another: notices, claims and requests of summaries, and caps.

Notices come by LISTEN where the server's session is ours; behind a pooler in transaction mode none come, and a waiting
host looks again from time to time. A request is kept beside the queue's job, which carries its key alone, so that
removing a session removes its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import NOWHERE, Places, StoredSummary, SummaryKey
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import PostgresConnection, connect
from summarizing_context.stores.relational.engine import Work
from summarizing_context.stores.relational.log import note_uses, save_summary

if TYPE_CHECKING:
    from summarizing_context.stores.postgres.store import PostgresStore

Enqueue = Callable[[psycopg.Connection[Any], SummaryKey, str], None]  # a key, and the number of its job

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
FIRST_LOOK, LONGEST_LOOK = 1.0, 10.0  # seconds between two looks at a request, where no notice comes
_LONGEST_WAIT = 2.0  # seconds until a worker that was refused by a cap looks again
_LOOK_AGAIN = 1.0  # seconds
_RETRY = 5.0  # seconds

logger = logging.getLogger(__name__)


class Notices:
    """The notices of one store, on one connection. Belongs to its event loop; begins to listen when somebody waits."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.channel = f"{address.schema[:50]}_summaries"
        self._told: dict[str, Callable[[str], None]] = {self.channel: self._wake}
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._listening: asyncio.Task[None] | None = None

    async def wait(self, payload: str, seconds: float | None = None) -> None:
        """Wait for a notice with this payload; so many seconds at most, or until it is time to look again."""
        self._start()
        event = asyncio.Event()
        self._waiting.setdefault(payload, set()).add(event)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), _LOOK_AGAIN if seconds is None else seconds)
        finally:
            self._waiting[payload].discard(event)
            if not self._waiting[payload]:
                del self._waiting[payload]

    def hear(self, channel: str, told: Callable[[str], None]) -> None:
        """Call `told` with the payload of each notice of another channel; its earlier one is forgotten."""
        if channel not in self._told and self._listening is not None:
            self._listening.cancel()
            self._listening = None
        self._told[channel] = told
        self._start()

    async def stop(self) -> None:
        """End listening."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def _start(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="notices of other hosts")

    def _wake(self, payload: str) -> None:
        for event in self._waiting.get(payload, ()):
            event.set()

    async def _listen(self) -> None:
        while True:
            try:
                async with await connect(self._address) as connection:
                    for channel in self._told:
                        await connection.execute(f"listen {channel}".encode())
                    async for notice in connection.notifies():
                        self._told[notice.channel](notice.payload)
            except Exception as error:  # whatever it is: looking again is enough, until it works once more
                logger.info("no notices of other hosts for now", extra={"cause": type(error).__name__})
            await asyncio.sleep(_RETRY)


class _Shared:
    """A part of a store that hosts share."""

    def __init__(self, store: PostgresStore, notices: Notices) -> None:
        self._store = store
        self._notices = notices

    async def _run(self, name: str, **values: Any) -> Any:
        """Run one query, and return its first row, if it has one."""

        def work(connection: PostgresConnection) -> Any:
            cursor = connection.run(name, values)
            return cursor.fetchone() if cursor.description else None

        return await self._store.submit(work)

    def _run_later(self, work: Work[object]) -> None:
        """Queue work that nobody waits for, and that may fail."""
        with suppress(StoreError):  # closed
            done = self._store.submit(work)
            done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def _told(self, key: SummaryKey) -> dict[str, str]:
        """Return the values of queries that tell the hosts that wait for a key."""
        return {**key._asdict(), "channel": self._notices.channel, "payload": " ".join(key)}


class PostgresClaims(_Shared):
    """Which of the hosts asks a model for a key. A store that fails costs the sharing of a summary, not the summary."""

    @asynccontextmanager
    async def held(self, key: SummaryKey, seconds: float) -> AsyncIterator[None]:
        """Hold a key for so many seconds at most. Waits while another living host holds it."""

        def take(connection: PostgresConnection) -> bool:
            values = {**key._asdict(), "writer": connection.writer, "seconds": seconds}
            if connection.run("take_claim", values).fetchone() is not None:
                return True
            connection.run("want_claim", key._asdict())
            return False

        def give_up(connection: PostgresConnection) -> None:
            connection.run("give_up_claim", {**self._told(key), "writer": connection.writer})

        try:  # also one that was cancelled may have been taken
            try:
                while not await self._store.submit(take):
                    await self._notices.wait(" ".join(key))
            except StoreError as error:
                logger.warning("a summary is made without a claim", extra={"cause": type(error).__name__})
            yield
        finally:
            self._run_later(give_up)


class PostgresRequests(_Shared):
    """The requests of a store for summaries, which workers of a pool answer. Every method raises `StoreError`."""

    async def ask(self, session_id: str, key: SummaryKey, text: bytes, queue: str, enqueue: Enqueue) -> None:
        """Keep a request and put its job into the queue, in one transaction."""
        values = {**key._asdict(), "session_id": session_id, "queue": queue, "request": text}

        def work(connection: PostgresConnection) -> None:
            (number,) = connection.run("ask", values).fetchone() or ("",)
            enqueue(connection.raw, key, number)

        await self._store.submit(work)

    async def remind(self, queue: str, enqueue: Enqueue, tidy: Callable[[psycopg.Connection[Any]], object]) -> None:
        """Put the jobs of requests that have waited for long, or are to be tried again, into the queue; then `tidy`."""

        def work(connection: PostgresConnection) -> None:
            for query in ("begin_retries", "find_waiting"):
                for range_hash, recipe_hash, number in connection.run(query, {"queue": queue}).fetchall():
                    enqueue(connection.raw, SummaryKey(range_hash, recipe_hash), number)
            tidy(connection.raw)

        await self._store.submit(work)

    async def find(self, key: SummaryKey) -> tuple[str, bytes] | None:
        """Return the session that asked and what it asks; None where nobody waits for an answer."""
        row = await self._run("find_request", **key._asdict())
        return None if row is None else (row[0], bytes(row[1]))

    async def wait(self, key: SummaryKey) -> str | None:
        """Wait until a request is answered, or removed with its session; return the error where it failed."""
        look = FIRST_LOOK
        while (row := await self._run("find_error", **key._asdict())) is not None:
            if row[0] is not None:
                return str(row[0])
            await self._notices.wait(" ".join(key), look)
            look = min(look * 1.5, LONGEST_LOOK)
        return None

    async def answer(self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places) -> None:
        """Keep a summary unless there is one, and end its request, in one transaction.

        It is dropped where its session was deleted meanwhile and nobody else asks.
        """

        def work(connection: PostgresConnection) -> None:
            (asking,) = connection.run("lock_request", key._asdict()).fetchone() or ([],)
            if not asking and connection.run("lock_asker", {"session_id": session_id}).fetchone() is None:
                return
            save_summary(connection, key, summary)
            for one in {session_id, *asking}:
                note_uses(connection, one, [key], places if one == session_id else NOWHERE)
            connection.run("remove_request", self._told(key))

        await self._store.submit(work)

    async def end(self, key: SummaryKey) -> None:
        """End a request: its summary is there."""
        await self._run("remove_request", **self._told(key))

    async def fail(self, key: SummaryKey, error: str) -> None:
        """Say why a request was not answered. It is tried again, later and later; a host may ask before."""
        await self._run("note_error", **self._told(key), error=error, waits=list(RETRIES))

    async def backlog(self) -> tuple[int, int]:
        """Return how many requests wait, and how many failed."""
        waiting, failed = await self._run("count_requests")
        return waiting, failed


class PostgresFleet(_Shared):
    """Caps on the calls of all workers on one store: how many at once, and how many in a minute."""

    async def set(self, at_once: int | None, per_minute: int | None) -> None:
        """Change the caps that are told, for all workers from now on; -1 removes one. Raises `StoreError`."""
        await self._run("write_caps", calls_at_once=at_once, calls_per_minute=per_minute)

    async def begin(self) -> tuple[int | None, float]:
        """Begin a call of this worker; return its number, or None and the seconds until it is worth asking again where
        a cap has no room. Raises `StoreError`."""

        def work(connection: PostgresConnection) -> tuple[int | None, float]:
            at_once, per_minute = connection.run("read_caps").fetchone() or (None, None)
            connection.run("tidy_calls")  # without a cap too: one that is set later counts the calls of the last minute
            if at_once is not None or per_minute is not None:
                running, recent, frees_in = connection.run("count_calls").fetchone() or (0, 0, 0.0)
                if per_minute is not None and recent >= per_minute:
                    return None, min(max(frees_in, 0.05), _LONGEST_WAIT)
                if at_once is not None and running >= at_once:
                    return None, 0.1
            (call,) = connection.run("begin_call", {"writer": connection.writer}).fetchone() or (None,)
            return call, 0.0

        return await self._store.submit(work)

    def end(self, call: int) -> None:
        """Note that a call of this worker has ended. Where this cannot be done, it counts until the lease ends."""
        self._run_later(lambda connection: connection.run("end_call", {"id": call}))
