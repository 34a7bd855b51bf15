"""`PostgresStore`: the sessions of many hosts in one schema of a PostgreSQL database.

Nothing that is removed locks what other hosts write: appends, activations and forks of other sessions go on. A row is
gone for every reader with the commit. Its bytes stay in the table's file until a VACUUM has made the space free and the
server has used it again; what it wrote ahead, and its backups, are the operator's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.postgres.address import Address, read_address
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.engine import PostgresEngine, refuse_if_held, release, take
from summarizing_context.stores.postgres.requests import PostgresClaims, PostgresFleet, PostgresRequests
from summarizing_context.stores.postgres.search import PostgresVectors, TsWords
from summarizing_context.stores.relational.database import Work
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.search import RelationalSearchIndex
from summarizing_context.stores.relational.store import RelationalStore
from summarizing_context.stores.requests import SummaryQueue

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_TABLES = (
    "entries",
    "words",
    "summaries",
    "summary_uses",
    "activations",
    "activation_history",
    "checkpoints",
    "rules",
    "memories",
    "vectors",
    "requests",
)


class PostgresStore(RelationalStore[PostgresEngine]):
    """A `Store` on PostgreSQL. `await open()` first; it shares a thread with other stores of the same address.

    `address` is `postgresql://user@host/database`; its parameter `schema` names a schema, `lease` the seconds after
    which the sessions of a vanished host may be taken.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self._address = read_address(address)
        self._sessions = set[str]()  # that are claimed
        super().__init__(self._address.name, self._sessions, read_only=read_only)
        self.schema = self._address.schema
        self.index = RelationalSearchIndex(self, TsWords)
        self.vectors = PostgresVectors(self)

    @property
    def claims(self) -> PostgresClaims | None:
        """Who pays for a summary; nobody where nothing may be written."""
        return None if self._engine is None or self.read_only else PostgresClaims(self, self._engine.notices)

    @property
    def requests(self) -> PostgresRequests:
        """What is asked of a pool of workers. The store must be open."""
        if self._engine is None:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return PostgresRequests(self, self._engine.notices)

    @property
    def fleet(self) -> PostgresFleet:
        """The caps on calls of all workers."""
        return PostgresFleet(self)

    def queue(self, maker: str) -> SummaryQueue:
        """The jobs for the workers of a model. Raises `MissingExtraError` where no queue is installed."""
        from summarizing_context.stores.postgres.queue import PostgresQueue  # its package is installed on demand

        requests, engine = self.requests, self._engine
        assert engine is not None
        return PostgresQueue(self._address, maker, requests, engine.notices, engine.installing)

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; the bytes of their texts."""
        freed = await super().purge()
        await _make_free(self._address)
        return freed

    def _join(self) -> PostgresEngine:
        return PostgresEngine.shared(self._address, read_only=self.read_only)

    async def _leave(self, engine: PostgresEngine) -> None:
        try:
            if self._is_open:
                held = sorted(self._sessions)
                await engine.writer.submit(lambda connection: release(connection, held), alone=True)
        finally:
            if not engine.stores:
                await engine.stop()

    def _fenced(self, session_id: str, work: Work[Result]) -> Work[Result]:
        def fenced(connection: PostgresConnection) -> Result:
            connection.check_fence(session_id)
            try:
                return work(connection)
            finally:
                connection.forget_head(session_id)

        return fenced

    # What follows runs in the writer's thread.

    def _claim(self, connection: PostgresConnection, session_id: str, project: str | None) -> None:
        take(connection, session_id, project)
        self._sessions.add(session_id)

    def _append(self, connection: PostgresConnection, session_id: str, entries: Sequence[StoredEntry]) -> None:
        connection.append(session_id, entries)

    def _read(self, connection: PostgresConnection, work: Work[Result]) -> Result:
        connection.begin_read()
        result = work(connection)
        connection.commit_work()
        return result

    def _delete(self, connection: PostgresConnection, session_id: str) -> bool:
        found = remove_session(connection, session_id, is_ours=session_id in self._sessions)
        self._sessions.discard(session_id)
        return found

    def _purge(self, connection: PostgresConnection) -> int:
        connection.begin_work()
        freed = _trim(connection, everything=True)
        connection.commit_work()
        connection.begin_work()
        connection.run("remove_failed_requests")
        connection.run("remove_stale_uses")
        row = connection.run("remove_unused_summaries").fetchone()
        freed += int(row[0]) if row else 0
        connection.run("remove_unnamed_vectors")
        connection.commit_work()
        connection.begin_work()
        connection.run("forget_replaced_states")
        connection.commit_work()
        return freed


def remove_session(connection: PostgresConnection, session_id: str, *, is_ours: bool) -> bool:
    """Remove a session with the entries and summaries that only it needs; False if there is none."""
    known = {"session_id": session_id}
    connection.begin_work()
    row = connection.run("lock_session", known).fetchone()
    if row is None:
        connection.commit_work()
        return False
    if not is_ours:
        refuse_if_held(connection, session_id, row)
    connection.run("disown_branches", known)
    connection.run("remove_session", known)
    connection.run("remove_checkpoints", known)
    remove_of_session(connection, session_id)
    connection.run("forget_rules", {**known, "keep": 0})
    _trim(connection, everything=False)
    connection.run("forget_activations", {**known, "keep": 0})
    connection.run("remove_history", known)
    connection.run("leave_requests", known)
    connection.run("remove_requests", known)
    connection.run("remove_own_summaries", known)
    connection.run("remove_uses", known)
    connection.commit_work()
    connection.fences.pop(session_id, None)
    connection.forget_head(session_id)
    return True


def _trim(connection: PostgresConnection, *, everything: bool) -> int:
    """Remove what is unneeded of all branches, or of those of deleted sessions; the bytes of the messages.

    One statement removes, so it sees one state: what others append meanwhile is not in it. What it finds unneeded there
    nobody can need later, for a fork holds its checkpoint until it is committed.
    """
    values: dict[str, object] = {"everything": everything}
    branches = [number for (number,) in connection.run("lock_trimmed", values)]
    if not branches:
        return 0
    row = connection.run("trim", {**values, "branches": branches}).fetchone()
    return int(row[0]) if row else 0


async def _make_free(address: Address) -> None:
    """Make the space of removed rows free, on a connection of its own. A table that is locked is left to autovacuum."""
    tables = ", ".join(f"{address.schema}.{table}" for table in _TABLES)
    try:
        async with await psycopg.AsyncConnection.connect(
            address.url, autocommit=True, connect_timeout=5, application_name="summarizing-context"
        ) as connection:
            await connection.execute(f"vacuum (skip_locked) {tables}".encode())
    except psycopg.Error as error:
        logger.warning("the space of removed rows was not made free", extra={"cause": type(error).__name__})
