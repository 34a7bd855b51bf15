"""Entries, keys and summaries for the tests of stores, and a store that is open for a while.

The tests of the protocol ask for the fixture `backend`: each backend of `BACKENDS` is tested in its turn. For others
than SQLite a test is skipped from where it looks at a bare connection, at files, or at options that only SQLite has.
"""

import os
import pkgutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.settings import is_address
from summarizing_context.stores.base import SessionStore, StoredEntry, StoredSession, StoredSummary, SummaryKey
from summarizing_context.stores.sqlite.store import Database, SqliteEngine, SqliteStore
from tests import postgres_server


def make_postgres_store(path: str | Path, **options: Any) -> Any:
    """A store in a schema of its own for each path, on the server that the fixture `backend` has started."""
    from summarizing_context.contrib.postgres.store import PostgresStore

    return PostgresStore(postgres_server.address_for(path), **options)


BACKENDS: dict[str, Callable[..., Any]] = {"sqlite": SqliteStore, "postgres": make_postgres_store}
if named := os.environ.get("CONTRACT_STORE"):  # a store of your own
    if not callable(own := pkgutil.resolve_name(named)):
        pytest.exit(f"CONTRACT_STORE is {named!r}; write it like my.module:MyStore")
    BACKENDS["yours"] = own

chosen = "sqlite"  # the backend that is tested; the fixture `backend` sets it


def make_store(path: str | Path, **options: Any) -> Any:
    """A store of the backend that is tested, not opened yet."""
    if options.keys() - {"read_only"}:
        need_sqlite()
    return BACKENDS["postgres" if is_address(path) else chosen](path, **options)


@asynccontextmanager
async def opened(path: str | Path, *claims: str, **options: Any) -> AsyncIterator[Any]:
    """An open store that has claimed these sessions."""
    store = make_store(path, **options)
    await store.open()
    try:
        for session_id in claims:
            await store.claim(session_id)
        yield store
    finally:
        await store.close()


def fill_disk(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Let files of SQLite have so many pages of 4096 bytes at most, as on a full disk."""
    need_sqlite()
    make = SqliteEngine.open

    def connected(engine: SqliteEngine) -> Database:
        connection = make(engine)
        connection.execute(f"pragma max_page_count = {pages:d}")
        return connection

    monkeypatch.setattr(SqliteEngine, "open", connected)


def need_sqlite() -> None:
    """Skip the test for other backends."""
    if chosen != "sqlite":
        pytest.skip("from here on the test is about SQLite")


def nothing() -> None:
    """A callback for those who do not care."""


def entry(text: str) -> StoredEntry:
    return StoredEntry(text.encode(), b"facts of " + text.encode())


def entries(*texts: str) -> list[StoredEntry]:
    return [entry(text) for text in texts]


def numbered(count: int, prefix: str = "m") -> list[StoredEntry]:
    return entries(*(f"{prefix}{i}" for i in range(count)))


def key(name: object, recipe: str = "recipe") -> SummaryKey:
    return SummaryKey(f"range-{name}", recipe)


def summary(text: str) -> StoredSummary:
    return StoredSummary(text, 0, 7, 3)


def texts(session: StoredSession | None) -> list[str]:
    assert session is not None
    return [one.message.decode() for one in session.entries]


async def log_of(store: SessionStore, session_id: str = "s") -> list[str]:
    return texts(await store.load(session_id))


@contextmanager
def sql(path: Path) -> Iterator[sqlite3.Connection]:
    """A bare connection, to see or to do what the port does not offer."""
    need_sqlite()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def bytes_beside(path: Path) -> dict[str, bytes]:
    """All files of the store's folder with their content; not the shared memory, in which readers note themselves."""
    need_sqlite()
    names = [name for name in sorted(os.listdir(path.parent)) if not name.endswith("-shm")]
    return {name: (path.parent / name).read_bytes() for name in names}


def is_there(path: Path, text: str) -> bool:
    return any(text.encode() in content for content in bytes_beside(path).values())


def check_index(path: Path) -> None:
    """What the index holds is what a new one would hold."""
    with sql(path) as connection:
        connection.execute("create virtual table temp.held using fts5vocab(main, search, 'instance')")
        held = {(term, row) for term, row, *_ in connection.execute("select * from held")}
        rows = {row for _, row in held if row > 0}
        known = {(b << 32) + at for b, at in connection.execute("select branch, position from entries")}
        assert rows == known
