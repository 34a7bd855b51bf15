"""What hosts and workers on one PostgreSQL store share: claims and requests of summaries, and caps on calls.

Hosts look for what they wait for from time to time, so that a pooler may stand before the server; no view waits with
them. The table of requests is the queue of the pool: removing a session removes its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from summarizing_context.contrib.postgres.connection import PostgresConnection
from summarizing_context.errors import StoreError
from summarizing_context.stores.base import NOWHERE, Places, StoredSummary, SummaryKey
from summarizing_context.stores.relational.engine import Work
from summarizing_context.stores.relational.log import note_uses, save_summary

if TYPE_CHECKING:
    from summarizing_context.contrib.postgres.store import PostgresStore

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
CLAIM = 300.0  # seconds that a summary may take before another host or worker pays for it
LOOK_AGAIN, LONGEST_LOOK = 0.5, 5.0  # seconds from one look to the next, which grow

logger = logging.getLogger(__name__)


class _Shared:
    """A part of a store that hosts share."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def _run(self, query: str, **values: Any) -> Any:
        """Run one query, and return its first row, if it has one."""

        def work(connection: PostgresConnection) -> Any:
            cursor = connection.run(query, **values)
            return cursor.fetchone() if cursor.description else None

        return await self._store.submit(work)

    def _run_later(self, work: Work[object]) -> None:
        """Queue work whose end is not waited for, and that may fail."""
        with suppress(StoreError):  # closed
            done = self._store.submit(work)
            done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


class PostgresClaims(_Shared):
    """Which of the hosts asks a model for a key. A store that fails costs the sharing of a summary, not the summary."""

    @asynccontextmanager
    async def held(self, key: SummaryKey, seconds: float) -> AsyncIterator[None]:
        """Hold a key for so many seconds at most. Waits while another living host holds it."""

        def take(connection: PostgresConnection) -> bool:
            taken = connection.run("take_claim", **key._asdict(), writer=connection.writer, seconds=seconds)
            return taken.fetchone() is not None

        try:  # also one that was cancelled may have been taken
            try:
                async for _ in _looks():
                    if await self._store.submit(take):
                        break
            except StoreError as error:
                logger.warning("a summary is made without a claim", extra={"cause": type(error).__name__})
            yield
        finally:
            self.give_up(key)

    def give_up(self, key: SummaryKey) -> None:
        """End a claim of this host, which may have none."""
        self._run_later(lambda connection: connection.run("give_up_claim", **key._asdict(), writer=connection.writer))


async def _looks() -> AsyncIterator[None]:
    """Yield whenever it is time to look again."""
    look = LOOK_AGAIN
    while True:
        yield
        await asyncio.sleep(look)
        look = min(look * 1.5, LONGEST_LOOK)


class PostgresRequests(_Shared):
    """The requests of a store for summaries, which workers of a pool answer. Every method raises `StoreError`."""

    async def ask(self, session_id: str, key: SummaryKey, queue: str, text: bytes) -> None:
        """Keep a request for the workers of a queue."""
        await self._run("ask", **key._asdict(), session_id=session_id, queue=queue, request=text)

    async def take(self, queue: str, most: int) -> list[tuple[SummaryKey, str, bytes]]:
        """Claim requests of a queue; return each with its key, the session that asked, and what it asks."""

        def work(connection: PostgresConnection) -> list[tuple[SummaryKey, str, bytes]]:
            found = connection.run("take_requests", queue=queue, most=most, writer=connection.writer, seconds=CLAIM)
            return [(SummaryKey(*key), session_id, text) for *key, session_id, text in found]

        return await self._store.submit(work)

    async def wait(self, key: SummaryKey) -> str | None:
        """Wait until a request is answered, or removed with its session; return the error where it failed."""
        async for _ in _looks():
            row = await self._run("find_error", **key._asdict())
            if row is None or row[0] is not None:
                return None if row is None else str(row[0])
        return None

    async def answer(self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places) -> None:
        """Keep a summary unless there is one, and end its request, in one transaction.

        It is dropped where its session was deleted meanwhile and no other session asks.
        """

        def work(connection: PostgresConnection) -> None:
            (asking,) = connection.run("lock_request", **key._asdict()).fetchone() or ([],)
            if not asking and connection.run("lock_asker", session_id=session_id).fetchone() is None:
                return
            save_summary(connection, key, summary)
            for one in {session_id, *asking}:
                note_uses(connection, one, [key], places if one == session_id else NOWHERE)
            connection.run("remove_request", **key._asdict())

        await self._store.submit(work)

    async def end(self, key: SummaryKey) -> None:
        """End a request: its summary is there."""
        await self._run("remove_request", **key._asdict())

    async def fail(self, key: SummaryKey, error: str) -> None:
        """Say why a request was not answered. It is tried again, later and later; a host may ask before."""
        await self._run("note_error", **key._asdict(), error=error, waits=list(RETRIES))

    async def backlog(self) -> tuple[int, int]:
        """Return how many requests wait, and how many failed."""
        waiting, failed = await self._run("count_requests")
        return waiting, failed


class PostgresFleet(_Shared):
    """Caps on the calls of all workers on one store: how many at once, and how many in a minute."""

    async def set(self, at_once: int | None, per_minute: int | None) -> None:
        """Change the caps that are given, for all workers from now on; -1 removes one. Raises `StoreError`."""
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
                    return None, min(max(frees_in, 0.05), 2.0)
                if at_once is not None and running >= at_once:
                    return None, 0.1
            (call,) = connection.run("begin_call", writer=connection.writer).fetchone() or (None,)
            return call, 0.0

        return await self._store.submit(work)

    def end(self, call: int) -> None:
        """Note that a call of this worker has ended. Where this cannot be done, it counts until the lease ends."""
        self._run_later(lambda connection: connection.run("end_call", id=call))
