"""`PostgresStore`: the sessions of many hosts in one schema of a PostgreSQL database.

Nothing that is removed locks what other hosts write: appends, activations and forks of other sessions go on. A row is
gone for every reader with the commit. Its bytes stay in the table's file until a VACUUM has made the space free and the
server has used it again; what it wrote ahead, and its backups, are the operator's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.postgres.connection import PostgresConnection, connect
from summarizing_context.stores.postgres.engine import PostgresEngine, refuse_if_held, release, take
from summarizing_context.stores.postgres.requests import PostgresClaims, PostgresFleet, PostgresRequests
from summarizing_context.stores.postgres.vectors import PostgresVectors
from summarizing_context.stores.relational.engine import Result, Work
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.store import RelationalStore

if TYPE_CHECKING:
    from summarizing_context.stores.postgres.queue import PostgresQueue

logger = logging.getLogger(__name__)

_TABLES = (
    "entries words summaries summary_uses activations activation_history checkpoints rules memories vectors requests"
)


class PostgresStore(RelationalStore[PostgresEngine]):
    """A `Store` on PostgreSQL. `await open()` first; it shares a thread with other stores of the same address.

    `address` is `postgresql://user@host/database`; its parameter `schema` names a schema, `lease` the seconds after
    which the sessions of a vanished host may be taken.
    """

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self._address = read_address(address)
        self._sessions = set[str]()  # that are claimed
        make_engine = partial(PostgresEngine, self._address, read_only=read_only)
        super().__init__(self._address.name, self._sessions, make_engine, place=self._address, read_only=read_only)
        self.schema = self._address.schema
        self.vectors = PostgresVectors(self)

    @property
    def claims(self) -> PostgresClaims | None:
        """Who pays for a summary; nobody where nothing may be written."""
        return None if self._engine is None or self.read_only else PostgresClaims(self, self._engine.notices)

    @property
    def requests(self) -> PostgresRequests:
        """What is asked of a pool of workers. The store must be open."""
        return PostgresRequests(self, self._opened().notices)

    @property
    def fleet(self) -> PostgresFleet:
        """The caps on calls of all workers. The store must be open."""
        return PostgresFleet(self, self._opened().notices)

    def queue(self, maker: str) -> PostgresQueue:
        """Return the jobs for the workers of a model. Raises `MissingExtraError` where no queue is installed."""
        from summarizing_context.stores.postgres.queue import PostgresQueue  # its package is installed on demand

        return PostgresQueue(self._address, maker, self.requests, self._opened())

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; the bytes of their texts."""
        freed = await super().purge()
        tables = ", ".join(f"{self.schema}.{table}" for table in _TABLES.split())
        try:  # their space becomes free, on a connection of its own; a table that is locked is left to autovacuum
            async with await connect(self._address) as connection:
                await connection.execute(f"vacuum (skip_locked) {tables}".encode())
        except psycopg.Error as error:
            logger.warning("the space of removed rows was not made free", extra={"cause": type(error).__name__})
        return freed

    async def _give_up(self, engine: PostgresEngine) -> None:
        held = sorted(self._sessions)
        await engine.submit(lambda connection: release(connection, held), alone=True)

    # What follows runs in the engine's thread.

    def _claim(self, connection: PostgresConnection, session_id: str, project: str | None) -> None:
        take(connection, session_id, project)
        self._sessions.add(session_id)

    def _check_still_ours(self, connection: PostgresConnection, session_id: str) -> None:
        connection.check_fence(session_id)

    def _append(self, connection: PostgresConnection, session_id: str, entries: Sequence[StoredEntry]) -> None:
        connection.append(session_id, entries)

    def _read(self, connection: PostgresConnection, work: Work[Result]) -> Result:
        with connection.reading():
            return work(connection)

    def _delete(self, connection: PostgresConnection, session_id: str) -> bool:
        """Remove a session with the entries and summaries that only it needs."""
        known = {"session_id": session_id}
        with connection.transaction():
            row = connection.run("lock_session", known).fetchone()
            if row is None:
                return False
            if session_id not in self._sessions:
                refuse_if_held(connection, session_id, row)
            for name in ("disown_branches", "remove_session", "remove_checkpoints"):
                connection.run(name, known)
            remove_of_session(connection, session_id)
            connection.run("forget_rules", {**known, "keep": 0})
            _trim(connection, everything=False)
            connection.run("forget_activations", {**known, "keep": 0})
            for name in ("remove_history", "leave_requests", "remove_requests", "remove_own_summaries", "remove_uses"):
                connection.run(name, known)
        connection.note_fence(session_id, None)
        self._sessions.discard(session_id)
        return True

    def _purge(self, connection: PostgresConnection) -> int:
        with connection.transaction():
            freed = _trim(connection, everything=True)
        with connection.transaction():
            connection.run("remove_failed_requests")
            connection.run("remove_stale_uses")
            row = connection.run("remove_unused_summaries").fetchone()
            freed += int(row[0]) if row else 0
            connection.run("remove_unnamed_vectors")
        with connection.transaction():
            connection.run("forget_replaced_states")
        return freed


def _trim(connection: PostgresConnection, *, everything: bool) -> int:
    """Remove what is unneeded of all branches, or of those of deleted sessions; return the bytes of the messages.

    One statement removes, so it sees one state: what others append meanwhile is not in it. What it finds unneeded there
    nobody can need later, for a fork holds its checkpoint until it is committed.
    """
    values: dict[str, object] = {"everything": everything}
    branches = [number for (number,) in connection.run("lock_trimmed", values)]
    if not branches:
        return 0
    row = connection.run("trim", {**values, "branches": branches}).fetchone()
    return int(row[0]) if row else 0
