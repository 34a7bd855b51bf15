"""Search in PostgreSQL by words, whose candidates are ranked in `words`, and by vectors, which pgvector compares.

The index of words is filled behind the log: by the writer of a session, and by the host that searches. The bytes of a
vector are what is kept. A column `meaning` repeats them as pgvector's type, and fills up behind them where they came
without it: from an SQLite file, or from a time before the extension was installed. Without pgvector numpy compares.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.errors import InsufficientPrivilege

from summarizing_context.errors import StoreFullError, StoreLockedError, StoreReadOnlyError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Owner, Scope
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.words import Collection, all_of, any_of, by_relevance, parts, plain
from summarizing_context.stores.relational.search import (
    MOST_RANKED,
    RelationalSearchIndex,
    Shown,
    behind,
    find,
    readable,
)
from summarizing_context.stores.relational.vectors import AT_ONCE, RelationalVectors, cosines

_SLICE = 128  # messages or summaries indexed in one transaction
_SLICE_BYTES = 250_000
_LEAVING = 0.25  # seconds that closing may spend on the index
_MOST_COUNTED = 100_000  # rows that hold a common word; of more the relevance is the same


class TsWords:
    """The `Words` of a schema."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def count(self, term: str, most: int) -> int:
        row = self._connection.run("count_matches", {"match": any_of([term]), "most": most}).fetchone()
        return int(row[0]) if row else 0

    def best(self, terms: Sequence[str]) -> list[tuple[int, float]]:
        return self._ranked("matches", list(terms), {})

    def best_within(self, terms: Sequence[str], first: int, last: int) -> list[tuple[int, float]]:
        return self._ranked("matches_within", list(terms), {"first": first, "last": last})

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterator[int]:
        match = all_of(list(terms)) if all_of_them else any_of(list(terms))
        values = {"match": match, "first": first, "last": last, "most": MOST_RANKED}
        return (row for (row,) in self._connection.run("newest_matches", values))

    def _ranked(self, query: str, terms: list[str], within: dict[str, int]) -> list[tuple[int, float]]:
        lexemes = _lexemes_of(self._connection, terms)
        values = {**within, "match": any_of(terms), "lexemes": [one for term in lexemes for one in term]}
        rows = self._connection.run(query, values).fetchall()
        collection = Collection(*self._connection.run("word_totals").fetchone() or (0, 0))
        frequencies = [self.count(term, _MOST_COUNTED) for term in terms] if within else None
        return by_relevance(rows, lexemes, collection, frequencies)


def _lexemes_of(connection: PostgresConnection, terms: list[str]) -> list[list[str]]:
    """Each term as the server indexes it: its words, stemmed."""
    return [row for (row,) in connection.run("lexemes", {"terms": [plain(term) for term in terms]})]


class PostgresSearchIndex(RelationalSearchIndex):
    """The index of one schema."""

    takes_no_more = (StoreFullError, StoreLockedError, StoreReadOnlyError)

    def _catch_up(self, connection: PostgresConnection) -> int:
        row = connection.run("branch_behind").fetchone()
        return _index_summaries(connection) if row is None else _index_branch(connection, *row)

    def _index_branch(self, connection: PostgresConnection, branch: int, start: int) -> int:
        return _index_branch(connection, branch, start)

    def _index_summaries(self, connection: PostgresConnection, last: int) -> int:
        return _index_summaries(connection, last)

    def _find(self, connection: PostgresConnection, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        wanted = [term for term in terms if plain(term)]
        found = find(connection, wanted, scope, limit, TsWords(connection))
        if self._is_kept_up or not wanted:
            return found
        found += _unindexed(connection, wanted, scope)
        return sorted(found, key=lambda match: -match.score)[:limit]


def index_before_leaving(connection: PostgresConnection) -> None:
    """Index what came last, so that readers find it; of a long backlog only a part."""
    until, has_more = time.monotonic() + _LEAVING, True
    while has_more and time.monotonic() < until:
        connection.begin_work()
        has_more = index_own(connection)
        connection.commit_work()


def index_own(connection: PostgresConnection) -> bool:
    """Index a slice of the sessions that this writer has, or of the summaries; whether there may be more."""
    branches = connection.own_branches()
    row = connection.run("own_branch_behind", {"branches": branches}).fetchone() if branches else None
    if row is not None:
        return _index_branch(connection, *row) > 0
    return _index_summaries(connection) > 0


def _index_branch(connection: PostgresConnection, branch: int, start: int) -> int:
    stop, size = start, 0
    rows: list[_Row] = []
    values = {"branch": branch, "start": start, "most": _SLICE}
    for position, message in connection.run("some_entries_behind", values):
        stop, size = position + 1, size + len(message)
        rows += _rows((branch << 32) + position, searchable(message))
        if size >= _SLICE_BYTES:
            break
    _add_words(connection, rows)
    connection.run("note_indexed", {"branch": branch, "stop": stop})
    return stop - start


def _index_summaries(connection: PostgresConnection, last: int = 1 << 62) -> int:
    """Index some summaries up to one; how many."""
    found = connection.run("some_summaries_behind", {"last": last, "most": _SLICE}).fetchall()
    if found:
        _add_words(connection, [row for id, text in found for row in _rows(-id, readable(text))])
        connection.run("note_indexed_summaries", {"ids": [id for id, _ in found]})
    return len(found)


class _Row(NamedTuple):
    """A part of a text."""

    number: int
    part: int
    size: int  # words of the whole text
    text: str


def _rows(number: int, text: str) -> list[_Row]:
    found = list(parts(text))
    size = sum(words for _, words, _ in found)
    return [_Row(number, part, size, words) for part, _, words in found]


def _columns(rows: Sequence[_Row]) -> dict[str, Any]:
    return {name: [getattr(row, name) for row in rows] for name in _Row._fields}


def _add_words(connection: PostgresConnection, rows: Sequence[_Row]) -> None:
    if rows:
        connection.run("add_words", _columns(rows))


def _unindexed(connection: PostgresConnection, terms: list[str], scope: Scope) -> Iterator[Match]:
    """What the index lacks, for a store that may not write: ranked as a collection of its own, as in SQLite."""
    shown, lacking = Shown.of(connection, scope), behind(connection, scope)
    rows: list[_Row] = []
    for branch, _ in lacking.branches:
        (start,) = connection.run("indexed_now", {"branch": branch}).fetchone() or (0,)
        entries = connection.run("entries_behind", {"branch": branch, "start": start}).fetchall()
        rows += [row for at, message in entries for row in _rows((branch << 32) + at, searchable(message))]
    if lacking.last_summary:
        found = connection.run("summaries_behind").fetchall()
        rows += [row for number, text in found for row in _rows(number, readable(text))]
    lexemes = _lexemes_of(connection, terms)
    asked = {"match": any_of(terms), "lexemes": [one for term in lexemes for one in term]}
    weighed = connection.run("matches_among", {**_columns(rows), **asked}).fetchall()
    sizes = [row.size for row in rows if row.part == 0]
    for number, score in by_relevance(weighed, lexemes, Collection(len(sizes), sum(sizes))):
        match = shown.match(connection, number, score)
        if match is not None:
            yield match


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
