"""`PostgresStore`: the sessions of many hosts in one schema of a PostgreSQL database.

Nothing that is removed locks what other hosts write: appends, activations and forks of other sessions go on. A row is
gone for every reader with the commit. Its bytes stay in the table's file until a VACUUM has made the space free and the
server has used it again; what it wrote ahead, and its backups, are the operator's matter.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import psycopg

from summarizing_context.contrib.postgres import connection as server
from summarizing_context.contrib.postgres.connection import (
    Address,
    PostgresConnection,
    queries_for,
    read_address,
)
from summarizing_context.errors import SessionInUseError, StoreError
from summarizing_context.stores.base import NOWHERE, Places, StoredEntry, StoredSummary, SummaryKey
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import VERSION, Engine, Result, Work, check_version
from summarizing_context.stores.relational.retrieval import remove_of_session
from summarizing_context.stores.relational.store import RelationalStore

logger = logging.getLogger(__name__)

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
CLAIM = 300.0  # seconds that a summary may take before another host or worker pays for it
LOOK_AGAIN, LONGEST_LOOK = 0.5, 5.0  # seconds from one look to the next, which grow

_TABLES = (
    "entries words summaries summary_uses activations activation_history checkpoints rules memories vectors requests"
)


class PostgresEngine(Engine):
    """The engine of one address, for one event loop."""

    def __init__(self, address: Address, *, read_only: bool) -> None:
        super().__init__(address.name, read_only=read_only)
        self._address = address
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name=f"lease {address.name}", daemon=True)

    def open(self) -> PostgresConnection:
        """Return a connection to a store, which is made where there is none."""
        writer = None if self.read_only else uuid.uuid4().hex
        connection = PostgresConnection(self._address, writer, is_leaving=lambda: self.is_stopping)
        try:
            (encoding,) = connection.raw.execute("show server_encoding").fetchone() or ("",)
            if encoding != "UTF8":
                raise StoreError(
                    f"{self.name}: the database has the encoding {encoding}; create one with encoding 'UTF8'"
                )
            if writer is not None:
                self._create(connection.raw)
            version = self._version(connection.raw)
            if version is None:
                raise StoreError(
                    f"{self.name}: there is no store in this schema; open it once without read_only=True to create it"
                )
            check_version(version, self.name, "name another schema. The store")
            if writer is not None:
                host, lease = socket.gethostname(), self._address.lease
                connection.run("add_writer", writer=writer, host=host, pid=os.getpid(), lease=lease)
                connection.run("tidy_writers")
                self._beating.start()
        except BaseException:
            connection.raw.close()
            raise
        return connection

    def close(self, connection: PostgresConnection) -> None:
        """End the claims and the lease of this writer, and the connection."""
        try:
            self._ended.set()
            if connection.writer is not None:
                self._beating.join()
            if connection.writer is not None and not connection.raw.closed:
                connection.undo_work()
                connection.run("remove_claims", writer=connection.writer)
                connection.run("remove_writer", writer=connection.writer)
        finally:
            connection.raw.close()

    def translate(self, error: Exception) -> Exception:
        return server.translate(error, self._address)

    def may_pass(self, error: Exception) -> bool:
        return server.may_pass(error)

    def _beat(self) -> None:
        """In a thread of its own, whatever the event loop does: renew the lease three times in its length."""
        while not self._ended.wait(self._address.lease / 3):
            self.thread.submit(self._keep_lease)

    def _keep_lease(self) -> None:
        connection: PostgresConnection = self._connection
        try:
            connection.ensure()
            connection.run("keep_lease", writer=connection.writer, lease=self._address.lease)
        except Exception as error:
            logger.warning("a store's lease was not renewed", extra={"cause": type(error).__name__})

    def _create(self, raw: psycopg.Connection[Any]) -> None:
        """Make the tables, whole or not at all, unless they are there."""
        schema = self._address.schema
        if self._version(raw) is not None:
            return
        with raw.transaction():
            raw.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [schema])
            if raw.execute("select to_regnamespace(%s)", [schema]).fetchone() == (None,):
                raw.execute(f"create schema {schema}".encode())
            if self._version(raw) is None:  # else another process was quicker
                raw.execute(queries_for(schema)["schema"].encode())
                raw.execute(f"insert into {schema}.version values ({VERSION:d})".encode())

    def _version(self, raw: psycopg.Connection[Any]) -> int | None:
        """Return the version that the schema has; None where there is no store in it."""
        table = f"{self._address.schema}.version"
        if raw.execute("select to_regclass(%s)", [table]).fetchone() == (None,):
            return None
        (number,) = raw.execute(f"select number from {table}".encode()).fetchone() or (0,)
        return int(number)


class PostgresStore(RelationalStore):
    """A `Store` on PostgreSQL. `await open()` first; it shares a thread with other stores of the same address.

    `address` is `postgresql://user@host/database`; its parameter `schema` names a schema, `lease` the seconds after
    which the sessions of a vanished host may be taken.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self._address = read_address(address)
        self._sessions = claimed = set[str]()
        make_engine = partial(PostgresEngine, self._address, read_only=read_only)
        super().__init__(self._address.name, make_engine, place=self._address, read_only=read_only, claimed=claimed)
        self.claims = None if read_only else PostgresClaims(self)  # which host pays for a summary
        self.requests = PostgresRequests(self)  # what is asked of a pool of workers
        self.fleet = PostgresFleet(self)  # the caps on calls of all workers

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used; its claim, if this store has it, ends too."""
        return await self.submit_alone("delete a session", lambda connection: self._delete(connection, session_id))

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; the bytes of their texts."""
        freed = await self.submit_alone("purge", _purge)
        tables = ", ".join(f"{self._address.schema}.{table}" for table in _TABLES.split())
        try:  # their space becomes free, on a connection of its own; a table that is locked is left to autovacuum
            url = self._address.url
            async with await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=5) as connection:
                await connection.execute(f"vacuum (skip_locked) {tables}".encode())
        except psycopg.Error as error:
            logger.warning("the space of removed rows was not made free", extra={"cause": type(error).__name__})
        return freed

    async def _give_up(self, engine: Engine) -> None:
        """Give the sessions up; those that another host has taken stay its own."""
        held = sorted(self._sessions)

        def release(connection: PostgresConnection) -> None:
            try:
                with connection.transaction():
                    connection.run("release_sessions", writer=connection.writer, sessions=held)
            except (psycopg.OperationalError, StoreError):  # as where a row is locked: the lease ends by itself
                with suppress(psycopg.Error):
                    connection.undo_work()
            for session_id in held:
                connection.fences.pop(session_id, None)

        if held:
            await engine.submit(release, alone=True)

    # What follows runs in the engine's thread.

    def _read(self, connection: PostgresConnection, work: Work[Result]) -> Result:
        with connection.reading():
            return work(connection)

    def _claim(self, connection: PostgresConnection, session_id: str, project: str | None) -> None:
        """Become the session's only writer, creating the session if needed."""
        with connection.transaction():
            row = connection.run("lock_session", session_id=session_id).fetchone()
            if row is None:
                log.create_session(connection, session_id, project)
            else:
                _refuse_if_held(connection, session_id, row)
            taken = connection.run("take_session", session_id=session_id, project=project, writer=connection.writer)
            (fence,) = taken.fetchone() or (-1,)
        connection.fences[session_id] = fence
        self._sessions.add(session_id)

    def _check_still_ours(self, connection: PostgresConnection, session_id: str) -> None:
        connection.check_fence(session_id)

    def _append(self, connection: PostgresConnection, session_id: str, entries: Sequence[StoredEntry]) -> None:
        with connection.raw.pipeline():  # what needs no answer goes to the server at once
            log.append(connection, session_id, entries)

    def _delete(self, connection: PostgresConnection, session_id: str) -> bool:
        """Remove a session with the entries and summaries that only it needs."""
        known = {"session_id": session_id}
        with connection.transaction():
            row = connection.run("lock_session", **known).fetchone()
            if row is None:
                return False
            if session_id not in self._sessions:
                _refuse_if_held(connection, session_id, row)
            for name in ("disown_branches", "remove_session", "remove_checkpoints"):
                connection.run(name, **known)
            remove_of_session(connection, session_id)
            connection.run("forget_rules", **known, keep=0)
            _trim(connection, everything=False)
            connection.run("forget_activations", **known, keep=0)
            for name in ("remove_history", "leave_requests", "remove_requests", "remove_own_summaries", "remove_uses"):
                connection.run(name, **known)
        connection.fences.pop(session_id, None)
        self._sessions.discard(session_id)
        return True


def _refuse_if_held(connection: PostgresConnection, session_id: str, row: Sequence[Any]) -> None:
    """Raise `SessionInUseError` where a session's row, as `lock_session` finds it, names another living writer."""
    writer, host, pid, lives = row
    is_own = writer == connection.writer
    if session_id in connection.fences and is_own:
        raise SessionInUseError(session_id, os.getpid())
    if writer is None or is_own:
        return
    if lives or connection.run("silent_writer", writer=writer).fetchone() is None:
        raise SessionInUseError(session_id, pid, host)


def _purge(connection: PostgresConnection) -> int:
    with connection.transaction():
        freed = _trim(connection, everything=True)
    with connection.transaction():
        connection.run("remove_failed_requests")
        connection.run("remove_stale_uses")
        (size,) = connection.run("remove_unused_summaries").fetchone() or (0,)
        connection.run("remove_unnamed_vectors")
    with connection.transaction():
        connection.run("forget_replaced_states")
    return int(freed + size)


def _trim(connection: PostgresConnection, *, everything: bool) -> int:
    """Remove what is unneeded of all branches, or of those of deleted sessions; return the bytes of the messages.

    One statement removes, so it sees one state: what others append meanwhile is not in it. What it finds unneeded there
    stays unneeded, for a fork holds its checkpoint until it is committed.
    """
    values: dict[str, object] = {"everything": everything}
    branches = [number for (number,) in connection.run("lock_trimmed", **values)]
    if not branches:
        return 0
    row = connection.run("trim", **values, branches=branches).fetchone()
    return int(row[0]) if row else 0


# What hosts and workers on one store share. Hosts look for what they wait for from time to time, so that a pooler may
# stand before the server; no view waits with them. The table of requests is the queue of the pool: removing a session
# removes its text.


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
            log.save_summary(connection, key, summary)
            for one in {session_id, *asking}:
                log.note_uses(connection, one, [key], places if one == session_id else NOWHERE)
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
