"""`PostgresStore`: the sessions of many hosts in one schema of a PostgreSQL database.

The address is `postgresql://user@host/database?schema=agents&lease=30`: `schema` and `lease` are ours; all other
parameters are those of libpq. Nothing depends on the server's session, so that a pooler may give each transaction
another one. Neither the values of a query nor the text of a message gets into an error.

Nothing that is removed locks what other hosts write. A row is gone for every reader with the commit; its bytes stay in
the table's file until a VACUUM has made the space free and the server has used it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import threading
import time
import unicodedata
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation

from summarizing_context import errors
from summarizing_context.errors import SettingsError, StoreError, StoreUnreachableError
from summarizing_context.messages.text import indexed_words
from summarizing_context.stores.base import SummaryKey
from summarizing_context.stores.relational import store as relational
from summarizing_context.stores.relational.store import Engine, RelationalStore, Result, Work

logger = logging.getLogger(__name__)

_WRITE = "write postgresql://user@host:5432/database, with %40 for @ and %2F for / in a name or password"
LOOK_AGAIN = 0.5  # seconds from the first look to the next; later ones come more slowly


@dataclass(frozen=True, slots=True)
class Address:
    url: str = field(repr=False)  # for libpq
    schema: str
    lease: float  # seconds after which the sessions of a writer that has vanished may be taken
    name: str  # without a password, as messages show it


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
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema) or schema.startswith("pg_"):
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
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, psycopg.InterfaceError)
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:3] in ("57P", "57p")


def unreachable(address: Address, error: Exception) -> StoreUnreachableError:
    """Return the error where the server cannot be reached, without libpq's words where a password may be in them."""
    said, parts = " ".join(str(error).split()), urlsplit(address.url)
    told = f"{address.name}: the server cannot be reached; start it or check the address"
    secrets = [value for key, value in parse_qsl(parts.query) if "password" in key]
    secrets += [parts.password or "", unquote(parts.password or "")]
    secrets += [piece for secret in secrets for piece in re.split(r"[@/:?#\s]", secret) if len(piece) >= 3]
    if any(secret and secret in said for secret in secrets):
        return StoreUnreachableError(told)
    fault = StoreUnreachableError(f"{told}. It said: {said}")
    fault.__cause__ = error
    return fault


def queries_for(schema: str) -> dict[str, str]:
    """Return all queries by name, for one schema, with the marks of psycopg for values."""
    queries, value = relational.read_queries(__package__, schema=f"{schema}."), re.compile(r"(?<![:\w]):([a-z_]+)")
    tables = {"schema": queries.pop("schema")}
    marked = {name: value.sub(r"%(\1)s", query.replace("%", "%%")) for name, query in queries.items()}
    return {name: query.replace("?", "%s") for name, query in marked.items()} | tables


def _plain_words(text: str) -> list[str]:
    """Return a text as the server indexes it, without accents; it stems and ranks what it gets."""
    if not text.isascii():
        spaced = unicodedata.normalize("NFD", indexed_words(text))
        text = "".join(letter for letter in spaced if unicodedata.category(letter) != "Mn")
    # the server takes no more than 2,046 bytes of a word
    return [word[:500] for word in re.sub(r"[\W_]+", " ", text).lower().split()]


_LOST = "this host no longer has its lease; nothing was written: open the session again"
_FULL = "the server has no space left; nothing was written: free some and call again"
_LOCKED = "another process held a lock for too long; try again, or find out which one holds it"
_READ_ONLY = "the server refused to write; grant the rights, or use read_only=True"

_BY_STATE: dict[str, tuple[type[StoreError], str]] = {
    **dict.fromkeys(("53100", "53200"), (errors.StoreFullError, _FULL)),
    **dict.fromkeys(("55P03", "40P01"), (errors.StoreLockedError, _LOCKED)),
    **dict.fromkeys(("25006", "42501"), (errors.StoreReadOnlyError, _READ_ONLY)),
    "57014": (StoreError, "the statement was cancelled; try again"),
    "XX001": (errors.StoreCorruptError, "the server reports damaged data; restore it from a backup"),
    "XX002": (errors.StoreCorruptError, "the server reports a damaged index; rebuild it with REINDEX"),
    "42P01": (StoreError, "a table is missing; was the schema removed while the store was open? Open it again"),
    "3F000": (StoreError, "the schema is missing; was it removed while the store was open? Open it again"),
}


class PostgresEngine(Engine):
    """The engine of one address, for one event loop, and its own `Connection`."""

    raw: psycopg.Connection[Any]

    def __init__(self, address: Address, *, read_only: bool) -> None:
        super().__init__(address.name, read_only=read_only)
        self._address, self._queries = address, queries_for(address.schema)
        self.writer = None if read_only else os.urandom(16).hex()
        self._batch = 0  # the number of the transaction
        self._lost_at: float | None = None  # by the clock, while the server cannot be reached
        self._ended = threading.Event()
        self._beating = threading.Thread(target=self._beat, name=f"lease {address.name}", daemon=True)

    def open(self) -> PostgresEngine:
        """Connect to a store, which is made where there is none."""
        raw = self.raw = self._connect()
        schema, writer = self._address.schema, self.writer
        try:
            (encoding,) = raw.execute("show server_encoding").fetchone() or ("",)
            if encoding != "UTF8":
                raise StoreError(f"{self.name}: the database has the encoding {encoding}; create one with 'UTF8'")
            with raw.transaction():  # the tables are made whole or not at all
                if writer is not None:
                    raw.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [schema])
                    if raw.execute("select to_regnamespace(%s)", [schema]).fetchone() == (None,):
                        raw.execute(f"create schema {schema}".encode())
                if raw.execute("select to_regclass(%s)", [f"{schema}.version"]).fetchone() == (None,):
                    if writer is None:
                        words = "there is no store in this schema; open it once without read_only=True to create it"
                        raise StoreError(f"{self.name}: {words}")
                    raw.execute(self._queries["schema"].encode())
                    raw.execute(f"insert into {schema}.version values ({relational.VERSION:d})".encode())
                (version,) = raw.execute(f"select number from {schema}.version".encode()).fetchone() or (0,)
            relational.check_version(int(version), self.name, "name another schema. The store")
            if writer is not None:
                host, lease = socket.gethostname(), self._address.lease
                self.run("add_writer", writer=writer, host=host, pid=os.getpid(), lease=lease)
                self.run("tidy_writers")
                self._beating.start()
        except BaseException:
            raw.close()
            raise
        return self

    def close(self) -> None:
        """End the claims and the lease of this writer, and the connection."""
        try:
            self._ended.set()
            if self.writer is not None:
                self._beating.join()
            for _ in range(2 if self.writer is not None else 0):  # by a second connection where one is lost
                try:
                    self.ensure()
                    self.rollback()
                    self.run("remove_claims", writer=self.writer)
                    self.run("remove_writer", writer=self.writer)
                    break
                except psycopg.OperationalError:
                    self.raw.close()
        finally:
            self.raw.close()

    def fault(self, error: Exception) -> StoreError | None:
        """Return the error to raise in place of `error`, its cause unless it may repeat what was to be kept."""
        if is_connection_lost(error):
            return unreachable(self._address, error)
        if isinstance(error, psycopg.DataError):
            return StoreError(f"{self.name}: the store cannot keep a value ({type(error).__name__})")
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate or ""
        kind, text = _BY_STATE.get(state, (StoreError, f"PostgreSQL reported error {state} ({type(error).__name__})"))
        fault = kind(f"{self.name}: {text}")
        fault.__cause__ = error
        return fault

    def may_pass(self, error: Exception) -> bool:
        return is_connection_lost(error) or isinstance(error, DeadlockDetected | SerializationFailure | UniqueViolation)

    def _beat(self) -> None:
        """In a thread of its own, whatever the event loop does: renew the lease three times in its length."""

        def renew() -> None:
            try:
                self.ensure()
                self.renew()
            except Exception as error:
                logger.warning("a store's lease was not renewed", extra={"cause": type(error).__name__})

        while not self._ended.wait(self._address.lease / 3):
            self.thread.submit(renew)

    # As a connection.

    def rollback(self) -> None:
        if not self.raw.closed and self.raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.raw.execute("rollback")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that writes, with its number and a new lease; commit it at the end of the block. The
        engine undoes one that fails."""
        self.ensure()
        self._batch += 1
        began = time.monotonic()
        self.renew("begin")
        yield
        if time.monotonic() - began > self._address.lease / 3:
            self.renew()
        try:
            self.raw.execute("commit")
        except Exception as error:
            # an answer that was lost is looked up, however often; a commit that is still under way is waited for
            while is_connection_lost(error):
                self.raw.close()
                self.ensure()
                try:
                    row = self.run("newest_batch", writer=self.writer).fetchone()
                except psycopg.Error as lost:
                    if not is_connection_lost(lost):
                        raise
                    time.sleep(0.1)
                    continue
                if row is not None and row[0] == self._batch:
                    return
                break
            raise

    def pipeline(self) -> AbstractContextManager[object]:
        return self.raw.pipeline()

    def lives(self, writer: str) -> bool:
        return self.run("living_writer", writer=writer).fetchone() is not None

    def renew(self, *before: str) -> None:
        """Renew the lease. Raise `SessionLostError` where it has ended and the writer is forgotten."""
        known = {"batch": self._batch, "writer": self.writer, "lease": self._address.lease}
        with self.pipeline():  # one way to the server and back
            for statement in before:
                self.raw.execute(statement.encode())
            renewed = self.run("renew", **known)
        if renewed.fetchone() is None:
            raise errors.SessionLostError(f"{self._address.name}: {_LOST}")

    def run(self, query: str, /, **values: Any) -> psycopg.Cursor[Any]:
        if match := values.get("match"):  # phrases in quotation marks, joined by OR or AND, for `websearch_to_tsquery`
            phrases = [" ".join(_plain_words(phrase)) for phrase in re.findall(r'"([^"]*)"', match)]
            values["match"] = (" " if " AND " in match else " or ").join(f'"{phrase}"' for phrase in phrases)
        return self.raw.execute(self._queries[query].encode(), values)

    def run_many(self, query: str, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(self._queries[query].encode(), list(rows))

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        """Index words by parts: the server takes no text of any size."""
        rows, most = list[tuple[int, int, str]](), 4_000  # the server keeps places up to 16,383
        for number, text in texts:  # at least one part each: words with one space between them
            words = _plain_words(text)
            parts = (" ".join(words[start : start + most]) for start in range(0, len(words) or 1, most))
            rows += ((number, at, part) for at, part in enumerate(parts))
        self.run_many("add_words", rows)

    def unindex_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.run("remove_words", numbers=[number for number, _ in texts])

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
        """Connect again where the connection is lost; `StoreUnreachableError` 20 seconds after the loss."""
        while self.raw.closed:
            lost_at = self._lost_at = self._lost_at or time.monotonic()
            try:
                self.raw = self._connect()
                self._lost_at = None
            except psycopg.OperationalError as error:
                if time.monotonic() >= lost_at + 20.0 or self.is_stopping:
                    fault = unreachable(self._address, error)
                    raise fault from fault.__cause__
                time.sleep(0.1)


# What hosts and workers share. Hosts look from time to time, so that a pooler may stand before the server.


async def looks() -> AsyncIterator[None]:
    look = LOOK_AGAIN
    while True:
        yield
        await asyncio.sleep(look)
        look = min(look * 1.5, 5.0)


def take_claim(connection: PostgresEngine, key: SummaryKey, seconds: float) -> bool:
    """Claim a key for so many seconds; return False where another living host holds it."""
    values = {**key._asdict(), "writer": connection.writer, "seconds": seconds}
    return connection.run("take_claim", **values).fetchone() is not None


class PostgresStore(RelationalStore):
    """A `SessionStore` on PostgreSQL. `await open()` first; it shares a thread with other stores of the same address.

    `address` is `postgresql://user@host/database`; its parameter `schema` names a schema, `lease` the seconds after
    which the sessions of a vanished host may be taken.
    """

    _slice = 5_000
    _forgotten = (*RelationalStore._forgotten, "remove_failed_requests")
    _removals = (*RelationalStore._removals, "requests")

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        place = read_address(address)
        super().__init__(place.name, place, partial(PostgresEngine, place), read_only=read_only)

    # Which of the hosts asks a model for a key. A store that fails costs the sharing of a summary, not the summary.

    @asynccontextmanager
    async def hold_key(self, key: SummaryKey, seconds: float) -> AsyncIterator[None]:
        """Hold a key for so many seconds at most. Waits while another living host holds it."""
        take = partial(take_claim, key=key, seconds=seconds)
        try:  # also one that was cancelled may have been taken
            try:
                async for _ in looks():
                    if await self.submit("claim a summary", take):
                        break
            except StoreError as error:
                logger.warning("a summary is made without a claim", extra={"cause": type(error).__name__})
            yield
        finally:
            self.give_up_key(key)

    def give_up_key(self, key: SummaryKey) -> None:
        """End a claim of this host, which may have none. Its end is not waited for, and may fail."""
        values = key._asdict()
        with suppress(StoreError):  # closed
            done = self.submit("claim a summary", lambda own: own.run("give_up_claim", **values, writer=own.writer))
            done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    # What follows runs in the engine's thread.

    def _read(self, connection: PostgresEngine, work: Work[Result]) -> Result:
        connection.ensure()
        connection.raw.execute("begin isolation level repeatable read, read only")
        result = work(connection)
        connection.raw.execute("commit")
        return result

    def _lost(self, session_id: str) -> StoreError:
        return errors.SessionLostError(
            f"session {session_id!r}: {_LOST}. Another host may have taken it after this one was silent for too long"
        )
