"""The named queries of the folder `sql`, transactions, and the schema, which a new file gets whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from summarizing_context.messages.search_terms import indexed_words
from summarizing_context.stores.relational.database import (
    VERSION,
    Values,
    check_version,
    in_schema,
    read_queries,
    read_schema,
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

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> None:
        self.executemany(SQL["index_text"], ((number, indexed_words(text)) for number, text in texts))

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


def schema_version(connection: sqlite3.Connection) -> int:
    """The version that the file has; 0 for an empty one."""
    return int(connection.execute("pragma user_version").fetchone()[0])


def refuse_other_version(version: int, path: str) -> None:
    """Raise `StoreVersionError` for a file of another schema."""
    check_version(version, path, "use another file. The file")


def create(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables of an empty file; raise `StoreVersionError` for one of another schema."""
    if schema_version(connection) == 0:
        with transaction(connection):
            if schema_version(connection) == 0:  # else another process was quicker
                for statement in _statements(read_schema(_PACKAGE)):
                    connection.execute(statement)
                connection.execute(f"pragma user_version = {VERSION:d}")
    refuse_other_version(schema_version(connection), path)


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit before it begins, so the statements are found and run one by one.
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        if ";" in line and sqlite3.complete_statement("\n".join(lines)):
            yield "\n".join(lines)
            lines.clear()
    yield "\n".join(lines)  # comments, or a last statement without its semicolon
