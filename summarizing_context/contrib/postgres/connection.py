"""The connection of a PostgreSQL store: named queries, the lease of its writer, and commits whose answer was lost.

Nothing depends on the server's session, so that a pooler may give each transaction another one.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg

from summarizing_context.contrib.postgres.address import Address
from summarizing_context.contrib.postgres.faults import is_connection_lost, lost, translate, unreachable
from summarizing_context.messages.search_terms import indexed_words
from summarizing_context.stores.relational.engine import Values, read_queries

_PATIENCE = 20.0  # seconds that operations wait for a server that cannot be reached, from its loss on
_RETRY = 0.1  # seconds
_PIECE = 50_000  # characters whose words are looked at in one go
_PART_WORDS = 4_000  # of a part of a text; the server keeps places up to 16,383
_LONGEST_WORD = 500  # letters; the server takes no more than 2,046 bytes


@cache
def queries_for(schema: str) -> dict[str, str]:
    """Return all queries by name, for one schema, with the marks of psycopg for values."""
    value = re.compile(r"(?<![:\w]):([a-z_]+)")
    queries = read_queries("summarizing_context.contrib.postgres", schema=f"{schema}.")
    tables = queries.pop("schema")
    return {name: value.sub(r"%(\1)s", query).replace("?", "%s") for name, query in queries.items()} | {
        "schema": tables
    }


async def connect(address: Address) -> psycopg.AsyncConnection[Any]:
    """Return a connection for an event loop, to be used beside that of the engine's thread."""
    return await psycopg.AsyncConnection.connect(
        address.url, autocommit=True, prepare_threshold=None, connect_timeout=5, application_name="summarizing-context"
    )


class PostgresConnection:
    """A `Connection` for the engine's thread. `fences` holds the sessions that this writer has; `writer` is None where
    it only reads."""

    def __init__(self, address: Address, writer: str | None, *, is_leaving: Callable[[], bool]) -> None:
        self._address = address
        self._queries = queries_for(address.schema)
        self._is_leaving = is_leaving
        self.writer = writer
        self.fences: dict[str, int] = {}
        self._batch = 0  # the number of the transaction
        self._began = 0.0  # by the monotonic clock
        self._lost_at: float | None = None  # the same, while the server cannot be reached
        self.raw = self._connect()

    # Transactions

    def begin_work(self) -> None:
        """Begin a transaction that writes: with its number, and a new lease that holds from now on."""
        self.ensure()
        self._batch += 1
        self._began = time.monotonic()
        with self.raw.pipeline():
            self.raw.execute("begin")
            self._renew()

    def commit_work(self) -> None:
        """End it. A commit whose answer was lost is looked up; one still under way is waited for."""
        if time.monotonic() - self._began > self._address.lease / 3:
            self._renew()
        try:
            self.raw.execute("commit")
        except Exception as error:
            if not (is_connection_lost(error) and self._was_committed()):
                raise

    def undo_work(self) -> None:
        if not self.raw.closed and self.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.raw.execute("rollback")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For work that begins its own transactions; the engine undoes one that fails."""
        self.begin_work()
        yield
        self.commit_work()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the store."""
        self.ensure()
        self.raw.execute("begin isolation level repeatable read, read only")
        yield
        self.raw.execute("commit")

    def _renew(self) -> None:
        self.run("renew", batch=self._batch, writer=self.writer, lease=self._address.lease)

    def _was_committed(self) -> bool:
        """Return whether the transaction took place whose answer was lost. An error of ours where that cannot be known:
        nothing is tried again then, for it could be done twice."""
        while True:
            self.raw.close()
            self.ensure()
            try:
                row = self.run("newest_batch", writer=self.writer).fetchone()
                return row is not None and row[0] == self._batch
            except psycopg.Error as error:
                if not is_connection_lost(error):
                    raise translate(error, self._address) from error
                time.sleep(_RETRY)

    # Queries

    def run(self, query: str, /, **values: Any) -> psycopg.Cursor[Any]:
        if query == "index_memory":
            values["content"] = " ".join(_parts(values["content"]))
        if "match" in values:
            values["match"] = _as_query(values["match"])
        return self.raw.execute(self._queries[query].encode(), values)

    def run_many(self, query: str, rows: Iterable[Values]) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(self._queries[query].encode(), list(rows))

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index words by parts: the server takes no text of any size."""
        self.run_many("add_words", [(n, at, part) for n, text in texts for at, part in enumerate(_parts(text))])

    # Sessions of this writer

    def check_fence(self, session_id: str) -> None:
        """Raise `SessionLostError` unless the session is this writer's; none takes it until the transaction ends."""
        fence = self.fences.get(session_id, -1)
        if self.run("check_fence", session_id=session_id, writer=self.writer, fence=fence).fetchone() is None:
            raise lost(session_id)

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

    def ensure(self) -> None:
        """Connect again where the connection is lost; `StoreUnreachableError` when that takes too long."""
        while self.raw.closed:
            lost_at = self._lost_at = self._lost_at or time.monotonic()
            try:
                self.raw = self._connect()
                self._lost_at = None
            except psycopg.OperationalError as error:
                if time.monotonic() >= lost_at + _PATIENCE or self._is_leaving():
                    fault = unreachable(self._address, error)
                    raise fault from fault.__cause__
                time.sleep(_RETRY)


# Texts as the server indexes them: words alone, without accents; it stems and ranks them.


def _parts(text: str) -> Iterator[str]:
    """Yield a text in parts that the server can index, at least one: words with one space between them."""
    words: list[str] = []
    start = 0
    while start < len(text):  # in pieces between words: one call over megabytes would hold every other thread up
        space = re.compile(r"\s").search(text, start + _PIECE, start + 2 * _PIECE)
        stop = space.end() if space else start + 2 * _PIECE
        words += _plain_words(text[start:stop])
        start = stop
    for start in range(0, len(words) or 1, _PART_WORDS):
        yield " ".join(words[start : start + _PART_WORDS])


def _plain_words(text: str) -> list[str]:
    if not text.isascii():
        spaced = unicodedata.normalize("NFD", indexed_words(text))
        text = "".join(letter for letter in spaced if unicodedata.category(letter) != "Mn")
    return [word[:_LONGEST_WORD] for word in re.sub(r"[\W_]+", " ", text).lower().split()]


def _as_query(match: str) -> str:
    """Return what `websearch_to_tsquery` reads for phrases in quotation marks that are joined by OR or AND."""
    joint = " " if " AND " in match else " or "
    return joint.join(f'"{" ".join(_plain_words(phrase))}"' for phrase in re.findall(r'"([^"]*)"', match))
