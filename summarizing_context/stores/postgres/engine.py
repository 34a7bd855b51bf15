"""The engine of a PostgreSQL store, its schema, and the claims of sessions."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.errors import DuplicateSchema, UniqueViolation

from summarizing_context.errors import SessionInUseError, StoreError
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import PACKAGE, PostgresConnection
from summarizing_context.stores.postgres.faults import translate
from summarizing_context.stores.postgres.requests import Notices
from summarizing_context.stores.postgres.vectors import find_pgvector
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import VERSION, Engine, check_version, read_schema


class PostgresEngine(Engine):
    """The engine of one address, for one event loop."""

    def __init__(self, address: Address, *, read_only: bool) -> None:
        super().__init__(address.name, read_only=read_only)
        self.notices = Notices(address)
        self.installing = asyncio.Lock()  # the queue of the pool
        self.is_installed = False
        self._address = address

    async def stop(self) -> None:
        await self.notices.stop()
        await super().stop()

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
            version = _schema_version(connection.raw, self._address.schema)
            if version is None:
                raise StoreError(
                    f"{self.name}: there is no store in this schema; open it once without read_only=True to create it"
                )
            check_version(version, self.name, "name another schema. The store")
            if writer is not None:
                me = {"writer": writer, "host": socket.gethostname(), "pid": os.getpid(), "lease": self._address.lease}
                connection.run("add_writer", me)
                connection.run("tidy_writers")
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
        return translate(error, self._address)

    def beat(self, connection: PostgresConnection) -> float | None:
        return None if connection.writer is None else connection.keep_lease()

    def _create(self, raw: psycopg.Connection[Any]) -> None:
        """Make the tables, whole or not at all, unless they are there."""
        schema = self._address.schema
        if _schema_version(raw, schema):
            return
        try:
            with raw.transaction():
                if raw.execute("select to_regnamespace(%s)", [schema]).fetchone() == (None,):
                    raw.execute(f"create schema {schema}".encode())
                raw.execute(f"create table if not exists {schema}.version (number bigint not null)".encode())
        except (DuplicateSchema, UniqueViolation):  # another process was quicker
            pass
        with raw.transaction():
            raw.execute(f"lock table {schema}.version in access exclusive mode".encode())
            if not _schema_version(raw, schema):  # else another process was quicker
                raw.execute(read_schema(PACKAGE, schema=f"{schema}.").encode())
                raw.execute(f"insert into {schema}.version values ({VERSION:d})".encode())


def _schema_version(raw: psycopg.Connection[Any], schema: str) -> int | None:
    """Return the version that the schema has; None where there is no store in it."""
    (table,) = raw.execute("select to_regclass(%s)", [f"{schema}.version"]).fetchone() or (None,)
    if table is None:
        return None
    row = raw.execute(f"select number from {schema}.version".encode()).fetchone()
    return int(row[0]) if row else 0


def take(connection: PostgresConnection, session_id: str, project: str | None) -> None:
    """Become the session's only writer, creating the session if needed; in a transaction of its own."""
    with connection.transaction():
        row = connection.run("lock_session", {"session_id": session_id}).fetchone()
        if row is None:
            log.create_session(connection, session_id, project)
        else:
            refuse_if_held(connection, session_id, row)
        values = {"session_id": session_id, "project": project, "writer": connection.writer}
        (fence,) = connection.run("take_session", values).fetchone() or (-1,)
    connection.note_fence(session_id, fence)


def refuse_if_held(connection: PostgresConnection, session_id: str, row: Sequence[Any]) -> None:
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
    if sessions:
        try:
            with connection.transaction():
                connection.run("release_sessions", {"writer": connection.writer, "sessions": sessions})
        except (psycopg.OperationalError, StoreError):  # as where a row is locked: the lease ends by itself
            with suppress(psycopg.Error, StoreError):
                connection.undo_work()
    for session_id in sessions:
        connection.note_fence(session_id, None)
