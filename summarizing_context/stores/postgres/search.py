"""Search in PostgreSQL by words, which the server ranks, and by vectors, which pgvector compares.

The bytes of a vector are what is kept. A column `meaning` repeats them as pgvector's type, and fills up behind them
where they came without it: from a time before the extension was installed. Without pgvector numpy compares.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege

from summarizing_context.stores.base import Owner
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.words import all_of, any_of
from summarizing_context.stores.relational.search import ALL_ROWS, MOST_RANKED
from summarizing_context.stores.relational.vectors import AT_ONCE, RelationalVectors, cosines


class TsWords:
    """The `Words` of a schema."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def count(self, term: str, most: int) -> int:
        row = self._connection.run("count_matches", {"match": any_of([term]), "most": most}).fetchone()
        return int(row[0]) if row else 0

    def best(self, terms: Sequence[str]) -> list[tuple[int, float]]:
        return self.best_within(terms, *ALL_ROWS)

    def best_within(self, terms: Sequence[str], first: int, last: int) -> list[tuple[int, float]]:
        values = {"match": any_of(terms), "first": first, "last": last}
        return self._connection.run("best_matches", values).fetchall()

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterator[int]:
        match = all_of(terms) if all_of_them else any_of(terms)
        values = {"match": match, "first": first, "last": last, "most": MOST_RANKED}
        return (row for (row,) in self._connection.run("newest_matches", values))


def find_pgvector(raw: psycopg.Connection[Any], schema: str, *, may_add: bool) -> str | None:
    """The schema of pgvector's type if vectors are kept in it, quoted; the column is added where that is allowed."""
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

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._access.read_only:
            await super().save(owner, recipe, vectors)
            return
        await self._access.submit(lambda connection: _save(connection, owner, recipe, vectors))

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        asked = {**values, "query": _written(query), "size": len(query)}

        def work(connection: PostgresConnection) -> tuple[dict[int, float], dict[int, bytes]] | None:
            if not connection.has_pgvector:
                return None
            scores = dict(connection.run("near_meanings", asked).fetchall())
            rest = connection.run("vectors_without_meaning", values)
            first = some = rest.fetchmany(AT_ONCE)
            while some:
                scores |= cosines(some, query)
                some = rest.fetchmany(AT_ONCE)
            return scores, dict(first)

        found = await self._access.read(work)
        if found is None:
            return await super().near(owner, recipe, numbers, query)
        scores, lacking = found
        if lacking and not self._access.read_only:
            await self._access.submit(lambda connection: _save(connection, owner, recipe, lacking))
        return scores | cosines(self._passing_of(owner, recipe, numbers), query)


def _save(connection: PostgresConnection, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
    rows = [{"owner": owner, "recipe": recipe, "number": number, "vector": vectors[number]} for number in vectors]
    if connection.has_pgvector:
        rows = [{**row, "meaning": _written(vectors[number])} for row, number in zip(rows, vectors, strict=True)]
    connection.run_many("save_meaning" if connection.has_pgvector else "save_vector", rows)


def _written(vector: bytes) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(format(value, '.9g') for value in array('f', vector))}]"
