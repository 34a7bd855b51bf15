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
from psycopg import errors

from summarizing_context.contrib.postgres.connection import (
    Address,
    PostgresConnection,
    is_connection_lost,
    queries_for,
    read_address,
    unreachable,
)
from summarizing_context.errors import (
    SessionInUseError,
    SessionLostError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    SummarizingContextError,
)
from summarizing_context.stores.base import NOWHERE, Places, StoredEntry, StoredSummary, SummaryKey
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import VERSION, Engine, Result, Work, check_version
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.store import RelationalStore

logger = logging.getLogger(__name__)

RETRIES = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 86_400.0)  # seconds from each failure to the next try
CLAIM = 300.0  # seconds that a summary may take before another host or worker pays for it
LOOK_AGAIN, LONGEST_LOOK = 0.5, 5.0  # seconds from one look to the next, which grow

_LOST = "this host no longer has its lease; nothing was written: open the session again"
_FULL = "the server has no space left; nothing was written: free some and call again"
_LOCKED = "another process held a lock for too long; try again, or find out which one holds it"
_READ_ONLY = "the server refused to write; grant the rights, or use read_only=True"

_BY_STATE: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFullError, _FULL),
    "53200": (StoreFullError, _FULL),
    "55P03": (StoreLockedError, _LOCKED),
    "40P01": (StoreLockedError, _LOCKED),
    "25006": (StoreReadOnlyError, _READ_ONLY),
    "42501": (StoreReadOnlyError, _READ_ONLY),
    "SC001": (SessionLostError, _LOST),  # raised by the function `expect`
    "57014": (StoreError, "the statement was cancelled; try again"),
    "XX001": (StoreCorruptError, "the server reports damaged data; restore it from a backup"),
    "XX002": (StoreCorruptError, "the server reports a damaged index; rebuild it with REINDEX"),
    "42P01": (StoreError, "a table is missing; was the schema removed while the store was open? Open it again"),
    "3F000": (StoreError, "the schema is missing; was it removed while the store was open? Open it again"),
}


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
        """Return the error to raise in place of `error`, which becomes its cause unless it could repeat what was to be
        kept."""
        if isinstance(error, SummarizingContextError):
            return error
        if is_connection_lost(error):
            return unreachable(self._address, error)
        name = self.name
        if isinstance(error, UnicodeError):
            return StoreError(
                f"{name}: a name given to the store is not valid Unicode; leave lone surrogates out of it"
            )
        if isinstance(error, psycopg.DataError) or not isinstance(error, psycopg.Error):
            return StoreError(f"{name}: the store was given something that it cannot keep ({type(error).__name__})")
        state = error.sqlstate or ""
        kind, text = _BY_STATE.get(state, (StoreError, f"PostgreSQL reported error {state} ({type(error).__name__})"))
        fault = kind(f"{name}: {text}")
        fault.__cause__ = error
        return fault

    def may_pass(self, error: Exception) -> bool:
        passing = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
        return is_connection_lost(error) or isinstance(error, passing)

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


class PostgresStore(RelationalStore[PostgresEngine]):
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

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used; its claim, if this store has it, ends too."""
        return await self.submit_alone("delete a session", lambda connection: self._delete(connection, session_id))

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; the bytes of their texts."""
        return await self.submit_alone("purge", _purge)

    async def _give_up(self, engine: PostgresEngine) -> None:
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
        connection.ensure()
        connection.raw.execute("begin isolation level repeatable read, read only")
        result = work(connection)
        connection.raw.execute("commit")
        return result

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
        """Raise `SessionLostError` unless the session is this writer's; none takes it until the transaction ends."""
        known = {"session_id": session_id, "writer": connection.writer, "fence": connection.fences.get(session_id, -1)}
        if connection.run("check_fence", **known).fetchone() is None:
            raise SessionLostError(
                f"session {session_id!r}: {_LOST}. Another host may have taken it after this one was silent for too "
                "long"
            )

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


class PostgresClaims:
    """Which of the hosts asks a model for a key. A store that fails costs the sharing of a summary, not the summary."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

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
        """End a claim of this host, which may have none. Its end is not waited for, and may fail."""

        def work(connection: PostgresConnection) -> None:
            connection.run("give_up_claim", **key._asdict(), writer=connection.writer)

        with suppress(StoreError):  # closed
            done = self._store.submit(work)
            done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


async def _looks() -> AsyncIterator[None]:
    """Yield whenever it is time to look again."""
    look = LOOK_AGAIN
    while True:
        yield
        await asyncio.sleep(look)
        look = min(look * 1.5, LONGEST_LOOK)


class PostgresRequests:
    """The requests of a store for summaries, which workers of a pool answer: a queue for each model, by its recipe.
    Every method raises `StoreError`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def _run(self, query: str, **values: Any) -> Any:
        """Run one query, and return its first row, if it has one."""

        def work(connection: PostgresConnection) -> Any:
            cursor = connection.run(query, **values)
            return cursor.fetchone() if cursor.description else None

        return await self._store.submit(work)

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
