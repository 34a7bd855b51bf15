"""Vectors in PostgreSQL, which pgvector compares.

The bytes of a vector are what is kept. A column `meaning` repeats them as pgvector's type, and fills up behind them
where they came without it: from a time before the extension was installed. Without pgvector numpy compares.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege

from summarizing_context.stores.base import Owner
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.relational.search import AT_ONCE, RelationalVectors, cosines


def find_pgvector(raw: psycopg.Connection[Any], schema: str, *, may_add: bool) -> str | None:
    """Return the schema of pgvector's type if vectors are kept in it, quoted; add the column where that is allowed."""
    found = raw.execute(
        "select quote_ident(nspname), exists (select from pg_attribute"
        " where attrelid = to_regclass(%s) and attname = 'meaning' and not attisdropped)"
        " from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'vector'",
        [f"{schema}.vectors"],
    ).fetchone()
    if found is None:
        return None
    place, is_there = found
    if not is_there:
        if not may_add:
            return None
        try:
            raw.execute(f"alter table {schema}.vectors add column if not exists meaning {place}.vector".encode())
        except InsufficientPrivilege:
            return None
    return str(place)


class PostgresVectors(RelationalVectors):
    """The vectors of one store."""

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        if self._store.read_only:
            return await super().near(owner, recipe, numbers, query)
        return await self._store.submit(lambda connection: self._near(connection, owner, recipe, numbers, query))

    def _near(
        self, connection: PostgresConnection, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes
    ) -> dict[int, float]:
        if not connection.has_pgvector:
            return super()._near(connection, owner, recipe, numbers, query)
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        asked = {**values, "query": _written(query), "size": len(query)}
        scores = dict(connection.run("near_meanings", asked).fetchall())
        lacking = connection.run("vectors_without_meaning", values).fetchall()
        if lacking and connection.writer is not None:
            self._save(connection, owner, recipe, dict(lacking[:AT_ONCE]))
        return {**scores, **cosines(lacking, query)}

    def _save(self, connection: PostgresConnection, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if not connection.has_pgvector:
            super()._save(connection, owner, recipe, vectors)
            return
        known = {"owner": owner, "recipe": recipe}
        rows = [{**known, "number": n, "vector": vector, "meaning": _written(vector)} for n, vector in vectors.items()]
        connection.run_many("save_meaning", rows)


def _written(vector: bytes) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(format(value, '.9g') for value in array('f', vector))}]"
