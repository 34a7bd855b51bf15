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
from functools import partial
from typing import Any

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import NOWHERE, Places, StoredSummary, SummaryKey
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.relational.database import Access
from summarizing_context.stores.relational.log import note_uses, save_summary
from summarizing_context.stores.requests import Admission, Backlog, Request, RequestState

Enqueue = Callable[[psycopg.Connection[Any], SummaryKey, str], None]  # a key, and the number of its job

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
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
        self._waiting: dict[str, tuple[asyncio.Event, int]] = {}  # with how many wait
        self._listening: asyncio.Task[None] | None = None

    async def wait(self, payload: str, seconds: float | None = None) -> None:
        """Wait for a notice with this payload; so many seconds at most, or until it is time to look again."""
        self._start()
        event, users = self._waiting.get(payload, (asyncio.Event(), 0))
        self._waiting[payload] = event, users + 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), _LOOK_AGAIN if seconds is None else seconds)
        finally:
            _, users = self._waiting.pop(payload)
            if users > 1:
                self._waiting[payload] = event if not event.is_set() else asyncio.Event(), users - 1

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
        if payload in self._waiting:
            self._waiting[payload][0].set()

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._address.url, autocommit=True, prepare_threshold=None, application_name="summarizing-context"
                ) as connection:
                    for channel in self._told:
                        await connection.execute(f"listen {channel}".encode())
                    async for notice in connection.notifies():
                        self._told[notice.channel](notice.payload)
            except psycopg.Error as error:  # looking again is enough
                logger.info("no notices of other hosts for now", extra={"cause": type(error).__name__})
            await asyncio.sleep(_RETRY)


class PostgresClaims:
    """The claims of one store. A store that fails costs the sharing of a summary, not the summary."""

    def __init__(self, access: Access, notices: Notices) -> None:
        self._access = access
        self._notices = notices

    @asynccontextmanager
    async def held(self, key: SummaryKey, seconds: float) -> AsyncIterator[None]:
        """Hold a key for so many seconds at most. Waits while another living host holds it."""
        try:
            while not await self._access.submit(lambda connection: _take(connection, key, seconds)):
                await self._notices.wait(_payload(key))
        except StoreError as error:
            logger.warning("a summary is made without a claim", extra={"cause": type(error).__name__})
        except asyncio.CancelledError:
            self._let_go(key)  # the claim may have been taken meanwhile
            raise
        try:
            yield
        finally:
            self._let_go(key)

    def _let_go(self, key: SummaryKey) -> None:
        with suppress(StoreError):  # closed: then its claims are gone too
            self._access.submit(lambda connection: self._give_up(connection, key)).add_done_callback(_settled)

    def _give_up(self, connection: PostgresConnection, key: SummaryKey) -> None:
        values = {"writer": connection.writer, "channel": self._notices.channel, "payload": _payload(key)}
        connection.run("give_up_claim", {**key._asdict(), **values})


def _take(connection: PostgresConnection, key: SummaryKey, seconds: float) -> bool:
    values = {**key._asdict(), "writer": connection.writer, "seconds": seconds}
    if connection.run("take_claim", values).fetchone() is not None:
        return True
    connection.run("want_claim", key._asdict())
    return False


class PostgresRequests:
    """The `SummaryRequests` of one store."""

    def __init__(self, access: Access, notices: Notices) -> None:
        self._access = access
        self._notices = notices

    async def ask(self, session_id: str, key: SummaryKey, text: bytes, queue: str, enqueue: Enqueue) -> None:
        """Keep a request and put its job into the queue, in one transaction."""
        values = {**key._asdict(), "session_id": session_id, "queue": queue, "request": text}

        def work(connection: PostgresConnection) -> None:
            (number,) = connection.run("ask", values).fetchone() or ("",)
            enqueue(connection.raw, key, number)

        await self._access.submit(work)

    async def remind(self, queue: str, enqueue: Enqueue, tidy: Callable[[psycopg.Connection[Any]], object]) -> None:
        """Put the jobs of requests that have waited for long, or are to be tried again, into the queue; then `tidy`."""

        def work(connection: PostgresConnection) -> None:
            for query in ("begin_retries", "find_waiting"):
                for range_hash, recipe_hash, number in connection.run(query, {"queue": queue}).fetchall():
                    enqueue(connection.raw, SummaryKey(range_hash, recipe_hash), number)
            tidy(connection.raw)

        await self._access.submit(work)

    async def find(self, key: SummaryKey) -> Request | None:
        row = await self._access.read(lambda connection: connection.run("find_request", key._asdict()).fetchone())
        return None if row is None else Request(row[0], bytes(row[1]))

    async def state(self, key: SummaryKey) -> RequestState | None:
        row = await self._access.submit(lambda connection: connection.run("find_error", key._asdict()).fetchone())
        return None if row is None else RequestState(row[0])

    async def wait(self, key: SummaryKey, seconds: float) -> None:
        await self._notices.wait(_payload(key), seconds)

    async def answer(self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places) -> None:
        def work(connection: PostgresConnection) -> None:
            (asking,) = connection.run("lock_request", key._asdict()).fetchone() or ([],)
            if not asking and connection.run("lock_asker", {"session_id": session_id}).fetchone() is None:
                return
            save_summary(connection, key, summary)
            for one in {session_id, *asking}:
                note_uses(connection, one, [key], places if one == session_id else NOWHERE)
            self._end(key, connection)

        await self._access.submit(work)

    async def end(self, key: SummaryKey) -> None:
        await self._access.submit(partial(self._end, key))

    async def fail(self, key: SummaryKey, error: str) -> None:
        values = {**key._asdict(), **self._told(key), "error": error, "waits": list(RETRIES)}
        await self._access.submit(lambda connection: connection.run("note_error", values) and None)

    async def backlog(self) -> Backlog:
        return Backlog(*await self._access.read(lambda connection: connection.run("count_requests").fetchone()))

    def _end(self, key: SummaryKey, connection: PostgresConnection) -> None:
        connection.run("remove_request", {**key._asdict(), **self._told(key)})

    def _told(self, key: SummaryKey) -> dict[str, str]:
        return {"channel": self._notices.channel, "payload": _payload(key)}


class PostgresFleet:
    """The `FleetCaps` of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def set(self, at_once: int | None, per_minute: int | None) -> None:
        values = {"calls_at_once": at_once, "calls_per_minute": per_minute}
        await self._access.submit(lambda connection: connection.run("write_caps", values) and None)

    async def begin(self) -> Admission:
        return await self._access.submit(_begin)

    def end(self, call: int) -> None:
        with suppress(StoreError):
            self._access.submit(partial(_end, call)).add_done_callback(_settled)


def _begin(connection: PostgresConnection) -> Admission:
    at_once, per_minute = connection.run("read_caps").fetchone() or (None, None)
    connection.run("tidy_calls")  # without a cap too: one that is set later counts the calls of the last minute
    if at_once is not None or per_minute is not None:
        running, recent, frees_in = connection.run("count_calls").fetchone() or (0, 0, 0.0)
        if per_minute is not None and recent >= per_minute:
            return Admission(None, min(max(frees_in, 0.05), _LONGEST_WAIT))
        if at_once is not None and running >= at_once:
            return Admission(None, 0.1)
    return Admission(connection.insert("begin_call", {"writer": connection.writer}))


def _end(id: int, connection: PostgresConnection) -> None:
    connection.run("end_call", {"id": id})


def _payload(key: SummaryKey) -> str:
    return " ".join(key)


def _settled(ended: asyncio.Future[None]) -> None:
    if not ended.cancelled():
        ended.exception()
