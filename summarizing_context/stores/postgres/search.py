"""Search by words in PostgreSQL: candidates by tsvector, ranked here; see `ranking`.

The index is filled behind the log: by the writer of a session, and by whoever searches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from summarizing_context.errors import StoreFullError, StoreLockedError, StoreReadOnlyError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.ranking import Collection, by_relevance
from summarizing_context.stores.postgres.words import all_of, any_of, parts, plain
from summarizing_context.stores.relational.database import Access
from summarizing_context.stores.relational.search import MOST_RANKED, Shown, behind, find, readable

logger = logging.getLogger(__name__)

_SLICE = 128  # messages or summaries indexed in one transaction
_SLICE_BYTES = 250_000
_LEAVING = 0.25  # seconds that closing may spend on the index
_MOST_COUNTED = 100_000  # rows that hold a common word; of more the relevance is the same


class TsWords:
    """The index of words in a schema."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def count(self, term: str, most: int) -> int:
        """How many rows hold a term, counted up to `most`."""
        row = self._connection.run("count_matches", {"match": any_of([term]), "most": most}).fetchone()
        return int(row[0]) if row else 0

    def best(self, terms: Sequence[str]) -> list[tuple[int, float]]:
        """Rows that hold any of the terms with their relevance, the best first."""
        return self._ranked("matches", list(terms), {})

    def best_within(self, terms: Sequence[str], first: int, last: int) -> list[tuple[int, float]]:
        """The same of one run of rows."""
        return self._ranked("matches_within", list(terms), {"first": first, "last": last})

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterator[int]:
        """Rows of one run that hold any, or all, of the terms, the newest first."""
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


class PostgresSearchIndex:
    """The index of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_kept_up = not access.read_only

    async def backlog(self) -> int:
        """Messages and summaries that are not indexed yet."""
        return await self._access.read(lambda connection: int(connection.run("backlog").fetchone()[0]))

    async def catch_up(self) -> int:
        """Index a slice of what is missing; how many rows, 0 when all is indexed."""
        if self._access.read_only:
            return 0
        return await self._access.submit(_catch_up)

    async def complete(self, scope: Scope) -> None:
        """Index what a scope holds by now; what is appended meanwhile is left for later."""
        if self._access.read_only:
            return
        try:
            goals = await self._access.read(lambda connection: behind(connection, scope))
            for branch, stop in goals.branches:
                while await self._access.submit_spare(partial(_index_branch_to, branch=branch, stop=stop)):
                    pass
            while goals.last_summary and await self._access.submit_spare(
                partial(_index_summaries, last=goals.last_summary)
            ):
                pass
            self._is_kept_up = True
        except (StoreFullError, StoreLockedError, StoreReadOnlyError) as error:
            self._is_kept_up = False
            logger.warning("the index could not be kept up", extra={"cause": type(error).__name__})

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        """What holds any of the terms, the most relevant first."""
        wanted = [term for term in terms if plain(term)]

        def work(connection: PostgresConnection) -> list[Match]:
            found = find(connection, wanted, scope, limit, TsWords(connection))
            if self._is_kept_up or not wanted:
                return found
            found += _unindexed(connection, wanted, scope)
            return sorted(found, key=lambda match: -match.score)[:limit]

        return await self._access.read(work)


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
    return _index_summaries(connection, (1 << 62)) > 0


def _catch_up(connection: PostgresConnection) -> int:
    row = connection.run("branch_behind").fetchone()
    return _index_summaries(connection, (1 << 62)) if row is None else _index_branch(connection, *row)


def _index_branch_to(connection: PostgresConnection, branch: int, stop: int) -> bool:
    """Index a slice of a branch, unless it is indexed up to `stop`; whether to go on."""
    row = connection.run("indexed_of", {"branch": branch}).fetchone()
    return row is not None and row[0] < stop and _index_branch(connection, branch, row[0]) > 0


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


def _index_summaries(connection: PostgresConnection, last: int) -> int:
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
    """For who may not write: what the index lacks, ranked as a collection of its own, as the SQLite store does."""
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
