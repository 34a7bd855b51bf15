"""Searching by words in SQLite: an index of messages and summaries that is filled behind the log.

Appending does not touch it; the writer's thread catches up in slices when nothing else is to do. What words a query
asks for is `core.searching`'s matter. Common words are not ranked: they would cost most and tell least.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from summarizing_context.core.searching import searchable
from summarizing_context.shelves import Match, Scope
from summarizing_context.stores.access import Access
from summarizing_context.stores.queries import SQL, transaction

_SLICE = 128  # messages or summaries indexed in one transaction
_SLICE_BYTES = 250_000  # of messages; after that many the slice ends
_LEAVING = 0.25  # seconds that closing may spend on the index
_MOST_RANKED = 2_500  # rows whose relevance one query works out
_MOST_COMMON = 2  # common words that a query may ask for
_NARROW = 8  # runs of rows that are looked through one by one
POSITION = (1 << 32) - 1


class SearchShelf:
    """The index of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def backlog(self) -> int:
        """Messages and summaries that are not indexed yet."""
        return await self._access.read(lambda connection: int(connection.execute(SQL["backlog"]).fetchone()[0]))

    async def catch_up(self) -> int:
        """Index a slice of what is missing; how many rows, 0 when all is indexed."""
        if self._access.read_only:
            return 0
        return await self._access.writer.submit(catch_up)

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        """What holds any of the terms, the most relevant first."""
        return await self._access.read(lambda connection: find(connection, terms, scope, limit))


def add_functions(connection: sqlite3.Connection) -> None:
    """What the queries call; on every connection that indexes, or forgets what is indexed."""
    connection.create_function("searchable", 1, searchable, deterministic=True)


def index_in_spare_time(connection: sqlite3.Connection) -> bool:
    """Index a slice in a transaction of its own; whether there is more."""
    with transaction(connection):
        return catch_up(connection) > 0


def index_before_leaving(connection: sqlite3.Connection) -> None:
    """Index what came last, so that readers find it; of a long backlog only a part."""
    until = time.monotonic() + _LEAVING
    while index_in_spare_time(connection) and time.monotonic() < until:
        pass


def catch_up(connection: sqlite3.Connection) -> int:
    """Index a slice of what is missing; how many rows, 0 when all is indexed."""
    row = connection.execute(SQL["branch_behind"]).fetchone()
    return _index_branch(connection, *row) if row is not None else _index_summaries(connection)


def forget_entries(connection: sqlite3.Connection, branch: int, stop: int) -> None:
    """A branch is about to lose its entries from `stop` on."""
    values = {"branch": branch, "stop": stop}
    connection.execute(SQL["unindex_entries"], values)
    connection.execute(SQL["note_unindexed"], values)
    connection.execute(SQL["remove_row_vectors"], values)


def find(connection: sqlite3.Connection, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
    """What holds any of the terms in the scope, the most relevant first."""
    if not terms:
        return []
    shown = Shown.of(connection, scope)
    rare, common = _by_frequency(connection, terms)
    found: dict[int, Match] = {}
    for rows in _searches(connection, rare, common, shown):
        for rowid, score in rows:
            if rowid not in found and (match := shown.match(connection, rowid, score)) is not None:
                found[rowid] = match
            if len(found) >= limit:
                return list(found.values())
    return list(found.values())


def _index_branch(connection: sqlite3.Connection, branch: int, start: int) -> int:
    stop, size = start, 0
    for position, length in connection.execute(SQL["next_entries"], (branch, start, _SLICE)):
        stop, size = position + 1, size + length
        if size >= _SLICE_BYTES:
            break
    values = {"branch": branch, "start": start, "stop": stop}
    connection.execute(SQL["index_entries"], values)
    connection.execute(SQL["note_indexed"], values)
    return stop - start


def _index_summaries(connection: sqlite3.Connection) -> int:
    count, last = connection.execute(SQL["next_summaries"], {"count": _SLICE}).fetchone()
    if count:
        connection.execute(SQL["index_summaries"], {"stop": last})
        connection.execute(SQL["note_indexed_summaries"], {"stop": last})
    return int(count)


def _by_frequency(connection: sqlite3.Connection, terms: Sequence[str]) -> tuple[list[str], list[str]]:
    """The terms that are rare enough to rank all rows that hold one, and the rarest of the others."""
    counts = {
        term: connection.execute(SQL["count_matches"], {"match": _any([term]), "most": _MOST_RANKED}).fetchone()[0]
        for term in terms
    }
    rare: list[str] = []
    total = 0
    ordered = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])
    for term in ordered:
        total += counts[term]
        if total >= _MOST_RANKED:
            break
        rare.append(term)
    return rare, ordered[len(rare) :][:_MOST_COMMON]


def _searches(
    connection: sqlite3.Connection, rare: Sequence[str], common: Sequence[str], shown: Shown
) -> Iterator[Iterable[tuple[int, float]]]:
    """Where to look, the best place first; what a later place finds is less relevant than all before."""
    if rare:
        yield connection.execute(SQL["best_matches"], {"match": _any(rare)})
    if not common:
        return
    runs = shown.runs
    if len(runs) <= _NARROW and sum(last - first for first, last in runs) <= _MOST_RANKED:
        for first, last in reversed(runs):
            yield connection.execute(SQL["best_matches_within"], {"match": _any(common), "first": first, "last": last})
    else:
        together = " AND ".join(map(_phrase, common))
        values = {"match": together, "most": _MOST_RANKED // len(common)}
        yield sorted(connection.execute(SQL["newest_matches"], values), key=lambda row: -row[1])


def _any(terms: Sequence[str]) -> str:
    return " OR ".join(map(_phrase, terms))


def _phrase(term: str) -> str:
    return f'"{term}"'  # letters, digits and spaces: see `query_terms`


class _Run(NamedTuple):
    """Entries of a branch that stand in a session's log."""

    start: int
    stop: int
    session_id: str


class Shown:
    """What the sessions of a scope hold: rows of it may be found, others belong to logs that were replaced."""

    def __init__(self, branches: dict[int, list[_Run]], sessions: Sequence[str]) -> None:
        self._branches = branches
        self._sessions = {session_id: at for at, session_id in enumerate(sessions)}

    @classmethod
    def of(cls, connection: sqlite3.Connection, scope: Scope) -> Shown:
        """What a scope holds now."""
        values = {"session_id": scope.only_session, "project": scope.project}
        heads = connection.execute(SQL["sessions_in_scope"], values).fetchall()
        heads.sort(key=lambda head: head[0] == scope.nearest)  # what several sessions share is told of this one
        branches: dict[int, list[_Run]] = {}
        for session_id, branch, stop in heads:
            for number, start, end in connection.execute(SQL["ranges"], {"branch": branch, "stop": stop}).fetchall():
                branches.setdefault(number, []).append(_Run(start, end, session_id))
        return cls(branches, [head[0] for head in heads])

    @property
    def runs(self) -> list[tuple[int, int]]:
        """First and last row of each run, without those that another one holds."""
        return sorted(
            {
                ((branch << 32) + min(run.start for run in runs), (branch << 32) + max(run.stop for run in runs) - 1)
                for branch, runs in self._branches.items()
            }
        )

    def match(self, connection: sqlite3.Connection, rowid: int, score: float) -> Match | None:
        """A row of the index with its text; None where no session of the scope holds it."""
        return self._message(connection, rowid, score) if rowid > 0 else self._summary(connection, -rowid, score)

    def _message(self, connection: sqlite3.Connection, rowid: int, score: float) -> Match | None:
        branch, position = rowid >> 32, rowid & POSITION
        for run in reversed(self._branches.get(branch, ())):
            if run.start <= position < run.stop:
                values = {"branch": branch, "position": position}
                (message,) = connection.execute(SQL["entry"], values).fetchone()
                return Match("message", run.session_id, position, position + 1, score, searchable(message), rowid)
        return None

    def _summary(self, connection: sqlite3.Connection, id: int, score: float) -> Match | None:
        places = connection.execute(SQL["summary_places"], {"id": id}).fetchall()
        known = [place for place in places if place[0] in self._sessions]
        if not known:
            return None
        session_id, start, stop = max(known, key=lambda place: self._sessions[place[0]])
        (text,) = connection.execute(SQL["summary_text"], {"id": id}).fetchone()
        return Match("summary", session_id, start, stop, score, text.decode("utf-8", "replace"), -id)
