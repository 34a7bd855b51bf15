"""Migrations: numbered, in order, each whole or not at all."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from summarizing_context.errors import StoreVersionError
from summarizing_context.stores.relational.database import Migration, split_queries
from summarizing_context.stores.sqlite.schema import SQL, known_migrations, migrate, newest_version, schema_version
from summarizing_context.stores.sqlite.search import add_functions
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import bytes_beside, log_of, nothing, numbered, opened, sql

pytestmark = pytest.mark.anyio

NEXT = newest_version() + 1
ADD_TITLES = Migration(
    NEXT,
    """
    -- An example; its comment has a semicolon; and the script a quoted one.
    alter table sessions add column title text not null default 'a;b';
    update sessions set title = session_id
        || '; titled';
    create table titles (title text)""",
)
FAILS_AT_LAST = Migration(NEXT, ADD_TITLES.script + ";\ninsert into nowhere values (1);")


async def written(path: Path) -> None:
    async with opened(path, "s") as store:
        await store.append("s", numbered(3), nothing)


def titles(connection: sqlite3.Connection) -> list[tuple[str]]:
    return connection.execute("select title from sessions").fetchall()


def test_migrations_are_numbered_without_gaps():
    assert [one.number for one in known_migrations()] == list(range(1, newest_version() + 1))


async def test_a_new_file_has_the_newest_version(path):
    await written(path)
    with sql(path) as connection:
        assert schema_version(connection) == newest_version()


async def test_a_later_migration_is_applied_once_and_keeps_what_was_there(path):
    await written(path)
    with sql(path) as connection:
        for _ in range(2):
            migrate(connection, str(path), [*known_migrations(), ADD_TITLES])
        assert schema_version(connection) == NEXT
        assert titles(connection) == [("s; titled",)]
        assert connection.execute("select count(*) from titles").fetchone() == (0,)
        assert connection.execute("select count(*) from entries").fetchone() == (3,)


async def test_a_migration_that_fails_leaves_the_old_version_whole(path):
    await written(path)
    with sql(path) as connection:
        before = list(connection.iterdump())
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate(connection, str(path), [*known_migrations(), FAILS_AT_LAST])
        assert list(connection.iterdump()) == before
        assert schema_version(connection) == newest_version()
    async with opened(path, "s") as store:
        assert await log_of(store) == ["m0", "m1", "m2"]


async def test_the_migrations_before_a_failing_one_stay(path):
    await written(path)
    with sql(path) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, str(path), [*known_migrations(), ADD_TITLES, Migration(NEXT + 1, "nonsense;")])
        assert schema_version(connection) == NEXT
        assert titles(connection) == [("s; titled",)]


async def test_a_migration_that_another_process_was_quicker_with_is_skipped(path):
    await written(path)
    later = [*known_migrations(), ADD_TITLES]
    with sql(path) as slow, sql(path) as quick:

        def overtake(statement: str) -> None:
            if statement.startswith("begin"):
                slow.set_trace_callback(None)
                migrate(quick, str(path), later)

        slow.set_trace_callback(overtake)
        migrate(slow, str(path), later)
        assert titles(slow) == [("s; titled",)]


async def test_a_file_of_a_later_migration_is_refused_by_this_version(path):
    await written(path)
    with sql(path) as connection:
        migrate(connection, str(path), [*known_migrations(), ADD_TITLES])
    before = bytes_beside(path)
    with pytest.raises(StoreVersionError, match=f"version is {NEXT}"):
        await SqliteStore(path).open()
    assert bytes_beside(path) == before


def test_every_query_can_be_prepared():
    with sql(Path(":memory:")) as connection:
        add_functions(connection)
        migrate(connection, ":memory:", known_migrations())
        for text in SQL.values():
            values = [None] * text.count("?") or dict.fromkeys(re.findall(r":(\w+)", text))
            connection.execute(f"explain {text}", values)


def test_queries_are_cut_at_their_names():
    assert split_queries("-- Story: not a query.\n\n-- one: first\nselect 1;\n\n-- two: second\nselect\n 2;\n") == {
        "one": "select 1",
        "two": "select\n 2",
    }
