"""Search by words in SQLite: the index, and which of its rows match a query in a scope.

The index is filled behind the log.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from math import inf

from summarizing_context.concurrency import holding_long
from summarizing_context.messages.search_terms import indexed_words, searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.relational.search import Behind, RelationalSearchIndex, behind, find, readable
from summarizing_context.stores.sqlite.schema import Database, transaction

_SLICE = 128  # messages or summaries indexed in one transaction
_SLICE_BYTES = 250_000  # of messages; after that many the slice ends
_SPARE = 0.25  # of a slice is indexed in one transaction of spare time: a view may have to wait for it
_LONG = 1_000_000  # bytes of a message whose parsing takes milliseconds
_LEAVING = 0.25  # seconds that closing may spend on the index
_LARGEST_LEAVING = 2_000_000  # bytes of a message that is indexed then


class Fts5:
    """The `Words` of a file, or of an index in memory."""

    def __init__(self, connection: Database) -> None:
        self._connection = connection

    def count(self, term: str, most: int) -> int:
        values = {"match": _any([term]), "most": most}
        return int(self._connection.run("count_matches", values).fetchone()[0])

    def best(self, terms: Sequence[str]) -> Iterable[tuple[int, float]]:
        return self._connection.run("best_matches", {"match": _any(terms)})

    def best_within(self, terms: Sequence[str], first: int, last: int) -> Iterable[tuple[int, float]]:
        return self._connection.run("best_matches_within", {"match": _any(terms), "first": first, "last": last})

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterator[int]:
        match = " AND ".join(map(_phrase, terms)) if all_of_them else _any(terms)
        found = self._connection.run("newest_matches", {"match": match, "first": first, "last": last})
        return (row for (row,) in found)


def _with_unindexed(connection: Database, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
    """What `find` finds, also in what the index lacks, which is indexed in memory for this search."""
    found = find(connection, terms, scope, limit, Fts5(connection))
    lacking = behind(connection, scope)
    if not (lacking.branches or lacking.last_summary):
        return found
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=Database)) as beside:
        beside.execute(connection.run("how_indexed").fetchone()[0])
        beside.run_many("index_text", _lacking_texts(connection, lacking))
        found += find(connection, terms, scope, limit, Fts5(beside))
    return sorted(found, key=lambda match: -match.score)[:limit]


def _lacking_texts(connection: Database, lacking: Behind) -> Iterator[tuple[int, str]]:
    """Rows of the index that are not in it yet, with their texts."""
    for branch, _ in lacking.branches:
        (start,) = connection.run("indexed_of", {"branch": branch}).fetchone()
        for position, message in connection.run("entries_behind", {"branch": branch, "start": start}):
            yield (branch << 32) + position, indexed_words(searchable(message))
    yield from ((row, indexed_words(readable(text))) for row, text in connection.run("summaries_behind"))


def _any(terms: Sequence[str]) -> str:
    return " OR ".join(map(_phrase, terms))


def _phrase(term: str) -> str:
    return f'"{term}"'  # letters, digits and spaces: see `query_terms`


class SqliteSearchIndex(RelationalSearchIndex):
    """The index of one file."""

    def _catch_up(self, connection: Database) -> int:
        return catch_up(connection)

    def _index_branch(self, connection: Database, branch: int, start: int) -> int:
        return _index_branch(connection, branch, start)

    def _index_summaries(self, connection: Database, last: int) -> int:
        (indexed,) = connection.run("indexed_summaries").fetchone()
        return _index_summaries(connection) if indexed < last else 0

    def _find(self, connection: Database, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        if self._is_kept_up or not terms:
            return find(connection, terms, scope, limit, Fts5(connection))
        return _with_unindexed(connection, terms, scope, limit)


def add_functions(connection: Database) -> None:
    """What the queries call; on every connection that indexes, or forgets what is indexed."""
    connection.create_function("indexed", 1, _indexed, deterministic=True)
    connection.create_function("spaced", 1, lambda text: indexed_words(readable(text)), deterministic=True)


def _indexed(message: bytes) -> str:
    with holding_long() if len(message) > _LONG else nullcontext():
        return indexed_words(searchable(message))


def index_in_spare_time(connection: Database) -> bool:
    """Index a slice in a transaction of its own; whether there is more."""
    with transaction(connection):
        return catch_up(connection, share=_SPARE) > 0


def index_before_leaving(connection: Database) -> None:
    """Index what came last, so that readers find it; of a long backlog only a part."""
    until = time.monotonic() + _LEAVING
    has_more = True
    while has_more and time.monotonic() < until:
        with transaction(connection):
            has_more = catch_up(connection, largest=_LARGEST_LEAVING) > 0


def catch_up(connection: Database, *, share: float = 1.0, largest: float = inf) -> int:
    """Index a slice, or a share of one, of what is missing; how many rows, 0 when all is indexed, or up to a message of
    more bytes."""
    row = connection.run("branch_behind").fetchone()
    if row is None:
        return _index_summaries(connection, share)
    branch, start = row
    return _index_branch(connection, branch, start, share, largest)


def forget_entries(connection: Database, branch: int, stop: int) -> None:
    """A branch is about to lose its entries from `stop` on."""
    values = {"branch": branch, "stop": stop}
    connection.run("unindex_entries", values)
    connection.run("note_unindexed", values)
    connection.run("remove_row_vectors", values)


def _index_branch(connection: Database, branch: int, start: int, share: float = 1.0, largest: float = inf) -> int:
    stop, size = start, 0
    for position, length in connection.run("next_entries", (branch, start, int(_SLICE * share))):
        if length > largest:
            break
        stop, size = position + 1, size + length
        if size >= _SLICE_BYTES * share:
            break
    values = {"branch": branch, "start": start, "stop": stop}
    connection.run("index_entries", values)
    connection.run("note_indexed", values)
    return stop - start


def _index_summaries(connection: Database, share: float = 1.0) -> int:
    count, last = connection.run("next_summaries", {"count": int(_SLICE * share)}).fetchone()
    if count:
        connection.run("index_summaries", {"stop": last})
        connection.run("note_indexed_summaries", {"stop": last})
    return int(count)
