"""Requests for summaries that workers of a pool make, and the caps on calls that hold for all of them.

A request is kept beside the queue's job, which carries its key alone, so that removing a session removes its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import NOWHERE, Places, StoredSummary, SummaryKey
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.notices import Notices
from summarizing_context.stores.relational.database import Access
from summarizing_context.stores.relational.summaries import note_uses, save_summary
from summarizing_context.stores.requests import Admission, Backlog, Request, RequestState

Enqueue = Callable[[psycopg.Connection[Any], SummaryKey, str], None]  # a key, and the number of its job

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try

_LONGEST_WAIT = 2.0  # seconds until a worker that was refused by a cap looks again


class PostgresRequests:
    """The requests of one store. Every method raises `StoreError`."""

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
        """A request with what it asks; None where nobody waits for an answer."""
        row = await self._access.read(lambda connection: connection.run("find_request", key._asdict()).fetchone())
        return None if row is None else Request(row[0], bytes(row[1]))

    async def state(self, key: SummaryKey) -> RequestState | None:
        """How a request stands; None where it is answered, or was removed with its session."""
        row = await self._access.submit(lambda connection: connection.run("find_error", key._asdict()).fetchone())
        return None if row is None else RequestState(row[0])

    async def wait(self, key: SummaryKey, seconds: float) -> None:
        """Wait for a notice about a request; so many seconds at most."""
        await self._notices.wait(_payload(key), seconds)

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
            self._end(key, connection)

        await self._access.submit(work)

    async def end(self, key: SummaryKey) -> None:
        """End a request: its summary is there."""
        await self._access.submit(partial(self._end, key))

    async def fail(self, key: SummaryKey, error: str) -> None:
        """Say why a request was not answered. It is tried again, later and later; who asked may ask before."""
        values = {**key._asdict(), **self._told(key), "error": error, "waits": list(RETRIES)}
        await self._access.submit(lambda connection: connection.run("note_error", values) and None)

    async def backlog(self) -> Backlog:
        """How many requests there are."""
        return Backlog(*await self._access.read(lambda connection: connection.run("count_requests").fetchone()))

    def _end(self, key: SummaryKey, connection: PostgresConnection) -> None:
        connection.run("remove_request", {**key._asdict(), **self._told(key)})

    def _told(self, key: SummaryKey) -> dict[str, str]:
        return {"channel": self._notices.channel, "payload": _payload(key)}


class PostgresFleet:
    """Caps on the calls of all workers on one store: how many at once, and how many in a minute."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def set(self, at_once: int | None, per_minute: int | None) -> None:
        """Change the caps that are told, for all workers from now on; -1 removes one."""
        values = {"calls_at_once": at_once, "calls_per_minute": per_minute}
        await self._access.submit(lambda connection: connection.run("write_caps", values) and None)

    async def begin(self) -> Admission:
        """Begin a call of this worker, if the caps let it through."""
        return await self._access.submit(_begin)

    def end(self, call: int) -> None:
        """A call of this worker has ended. Where this cannot be noted, it counts until the lease ends."""
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
