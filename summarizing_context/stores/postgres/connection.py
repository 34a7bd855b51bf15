"""The connection of a PostgreSQL store: named queries, group commit, and commits whose answer was lost.

Appends are gathered and sent with the commit of their transaction: in one statement, or by COPY where they are many.
Nothing depends on the server's session, so that a pooler may give each transaction another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from summarizing_context.errors import StoreError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import StoredEntry
from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.faults import NOT_OURS, is_connection_lost, lost, may_pass, unreachable
from summarizing_context.stores.postgres.schema import queries_for
from summarizing_context.stores.postgres.words import PREPARED, parts
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.database import Values

logger = logging.getLogger(__name__)

_PATIENCE = 20.0  # seconds that an operation waits for a server that cannot be reached
_LEAVING = 0.5  # the same while the store is closed
_RETRY = 0.1  # seconds
_RENEWALS = 3  # in the time of a lease
_MANY = 500  # entries, from which on they are copied
_MANY_BYTES = 1 << 20


class _Batch(NamedTuple):
    """Entries of one session that are not sent yet."""

    session_id: str
    head: log.Head
    entries: Sequence[StoredEntry]


@dataclass(slots=True)
class _Transaction:
    """What is open."""

    batch: int  # its number
    began: float  # by the monotonic clock
    is_sent: bool = False  # the server knows of it
    appends: list[_Batch] = field(default_factory=list)
    heads: dict[str, log.Head] = field(default_factory=dict)  # after it


class PostgresConnection:
    """A `Connection` for the writer's thread. `fences` holds the sessions that this writer has."""

    def __init__(self, address: Address, writer: str | None, *, is_leaving: Callable[[], bool]) -> None:
        self._address = address
        self._queries = queries_for(address.schema)
        self.has_pgvector = False
        self._is_leaving = is_leaving
        self._transaction: _Transaction | None = None
        self._is_reading = False
        self._batch = 0
        self._heads: dict[str, log.Head] = {}
        self.writer = writer  # None: it only reads
        self.fences: dict[str, int] = {}
        self._kept_at = time.monotonic()  # the lease, which the writer's row begins with
        self.raw = self._connect()

    def use_pgvector(self, place: str) -> None:
        """Let the server compare vectors: pgvector is in this schema, and vectors are kept for it."""
        self._queries = {name: text.replace("pgvector.", f"{place}.") for name, text in self._queries.items()}
        self.has_pgvector = True

    # Transactions

    def begin_work(self) -> None:
        """Begin a transaction that writes. The server learns of it with its first query."""
        self._ensure()
        self._keep_due_lease()
        self._batch += 1
        self._transaction = _Transaction(self._batch, time.monotonic())

    def begin_read(self) -> None:
        """Begin to read one state of the store."""
        self._ensure()
        self._keep_due_lease()
        self.raw.execute("begin isolation level repeatable read, read only")
        self._is_reading = True

    def commit_work(self) -> None:
        """End the transaction; what was written is durable."""
        transaction, self._transaction = self._transaction, None
        if transaction is None or self._is_reading:
            self._is_reading = False
            self.raw.execute("commit")
            return
        try:
            if transaction.is_sent and self._is_due(transaction.began):
                self._renew(transaction)
            self._send_rest(transaction)
        except Exception as error:
            if not (is_connection_lost(error) and self._was_committed(transaction.batch)):
                self._transaction = transaction
                _name_lost(error, transaction.heads)
                raise
        self._heads.update(transaction.heads)
        if transaction.is_sent or transaction.heads:
            self._kept_at = transaction.began

    def undo_work(self) -> None:
        transaction, self._transaction = self._transaction, None
        self._is_reading = False
        if transaction is not None:
            for session_id in {batch.session_id for batch in transaction.appends} | set(transaction.heads):
                self._heads.pop(session_id, None)
        if not self.raw.closed and self.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.raw.execute("rollback")
        self._keep_due_lease()

    def may_pass(self, error: Exception) -> bool:
        return may_pass(error)

    # Queries

    def run(self, name: str, values: Values = ()) -> psycopg.Cursor[Any]:
        """Run a query; appends that were gathered before go first."""
        self._send()
        return self.raw.execute(self._queries[name].encode(), _prepared(name, values))

    def run_many(self, name: str, rows: Iterable[Values]) -> None:
        self._send()
        with self.raw.cursor() as cursor:
            cursor.executemany(self._queries[name].encode(), [_prepared(name, row) for row in rows])

    def insert(self, name: str, values: Values) -> int:
        row = self.run(name, values).fetchone()
        assert row is not None
        return int(row[0])

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self._send()
        self._add_words(texts)

    def _add_words(self, texts: Iterable[tuple[int, str]]) -> None:
        values = _words(texts)
        if values["numbers"]:
            self.raw.execute(self._queries["add_words"].encode(), values)

    # Sessions of this writer

    def keep_lease(self) -> float:
        """Renew the lease; seconds until the next time."""
        self._ensure()
        began = time.monotonic()
        values = {"writer": self.writer, "lease": self._address.lease}
        self.raw.execute(self._queries["keep_lease"].encode(), values)
        self._kept_at = began
        return self._address.lease / _RENEWALS

    def _is_due(self, kept_at: float) -> bool:
        return time.monotonic() - kept_at >= self._address.lease / _RENEWALS

    def _keep_due_lease(self) -> None:
        """No transaction begins with little time left: while it is open, nobody sees what it renews."""
        if self.writer is not None and not self.raw.closed and self._is_due(self._kept_at):
            with suppress(psycopg.Error):  # what follows meets the same fault, and tells it
                self.keep_lease()

    def check_fence(self, session_id: str) -> None:
        """Raise `SessionLostError` unless the session is this writer's; nobody takes it until the transaction ends."""
        values = {"session_id": session_id, "writer": self.writer, "fence": self.fences.get(session_id, -1)}
        if self.run("check_fence", values).fetchone() is None:
            raise lost(session_id)

    def forget_head(self, session_id: str) -> None:
        """What is known of a log's end holds no longer."""
        self._heads.pop(session_id, None)
        if self._transaction is not None:
            self._transaction.heads.pop(session_id, None)

    def append(self, session_id: str, entries: Sequence[StoredEntry]) -> None:
        """Gather entries for the end of a log; they are sent with the transaction."""
        if not all(map(_is_bytes, entries)):
            raise StoreError(f"{self._address.name}: the store was given something that it cannot keep; it takes bytes")
        transaction = self._transaction
        assert transaction is not None
        head = transaction.heads.get(session_id) or self._heads.get(session_id)
        if head is None or head.taken:
            self.check_fence(session_id)
            head = log.own_head(self, session_id)
        transaction.appends.append(_Batch(session_id, head, entries))
        transaction.heads[session_id] = head._replace(stop=head.stop + len(entries))

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
        if not self.raw.closed:
            return
        until = time.monotonic() + (_LEAVING if self._is_leaving() else _PATIENCE)
        while True:
            try:
                self.raw = self._connect()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() >= until or self._is_leaving():
                    fault = unreachable(self._address, error)
                    raise fault from fault.__cause__
            time.sleep(_RETRY)

    def _was_committed(self, batch: int) -> bool:
        """Whether a transaction whose commit got no answer took place; one still under way is waited for."""
        try:
            self.raw.close()
            self._ensure()
            query = self._queries["newest_batch"].encode()
            row = self.raw.execute(query, {"writer": self.writer}).fetchone()
        except Exception as error:
            logger.warning("it is not known whether a transaction took place", extra={"cause": type(error).__name__})
            return False
        return row is not None and row[0] == batch

    def _send(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        if not transaction.is_sent:
            transaction.is_sent = True
            with self.raw.pipeline():
                self._begin(transaction)
        appends, transaction.appends = transaction.appends, []
        if appends:
            try:
                self._send_appends(appends)
            except psycopg.Error as error:
                _name_lost(error, {batch.session_id for batch in appends})
                raise

    def _send_rest(self, transaction: _Transaction) -> None:
        """All that is left of a transaction with its commit, in one message if nothing was sent before."""
        appends, transaction.appends = transaction.appends, []
        if not transaction.is_sent and not appends:
            return
        if _is_large(appends):
            self._transaction, transaction.appends = transaction, appends
            self._send()
            self._transaction = None
            self.raw.execute("commit")
            return
        rows = list(_rows(appends))
        if rows and not transaction.is_sent:
            self._commit_appends(transaction.batch, appends, rows)
            return
        with self.raw.pipeline():
            if not transaction.is_sent:
                self._begin(transaction)
            if appends:
                self._move_heads(appends)
                self._add_entries(appends)
            self.raw.execute("commit")

    def _commit_appends(
        self, batch: int, appends: Sequence[_Batch], rows: Sequence[tuple[int, int, bytes, bytes]]
    ) -> None:
        """A whole transaction in one statement."""
        names = ("entry_branches", "entry_positions", "messages", "facts")
        rules = ("rule_sessions", "digests", "versions", "rule_positions", "rules")
        values: dict[str, Any] = {
            **self._heads_of(appends),
            **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)),
            **{name: [rule[at] for rule in _rules(appends)] for at, name in enumerate(rules)},
            **_words(_texts(appends)),
            "batch": batch,
            "lease": self._address.lease,
        }
        self.raw.execute(self._queries["commit_appends"].encode(), values)

    def _begin(self, transaction: _Transaction) -> None:
        self.raw.execute("begin")
        self._renew(transaction)

    def _renew(self, transaction: _Transaction) -> None:
        values = {"batch": transaction.batch, "writer": self.writer, "lease": self._address.lease}
        self.raw.execute(self._queries["renew"].encode(), values)

    def _send_appends(self, appends: Sequence[_Batch]) -> None:
        if _is_large(appends):
            self._move_heads(appends)
            with self.raw.cursor() as cursor, cursor.copy(self._queries["copy_entries"].encode()) as copy:
                copy.set_types(["int8", "int8", "bytea", "bytea"])
                for row in _rows(appends):
                    copy.write_row(row)
            self._add_rules(appends)
            self._add_words(_texts(appends))
        else:
            with self.raw.pipeline():
                self._move_heads(appends)
                self._add_entries(appends)

    def _move_heads(self, appends: Sequence[_Batch]) -> None:
        self.raw.execute(self._queries["move_heads"].encode(), self._heads_of(appends))

    def _heads_of(self, appends: Sequence[_Batch]) -> dict[str, Any]:
        first: dict[str, log.Head] = {}
        stops: dict[str, int] = {}
        for session_id, head, entries in appends:
            first.setdefault(session_id, head)
            stops[session_id] = head.stop + len(entries)
        return {
            "sessions": list(first),
            "fences": [self.fences.get(session_id, -1) for session_id in first],
            "branches": [head.branch for head in first.values()],
            "starts": [head.stop for head in first.values()],
            "stops": list(stops.values()),
            "writer": self.writer,
            "count": len(first),
            "now": log.now(),
        }

    def _add_entries(self, appends: Sequence[_Batch]) -> None:
        rows = list(_rows(appends))
        if rows:
            self.raw.execute(
                self._queries["add_entries"].encode(), [list(column) for column in zip(*rows, strict=True)]
            )
        self._add_rules(appends)
        self._add_words(_texts(appends))

    def _add_rules(self, appends: Sequence[_Batch]) -> None:
        for row in _rules(appends):
            self.raw.execute(self._queries["add_rules"].encode(), row)


def _name_lost(error: Exception, sessions: Collection[str]) -> None:
    """Raise `SessionLostError` with its name where one session alone was written to, and is lost."""
    if isinstance(error, psycopg.Error) and error.sqlstate == NOT_OURS and len(sessions) == 1:
        raise lost(*sessions) from error


def _rules(appends: Sequence[_Batch]) -> list[tuple[str, bytes, str, int, bytes]]:
    return [
        (session_id, rule.digest, rule.version, head.stop + at, rule.rules)
        for session_id, head, entries in appends
        for at, entry in enumerate(entries)
        for rule in entry.rules
    ]


def _rows(appends: Sequence[_Batch]) -> Iterable[tuple[int, int, bytes, bytes]]:
    for _, head, entries in appends:
        for at, entry in enumerate(entries):
            yield head.branch, head.stop + at, entry.message, entry.facts


def _texts(appends: Sequence[_Batch]) -> Iterable[tuple[int, str]]:
    for branch, position, message, _ in _rows(appends):
        yield (branch << 32) + position, searchable(message)


def _words(texts: Iterable[tuple[int, str]]) -> dict[str, list[Any]]:
    """Texts by parts, as `add_words` takes them."""
    rows = [(number, at, part) for number, text in texts for at, part in enumerate(parts(text))]
    return {name: [row[at] for row in rows] for at, name in enumerate(("numbers", "parts", "texts"))}


def _is_bytes(entry: StoredEntry) -> bool:
    parts = [entry.message, entry.facts, *(part for rule in entry.rules for part in (rule.digest, rule.rules))]
    return all(isinstance(part, bytes) for part in parts)


def _is_large(appends: Sequence[_Batch]) -> bool:
    entries = [entry for batch in appends for entry in batch.entries]
    return len(entries) >= _MANY or sum(len(entry.message) for entry in entries) >= _MANY_BYTES


def _prepared(name: str, values: Values) -> Any:
    prepare = PREPARED.get(name)
    return values if prepare is None else prepare(values)
