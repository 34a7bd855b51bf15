"""Numbered migrations: each is one file `sql/NNNN_<what>.sql`, applied once, in order, whole or not at all.

A released migration is never edited; a new schema is a new file.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from summarizing_context.errors import StoreVersionError
from summarizing_context.stores.queries import read_sql, transaction

_FILENAME = re.compile(r"^(\d{4})_\w+\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `number` is the file's version once it is done."""

    number: int
    script: str


@cache
def known_migrations() -> tuple[Migration, ...]:
    """All that this version of the package ships, in order."""
    names = sorted(entry.name for entry in (files("summarizing_context.stores") / "sql").iterdir())
    found = [(match, name) for name in names if (match := _FILENAME.match(name))]
    return tuple(Migration(int(match[1]), read_sql(name)) for match, name in found)


def newest_version() -> int:
    """The schema version that this version of the package reads and writes."""
    return known_migrations()[-1].number


def schema_version(connection: sqlite3.Connection) -> int:
    """The version that the file has; 0 for an empty one."""
    return int(connection.execute("pragma user_version").fetchone()[0])


def refuse_newer(version: int, path: str, *, known: int) -> None:
    """Raise `StoreVersionError` for a file that a newer version of the package wrote."""
    if version > known:
        raise StoreVersionError(
            f"{path}: its schema version is {version} but this version of summarizing-context knows {known} at most; "
            "upgrade summarizing-context, or use another file. The file was left as it is"
        )


def migrate(connection: sqlite3.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Bring the file to the last of `migrations`, one transaction each, its new version in the same one."""
    refuse_newer(schema_version(connection), path, known=migrations[-1].number)
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
