"""The connection of a PostgreSQL store: its address, its errors, named queries, and the lease of its writer.

The address is `postgresql://user@host/database?schema=agents&lease=30`: `schema` and `lease` are ours; all other
parameters are those of libpq. Nothing depends on the server's session, so that a pooler may give each transaction
another one. Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import psycopg

from summarizing_context.errors import SettingsError, StoreUnreachableError
from summarizing_context.messages.search_terms import indexed_words
from summarizing_context.stores.relational.engine import Values, read_queries

_PATIENCE = 20.0  # seconds that operations wait for a server that cannot be reached, from its loss on
_RETRY = 0.1  # seconds
_PART_WORDS = 4_000  # of a part of a text; the server keeps places up to 16,383
_LONGEST_WORD = 500  # letters; the server takes no more than 2,046 bytes

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_WRITE = "write postgresql://user@host:5432/database, with %40 for @ and %2F for / in a name or password"


class Address(NamedTuple):
    """Where a store is."""

    url: str  # for libpq
    schema: str
    lease: float  # seconds after which the sessions of a writer that has vanished may be taken
    name: str  # without a password, as messages show it

    def __repr__(self) -> str:
        return f"Address({self.name!r})"


def read_address(text: str) -> Address:
    """The parts of an address; `SettingsError` where one is wrong."""
    try:
        parts = urlsplit(text.strip())
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        _ = parts.port
    except ValueError:  # whose text may hold a part of the password
        raise SettingsError(f"store: this is not an address; {_WRITE}") from None
    if parts.netloc.count("@") > 1 or "@" in parts.path:
        raise SettingsError(f"store: an @ too many, or a / before it, in this address; {_WRITE}")
    schema = given.pop("schema", "summarizing_context")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise SettingsError("store: schema is 1 to 63 of a-z, 0-9 and _, no digit first, and not pg_…")
    try:
        lease = float(given.pop("lease", "15"))
    except ValueError:
        lease = 0.0
    if not 1 <= lease <= 3600:
        raise SettingsError("store: lease is a number of seconds from 1 to 3600")
    place = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(given, quote_via=quote), ""))
    user, at, host = parts.netloc.rpartition("@")
    shown = {key: value for key, value in given.items() if "password" not in key}
    netloc = f"{user.partition(':')[0]}{at}{host}"
    name = urlunsplit(("postgresql", netloc, parts.path, urlencode({**shown, "schema": schema}, safe="/"), ""))
    return Address(place, schema, lease, name)


def is_connection_lost(error: Exception) -> bool:
    """Return whether the server, or the way to it, has gone."""
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, psycopg.InterfaceError)
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:3] in ("57P", "57p")


def unreachable(address: Address, error: Exception) -> StoreUnreachableError:
    """Return the error where the server cannot be reached. libpq's own words, and `error`, are left out where they may
    hold the password, or a part of it."""
    said, told = " ".join(str(error).split()), "the server cannot be reached; start it or check the address"
    parts = urlsplit(address.url)
    secrets = [value for key, value in parse_qsl(parts.query) if "password" in key]
    secrets += [parts.password or "", unquote(parts.password or "")]
    secrets += [piece for secret in secrets for piece in re.split(r"[@/:?#\s]", secret) if len(piece) >= 3]
    if any(secret and secret in said for secret in secrets):
        return StoreUnreachableError(f"{address.name}: {told}")
    fault = StoreUnreachableError(f"{address.name}: {told}. It said: {said}")
    fault.__cause__ = error
    return fault


@cache
def queries_for(schema: str) -> dict[str, str]:
    """Return all queries by name, for one schema, with the marks of psycopg for values."""
    value = re.compile(r"(?<![:\w]):([a-z_]+)")
    queries = read_queries("summarizing_context.contrib.postgres", schema=f"{schema}.")
    marked = {name: value.sub(r"%(\1)s", query).replace("?", "%s") for name, query in queries.items()}
    return {**marked, "schema": queries["schema"]}


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

    def _renew(self) -> None:
        self.run("renew", batch=self._batch, writer=self.writer, lease=self._address.lease)

    def _was_committed(self) -> bool:
        """Return whether the transaction took place whose answer was lost, however often it has to be asked."""
        while True:
            self.raw.close()
            self.ensure()
            try:
                row = self.run("newest_batch", writer=self.writer).fetchone()
                return row is not None and row[0] == self._batch
            except psycopg.Error as error:
                if not is_connection_lost(error):
                    raise
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
    words = _plain_words(text)
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
