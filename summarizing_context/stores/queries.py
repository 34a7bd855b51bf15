"""The named queries of the folder `sql`, and transactions.

What the queries are for stands beside them there; when each is run is the callers' matter.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Literal

_NAME = re.compile(r"^-- ([a-z_]+): .*$", re.MULTILINE)


def read_sql(filename: str) -> str:
    """The text of a file in the folder `sql`."""
    return (files("summarizing_context.stores") / "sql" / filename).read_text(encoding="utf-8")


def split_queries(text: str) -> dict[str, str]:
    """Queries by name: each begins with a line `-- name: purpose` and ends where the next begins."""
    parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


_PARTS = ("queries", "checkpoints", "search", "memories", "pins", "rules")
SQL = {name: text for part in _PARTS for name, text in split_queries(read_sql(f"{part}.sql")).items()}


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
