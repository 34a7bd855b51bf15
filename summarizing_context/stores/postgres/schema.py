"""The named queries of the folder `sql`, and numbered migrations.

Each migration is one file `sql/NNNN_<what>.sql`, applied once, in order, whole or not at all. In all texts `store.`
stands for the schema of the address, and `:name` or `?` for a value.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import psycopg
from psycopg.errors import DuplicateSchema, UniqueViolation

from summarizing_context.errors import StoreError, StoreReadOnlyError
from summarizing_context.stores.relational.database import (
    Migration,
    in_schema,
    read_migrations,
    read_queries,
    refuse_newer,
)

_PACKAGE = "summarizing_context.stores.postgres"
_INSTEAD = "name another schema. The store"
_VALUE = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def queries_for(schema: str) -> dict[str, str]:
    """All queries by name, for one schema, with the marks of psycopg for values."""
    return {
        name: in_schema(_VALUE.sub(r"%(\1)s", query).replace("?", "%s"), f"{schema}.")
        for name, query in read_queries(_PACKAGE).items()
    }


@cache
def known_migrations() -> tuple[Migration, ...]:
    """All that this version of the package ships, in order."""
    return read_migrations(_PACKAGE)


def newest_version() -> int:
    """The schema version that this version of the package reads and writes."""
    return known_migrations()[-1].number


def schema_version(raw: psycopg.Connection[Any], schema: str) -> int | None:
    """The version that the schema has; None where there is no store in it."""
    (table,) = raw.execute("select to_regclass(%s)", [f"{schema}.version"]).fetchone() or (None,)
    if table is None:
        return None
    row = raw.execute(in_schema("select number from store.version", f"{schema}.").encode()).fetchone()
    return int(row[0]) if row else 0


def check_version(raw: psycopg.Connection[Any], schema: str, name: str) -> None:
    """Raise unless the schema is a store that this version can read as it is."""
    version = schema_version(raw, schema)
    if version is None:
        raise StoreError(f"{name}: there is no store in this schema; open it once without read_only=True to create it")
    refuse_newer(version, newest_version(), name, _INSTEAD)
    if version < newest_version():
        raise StoreReadOnlyError(
            f"{name}: its schema version {version} is older than {newest_version()} and it may not be written; "
            "open it once without read_only=True to bring it up to date"
        )


def migrate(raw: psycopg.Connection[Any], schema: str, name: str, migrations: tuple[Migration, ...]) -> None:
    """Bring the schema to the last of `migrations`, one transaction each, its new version in the same one."""
    version = schema_version(raw, schema)
    if version is None:
        _create(raw, schema)
        version = schema_version(raw, schema) or 0
    refuse_newer(version, migrations[-1].number, name, _INSTEAD)
    for migration in migrations:
        if version < migration.number:
            _apply(raw, schema, migration)


def _create(raw: psycopg.Connection[Any], schema: str) -> None:
    try:
        with raw.transaction():
            if raw.execute("select to_regnamespace(%s)", [schema]).fetchone() == (None,):
                raw.execute(f"create schema {schema}".encode())
            raw.execute(f"create table if not exists {schema}.version (number bigint not null)".encode())
    except (DuplicateSchema, UniqueViolation):  # another process was quicker
        return


def _apply(raw: psycopg.Connection[Any], schema: str, migration: Migration) -> None:
    with raw.transaction():
        raw.execute(f"lock table {schema}.version in access exclusive mode".encode())
        if (schema_version(raw, schema) or 0) >= migration.number:  # another process was quicker
            return
        raw.execute(in_schema(migration.script, f"{schema}.").encode())
        raw.execute(f"delete from {schema}.version".encode())
        raw.execute(f"insert into {schema}.version values ({migration.number:d})".encode())
