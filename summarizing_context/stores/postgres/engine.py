"""The engine of a PostgreSQL store: one thread and one connection for all stores of a process and event loop that name
the same address; and the claims of sessions."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import uuid
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any

import psycopg

from summarizing_context.concurrency import running_loop
from summarizing_context.errors import SessionInUseError, StoreError
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.faults import translate
from summarizing_context.stores.postgres.requests import Notices
from summarizing_context.stores.postgres.schema import create, refuse_other_version
from summarizing_context.stores.postgres.search import find_pgvector
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.writer import Engine

_engines: dict[Hashable, PostgresEngine] = {}
_guard = threading.Lock()  # loops of several threads look here


class Once:
    """Work that is done once for all callers. Where it failed, the next caller begins it anew."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def wait_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin it unless that was done, and wait for its end. Raises what it raises."""
        if self._task is None:
            self._task = asyncio.create_task(work())
            self._task.add_done_callback(self._ended)
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Cut it short."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._task = None


class PostgresEngine(Engine):
    """The engine of one address, for one event loop."""

    def __init__(self, address: Address, *, read_only: bool) -> None:
        super().__init__(address.name, read_only=read_only)
        self.notices = Notices(address)
        self.installing = Once()  # of the queue
        self._address = address

    @classmethod
    def shared(cls, address: Address, *, read_only: bool) -> PostgresEngine:
        """The engine of this address and event loop."""
        key = (address, read_only, id(running_loop()))
        with _guard:
            engine = _engines.get(key)
            if engine is None or not engine.is_usable:
                engine = _engines[key] = cls(address, read_only=read_only)
        return engine

    async def stop(self) -> None:
        """End the thread; any number of times."""
        with _guard:
            for key in [key for key, engine in _engines.items() if engine is self]:
                del _engines[key]
        await self.installing.stop()
        await self.notices.stop()
        await super().stop()

    def open(self) -> PostgresConnection:
        """A connection to a store, which is made where there is none."""
        writer = None if self.read_only else uuid.uuid4().hex
        connection = PostgresConnection(self._address, writer, is_leaving=lambda: self.writer.is_stopping)
        try:
            self._check_encoding(connection)
            if writer is None:
                refuse_other_version(connection.raw, self._address.schema, self._address.name)
            else:
                create(connection.raw, self._address.schema, self._address.name)
                self._register(connection)
            place = find_pgvector(connection.raw, self._address.schema, may_add=writer is not None)
            if place is not None:
                connection.use_pgvector(place)
        except BaseException:
            connection.raw.close()
            raise
        return connection

    def close(self, connection: PostgresConnection) -> None:
        """Give up what is held still, and end the connection."""
        try:
            if connection.writer is not None and not connection.raw.closed:
                release(connection, list(connection.fences))
                connection.run("remove_claims", {"writer": connection.writer})
                connection.run("remove_writer", {"writer": connection.writer})
        finally:
            connection.raw.close()

    def translate(self, error: Exception) -> Exception:
        """The error to raise in place of one of PostgreSQL."""
        return translate(error, self._address)

    def beat(self, connection: PostgresConnection) -> float | None:
        """Renew the lease; seconds until the next time."""
        if connection.writer is None:
            return None
        return connection.keep_lease()

    def _register(self, connection: PostgresConnection) -> None:
        me = {"host": socket.gethostname(), "pid": os.getpid(), "lease": self._address.lease}
        connection.run("add_writer", {"writer": connection.writer, **me})
        connection.run("tidy_writers")

    def _check_encoding(self, connection: PostgresConnection) -> None:
        (encoding,) = connection.raw.execute("show server_encoding").fetchone() or ("",)
        if encoding != "UTF8":
            raise StoreError(
                f"{self._address.name}: the database has the encoding {encoding}; create one with encoding 'UTF8'"
            )


def take(connection: PostgresConnection, session_id: str, project: str | None) -> None:
    """Become the session's only writer, creating the session if needed; in a transaction of its own."""
    connection.begin_work()
    row = connection.run("lock_session", {"session_id": session_id}).fetchone()
    if row is None:
        branch = connection.insert("begin_branch", {"session_id": session_id, "parent": None, "parent_stop": 0})
        values = {"session_id": session_id, "project": project, "branch": branch, "now": log.now()}
        connection.run("create_session", values)
    else:
        refuse_if_held(connection, session_id, row)
    values = {"session_id": session_id, "project": project, "writer": connection.writer}
    fence = connection.insert("take_session", values)
    connection.commit_work()
    connection.fences[session_id] = fence
    connection.forget_head(session_id)


def refuse_if_held(
    connection: PostgresConnection, session_id: str, row: tuple[str | None, str | None, int | None, bool | None]
) -> None:
    """Raise `SessionInUseError` where a session's row, as `lock_session` finds it, names another living writer."""
    writer, host, pid, lives = row
    is_own = writer == connection.writer
    if session_id in connection.fences and is_own:
        raise SessionInUseError(session_id, os.getpid())
    if writer is None or is_own:
        return
    if lives or connection.run("silent_writer", {"writer": writer}).fetchone() is None:
        raise SessionInUseError(session_id, pid, host)


def release(connection: PostgresConnection, sessions: list[str]) -> None:
    """Give sessions up; those that another host has taken stay its own."""
    if not sessions:
        return
    with suppress(psycopg.OperationalError, StoreError):  # then the lease ends by itself
        connection.begin_work()
        connection.run("release_sessions", {"writer": connection.writer, "sessions": sessions})
        connection.commit_work()
    for session_id in sessions:
        connection.fences.pop(session_id, None)
        connection.forget_head(session_id)
