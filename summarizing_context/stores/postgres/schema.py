"""The named queries of the folder `sql`, and the schema of a new store.

In all texts `store.` stands for the schema of the address, and `:name` or `?` for a value.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import psycopg
from psycopg.errors import DuplicateSchema, UniqueViolation

from summarizing_context.errors import StoreError
from summarizing_context.stores.relational.database import VERSION, check_version, in_schema, read_queries, read_schema

_PACKAGE = "summarizing_context.stores.postgres"
_VALUE = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def queries_for(schema: str) -> dict[str, str]:
    """All queries by name, for one schema, with the marks of psycopg for values."""
    return {
        name: in_schema(_VALUE.sub(r"%(\1)s", query).replace("?", "%s"), f"{schema}.")
        for name, query in read_queries(_PACKAGE).items()
    }


def schema_version(raw: psycopg.Connection[Any], schema: str) -> int | None:
    """The version that the schema has; None where there is no store in it."""
    (table,) = raw.execute("select to_regclass(%s)", [f"{schema}.version"]).fetchone() or (None,)
    if table is None:
        return None
    row = raw.execute(in_schema("select number from store.version", f"{schema}.").encode()).fetchone()
    return int(row[0]) if row else 0


def refuse_other_version(raw: psycopg.Connection[Any], schema: str, name: str) -> None:
    """Raise unless the schema is a store that this version can read."""
    version = schema_version(raw, schema)
    if version is None:
        raise StoreError(f"{name}: there is no store in this schema; open it once without read_only=True to create it")
    check_version(version, name, "name another schema. The store")


def create(raw: psycopg.Connection[Any], schema: str, name: str) -> None:
    """Make the tables, whole or not at all, unless they are there; raise for a store of another version."""
    if not schema_version(raw, schema):
        try:
            with raw.transaction():
                if raw.execute("select to_regnamespace(%s)", [schema]).fetchone() == (None,):
                    raw.execute(f"create schema {schema}".encode())
                raw.execute(f"create table if not exists {schema}.version (number bigint not null)".encode())
        except (DuplicateSchema, UniqueViolation):  # another process was quicker
            pass
        with raw.transaction():
            raw.execute(f"lock table {schema}.version in access exclusive mode".encode())
            if not schema_version(raw, schema):  # else another process was quicker
                raw.execute(in_schema(read_schema(_PACKAGE), f"{schema}.").encode())
                raw.execute(f"insert into {schema}.version values ({VERSION:d})".encode())
    refuse_other_version(raw, schema, name)
