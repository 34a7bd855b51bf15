"""The connection of a PostgreSQL store: named queries, the lease of its writer, and commits whose answer was lost.

Nothing depends on the server's session, so that a pooler may give each transaction another one.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.faults import NOT_OURS, is_connection_lost, lost, may_pass, unreachable
from summarizing_context.stores.postgres.words import as_query, parts
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import Values, read_queries

logger = logging.getLogger(__name__)

PACKAGE = "summarizing_context.stores.postgres"

_PATIENCE = 20.0  # seconds that an operation waits for a server that cannot be reached
_LEAVING = 0.5  # the same while the store is closed
_RETRY = 0.1  # seconds
_RENEWALS = 3  # in the time of a lease


@cache
def queries_for(schema: str) -> dict[str, str]:
    """Return all queries by name, for one schema, with the marks of psycopg for values."""
    value = re.compile(r"(?<![:\w]):([a-z_]+)")
    queries = read_queries(PACKAGE, schema=f"{schema}.")
    return {name: value.sub(r"%(\1)s", query).replace("?", "%s") for name, query in queries.items()}


async def connect(address: Address, name: str = "summarizing-context") -> psycopg.AsyncConnection[Any]:
    """Return a connection for an event loop, to be used beside that of the engine's thread."""
    return await psycopg.AsyncConnection.connect(
        address.url, autocommit=True, prepare_threshold=None, connect_timeout=5, application_name=name
    )


class PostgresConnection:
    """A `Connection` for the engine's thread. `fences` holds the sessions that this writer has; `writer` is None where
    it only reads."""

    def __init__(self, address: Address, writer: str | None, *, is_leaving: Callable[[], bool]) -> None:
        self._address = address
        self._queries = queries_for(address.schema)
        self.has_pgvector = False
        self._is_leaving = is_leaving
        self.writer = writer
        self.fences: dict[str, int] = {}
        self._heads: dict[str, log.Head] = {}  # where logs end, as far as it is known
        self._appended: dict[str, tuple[log.Head, list[StoredEntry]]] = {}  # that is not sent yet
        self._batch = 0  # the number of the transaction
        self._is_begun: bool | None = None  # whether the server knows of it; None where there is none that writes
        self._began = self._kept_at = time.monotonic()  # the transaction; the lease, which begins with the writer's row
        self.raw = self._connect()

    def use_pgvector(self, place: str) -> None:
        """Let the server compare vectors: pgvector is in this schema, and vectors are kept for it."""
        self._queries = {name: text.replace("pgvector.", f"{place}.") for name, text in self._queries.items()}
        self.has_pgvector = True

    # Transactions

    def begin_work(self) -> None:
        """Begin a transaction that writes; the server learns of it with the first query."""
        self._ensure()
        self._batch += 1
        self._began = time.monotonic()
        self._is_begun = False

    def commit_work(self) -> None:
        is_begun, self._is_begun = self._is_begun, None
        is_kept = is_begun or bool(self._appended)
        try:
            self._send_appended()  # alone it is a transaction of its own
            if is_begun:
                if self._is_due(self._began):
                    self._renew()
                self.raw.execute("commit")
        except Exception as error:
            if not (is_connection_lost(error) and self._was_committed()):
                raise
        if is_kept:
            self._kept_at = self._began

    def undo_work(self) -> None:
        self._is_begun = None
        self._heads.clear()
        self._appended.clear()
        if not self.raw.closed and self.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.raw.execute("rollback")
        self._keep_due_lease()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For work that begins its own transactions; the engine undoes one that fails."""
        self.begin_work()
        yield
        self.commit_work()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the store."""
        self._ensure()
        self._keep_due_lease()
        self.raw.execute("begin isolation level repeatable read, read only")
        yield
        self.raw.execute("commit")

    def may_pass(self, error: Exception) -> bool:
        return may_pass(error)

    # Queries

    def run(self, name: str, values: Values = ()) -> psycopg.Cursor[Any]:
        self._send_what_is_first()
        if isinstance(values, Mapping):
            if name == "move_head":
                self._heads.pop(values["session_id"], None)
            if name == "index_memory":
                values = {**values, "content": " ".join(parts(values["content"]))}
            if "match" in values:
                values = {**values, "match": as_query(values["match"])}
        return self._execute(name, values)

    def _execute(self, name: str, values: Values) -> psycopg.Cursor[Any]:
        return self.raw.execute(self._queries[name].encode(), values)

    def _send_what_is_first(self) -> None:
        """Send the beginning of the transaction, with its number and a new lease, and what was appended."""
        if self._is_begun is False:
            self._is_begun = True
            with self.raw.pipeline():
                self.raw.execute("begin")
                self._renew()
        self._send_appended()

    def run_many(self, name: str, rows: Iterable[Values]) -> None:
        self._send_what_is_first()
        with self.raw.cursor() as cursor:
            cursor.executemany(self._queries[name].encode(), list(rows))

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        values = _words(texts)
        if values["numbers"]:
            self.run("add_words", values)

    def append(self, session_id: str, entries: Sequence[StoredEntry]) -> None:
        """Add entries at the end of a log of this writer. What is appended in a row is sent in one statement, which
        asks whether the sessions are this writer's."""
        given = [part for entry in entries for part in (entry.message, entry.facts)]
        given += [part for entry in entries for rule in entry.rules for part in (rule.digest, rule.rules)]
        if not all(isinstance(part, bytes) for part in given):
            raise StoreError(f"{self._address.name}: the store was given something that it cannot keep; it takes bytes")
        head = self._heads.get(session_id)
        if head is None:
            self.check_fence(session_id)
            head = log.own_head(self, session_id)
        self._appended.setdefault(session_id, (head, []))[1].extend(entries)
        self._heads[session_id] = head._replace(stop=head.stop + len(entries))

    def _send_appended(self) -> None:
        appended, self._appended = self._appended, {}
        if not appended:
            return
        heads = [head for head, _ in appended.values()]
        rows = [
            (session_id, head.branch, head.stop + at, entry)
            for session_id, (head, entries) in appended.items()
            for at, entry in enumerate(entries)
        ]
        rules = [(session_id, place, rule) for session_id, _, place, entry in rows for rule in entry.rules]
        values = {
            "sessions": list(appended),
            "fences": [self.fences.get(session_id, -1) for session_id in appended],
            "branches": [head.branch for head in heads],
            "starts": [head.stop for head in heads],
            "stops": [head.stop + len(entries) for head, entries in appended.values()],
            "entry_branches": [branch for _, branch, _, _ in rows],
            "entry_positions": [place for _, _, place, _ in rows],
            "messages": [entry.message for *_, entry in rows],
            "facts": [entry.facts for *_, entry in rows],
            "rule_sessions": [session_id for session_id, _, _ in rules],
            "digests": [rule.digest for *_, rule in rules],
            "versions": [rule.version for *_, rule in rules],
            "rule_positions": [place for _, place, _ in rules],
            "rules": [rule.rules for *_, rule in rules],
            **_words(((branch << 32) + place, searchable(entry.message)) for _, branch, place, entry in rows),
            "writer": self.writer,
            "batch": self._batch,
            "lease": self._address.lease,
            "now": log.now(),
        }
        try:
            self._execute("commit_appends", values)
        except psycopg.Error as error:
            if error.sqlstate == NOT_OURS and len(appended) == 1:
                raise lost(*appended) from error
            raise

    # Sessions of this writer

    def keep_lease(self) -> float:
        """Renew the lease; return the seconds until the next time."""
        self._ensure()
        began = time.monotonic()
        self._execute("keep_lease", {"writer": self.writer, "lease": self._address.lease})
        self._kept_at = began
        return self._address.lease / _RENEWALS

    def _is_due(self, kept_at: float) -> bool:
        return time.monotonic() - kept_at >= self._address.lease / _RENEWALS

    def _keep_due_lease(self) -> None:
        """Nothing begins with little time left."""
        if self.writer is not None and not self.raw.closed and self._is_due(self._kept_at):
            with suppress(psycopg.Error):  # what follows meets the same fault, and tells it
                self.keep_lease()

    def _renew(self) -> None:
        self._execute("renew", {"batch": self._batch, "writer": self.writer, "lease": self._address.lease})

    def check_fence(self, session_id: str) -> None:
        """Raise `SessionLostError` unless the session is this writer's; nobody takes it until the transaction ends."""
        values = {"session_id": session_id, "writer": self.writer, "fence": self.fences.get(session_id, -1)}
        if self.run("check_fence", values).fetchone() is None:
            raise lost(session_id)

    def note_fence(self, session_id: str, fence: int | None) -> None:
        """Note that a session was taken, or given up."""
        self._heads.pop(session_id, None)
        self.fences.pop(session_id, None)
        if fence is not None:
            self.fences[session_id] = fence

    # The server

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self._address.url,
            autocommit=True,
            prepare_threshold=None,  # a pooler gives each transaction another session
            client_encoding="utf8",
            connect_timeout=5,
            application_name="summarizing-context",
        )

    def _ensure(self) -> None:
        """Connect again where the connection is lost; `StoreUnreachableError` when that takes too long."""
        until = time.monotonic() + (_LEAVING if self._is_leaving() else _PATIENCE)
        while self.raw.closed:
            try:
                self.raw = self._connect()
            except psycopg.OperationalError as error:
                if time.monotonic() >= until or self._is_leaving():
                    fault = unreachable(self._address, error)
                    raise fault from fault.__cause__
                time.sleep(_RETRY)

    def _was_committed(self) -> bool:
        """Return whether the transaction whose commit got no answer took place; one still under way is waited for."""
        try:
            self.raw.close()
            self._ensure()
            row = self._execute("newest_batch", {"writer": self.writer}).fetchone()
        except Exception as error:
            logger.warning("it is not known whether a transaction took place", extra={"cause": type(error).__name__})
            return False
        return row is not None and row[0] == self._batch


def _words(texts: Iterable[tuple[int, str]]) -> dict[str, list[Any]]:
    """Return texts by parts, as the queries take them."""
    rows = [(number, at, part) for number, text in texts for at, part in enumerate(parts(text))]
    return {name: [row[at] for row in rows] for at, name in enumerate(("numbers", "parts", "texts"))}
