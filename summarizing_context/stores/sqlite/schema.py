"""The named queries of the folder `sql`, transactions, and numbered migrations.

Each migration is one file `sql/NNNN_<what>.sql`, applied once, in order, whole or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Literal

from summarizing_context.stores.relational.database import (
    Migration,
    Values,
    in_schema,
    read_migrations,
    read_queries,
    refuse_newer,
)

_PACKAGE = "summarizing_context.stores.sqlite"


def _translated(query: str) -> str:
    return in_schema(query, "").replace("greatest(", "max(").replace("least(", "min(")


SQL = {name: _translated(query) for name, query in read_queries(_PACKAGE).items()}


class Database(sqlite3.Connection):
    """The `Connection` of a file."""

    def run(self, name: str, values: Values = ()) -> sqlite3.Cursor:
        return self.execute(SQL[name], values)

    def run_many(self, name: str, rows: Iterable[Values]) -> None:
        self.executemany(SQL[name], rows)

    def insert(self, name: str, values: Values) -> int:
        return int(self.execute(SQL[name], values).fetchone()[0])

    def begin_work(self) -> None:
        self.execute("begin immediate")

    def commit_work(self) -> None:
        self.execute("commit")

    def undo_work(self) -> None:
        roll_back(self)

    def may_pass(self, error: Exception) -> bool:
        """Whether the same work may succeed at once: the file was waited for already."""
        return False


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo the open transaction, unless SQLite has done so already, as it does when the disk is full."""
    if connection.in_transaction:
        connection.execute("rollback")


@contextmanager
def transaction(
    connection: sqlite3.Connection, mode: Literal["immediate", "deferred"] = "immediate"
) -> Iterator[sqlite3.Connection]:
    """All or nothing; `deferred` for reading one state of the file with several queries."""
    connection.execute(f"begin {mode}")
    try:
        yield connection
        connection.execute("commit")
    except BaseException:
        roll_back(connection)
        raise


@cache
def known_migrations() -> tuple[Migration, ...]:
    """All that this version of the package ships, in order."""
    return read_migrations(_PACKAGE)


def newest_version() -> int:
    """The schema version that this version of the package reads and writes."""
    return known_migrations()[-1].number


def check_version(version: int, path: str, *, known: int) -> None:
    """Raise `StoreVersionError` for a file that a newer version of the package wrote."""
    refuse_newer(version, known, path, "use another file. The file")


def schema_version(connection: sqlite3.Connection) -> int:
    """The version that the file has; 0 for an empty one."""
    return int(connection.execute("pragma user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Bring the file to the last of `migrations`, one transaction each, its new version in the same one."""
    check_version(schema_version(connection), path, known=migrations[-1].number)
    for migration in migrations:
        if schema_version(connection) < migration.number:
            _apply(connection, migration)


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    with transaction(connection):
        if schema_version(connection) >= migration.number:  # another process was quicker
            return
        for statement in _statements(migration.script):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {migration.number:d}")


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit before it begins, so the statements are found and run one by one.
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        if ";" in line and sqlite3.complete_statement("\n".join(lines)):
            yield "\n".join(lines)
            lines.clear()
    yield "\n".join(lines)  # comments, or a last statement without its semicolon
