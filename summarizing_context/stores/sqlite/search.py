"""Search by words in SQLite: the index, and which of its rows match a query in a scope.

The index is filled behind the log.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from math import inf
from typing import NamedTuple

from summarizing_context.concurrency import holding_long
from summarizing_context.errors import StoreFullError, StoreLockedError
from summarizing_context.messages.search_terms import indexed_words, searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.sqlite.schema import SQL, transaction
from summarizing_context.stores.sqlite.writer import Access

_MOST_RANKED = 2_500  # rows whose relevance one query works out

_MOST_COMMON = 2  # common words that a query may ask for

_NARROW = 8  # runs of rows that are looked through one by one

_COMMON_SCORE = 1e-6  # of what holds common words alone, as BM25 has it

POSITION = (1 << 32) - 1

_ALL_ROWS = (-(1 << 63), (1 << 63) - 1)


class Behind(NamedTuple):
    """What the index lacks of a scope."""

    branches: list[tuple[int, int]]  # each with one past its last entry
    last_summary: int  # 0: all are indexed


def readable(text: str | bytes) -> str:
    """A text as it is kept, in which halves of characters are let through, without these: SQLite takes none."""
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def behind(connection: sqlite3.Connection, scope: Scope) -> Behind:
    """What the index lacks of a scope now."""
    branches = connection.execute(SQL["branches_behind"]).fetchall()
    shown = Shown.of(connection, scope) if branches else None
    (last,) = connection.execute(SQL["last_summary_behind"]).fetchone()
    return Behind([row for row in branches if shown is not None and shown.has_branch(row[0])], last)


def find(
    connection: sqlite3.Connection,
    terms: Sequence[str],
    scope: Scope,
    limit: int,
    words: sqlite3.Connection | None = None,
) -> list[Match]:
    """What holds any of the terms in the scope, the most relevant first; `words` has the index if not the file."""
    if not terms:
        return []
    shown = Shown.of(connection, scope)
    words = words or connection
    rare, common = _by_frequency(words, terms)
    found: dict[int, Match] = {}
    for rows in _searches(words, rare, common, shown):
        for rowid, score in rows:
            if rowid not in found and (match := shown.match(connection, rowid, score)) is not None:
                found[rowid] = match
            if len(found) >= limit:
                return list(found.values())
    return list(found.values())


def find_unindexed_too(connection: sqlite3.Connection, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
    """The same for who may not write to the index: what it lacks is indexed in memory, for this search."""
    found = find(connection, terms, scope, limit)
    lacking = behind(connection, scope)
    if not terms or not (lacking.branches or lacking.last_summary):
        return found
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as beside:
        beside.execute(connection.execute(SQL["how_indexed"]).fetchone()[0])
        beside.executemany(SQL["index_text"], _lacking_texts(connection, lacking))
        found += find(connection, terms, scope, limit, beside)
    return sorted(found, key=lambda match: -match.score)[:limit]


def _lacking_texts(connection: sqlite3.Connection, lacking: Behind) -> Iterator[tuple[int, str]]:
    """Rows of the index that are not in it yet, with their texts."""
    for branch, _ in lacking.branches:
        (start,) = connection.execute(SQL["indexed_of"], {"branch": branch}).fetchone()
        for position, message in connection.execute(SQL["entries_behind"], {"branch": branch, "start": start}):
            yield (branch << 32) + position, indexed_words(searchable(message))
    yield from ((row, indexed_words(readable(text))) for row, text in connection.execute(SQL["summaries_behind"]))


def _by_frequency(words: sqlite3.Connection, terms: Sequence[str]) -> tuple[list[str], list[str]]:
    """The terms that are rare enough to rank all rows that hold one, and the rarest of the others."""
    counts = {
        term: words.execute(SQL["count_matches"], {"match": _any([term]), "most": _MOST_RANKED}).fetchone()[0]
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
    words: sqlite3.Connection, rare: Sequence[str], common: Sequence[str], shown: Shown
) -> Iterator[Iterable[tuple[int, float]]]:
    """Where to look, the best place first; what a later place finds is less relevant than all before."""
    if rare:
        yield words.execute(SQL["best_matches"], {"match": _any(rare)})
    if not common:
        return
    runs = shown.runs
    if len(runs) <= _NARROW and sum(last - first for first, last in runs) <= _MOST_RANKED:
        for first, last in reversed(runs):
            yield words.execute(SQL["best_matches_within"], {"match": _any(common), "first": first, "last": last})
    else:
        for match in dict.fromkeys((" AND ".join(map(_phrase, common)), _any(common))):
            yield _newest(words, match, runs if shown.is_part else [_ALL_ROWS])


def _newest(words: sqlite3.Connection, match: str, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, float]]:
    """The newest rows of these runs that match; of a scope's own, for others may hold the words far more often."""
    left = _MOST_RANKED
    for first, last in reversed(runs):
        for (row,) in words.execute(SQL["newest_matches"], {"match": match, "first": first, "last": last}):
            yield row, _COMMON_SCORE
            left -= 1
            if not left:
                return


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

    def __init__(self, branches: dict[int, list[_Run]], sessions: Sequence[str], *, is_part: bool) -> None:
        self.is_part = is_part  # of all that there is
        self._branches = branches
        self._sessions = {session_id: at for at, session_id in enumerate(sessions)}

    @classmethod
    def of(cls, connection: sqlite3.Connection, scope: Scope) -> Shown:
        """What a scope holds now."""
        values = {"session_id": scope.only_session, "project": scope.project}
        heads = connection.execute(SQL["sessions_in_scope"], values).fetchall()
        heads.sort(key=lambda head: head[0] == scope.nearest)  # what several sessions share is told of this one first
        branches: dict[int, list[_Run]] = {}
        for session_id, branch, stop in heads:
            for number, start, end in connection.execute(SQL["ranges"], {"branch": branch, "stop": stop}).fetchall():
                branches.setdefault(number, []).append(_Run(start, end, session_id))
        is_part = scope.only_session is not None or scope.project is not None
        return cls(branches, [head[0] for head in heads], is_part=is_part)

    def has_branch(self, branch: int) -> bool:
        """Whether something of a branch is shown."""
        return branch in self._branches

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
        runs = reversed(self._branches.get(branch, ()))
        places = [(run.session_id, position, position + 1) for run in runs if run.start <= position < run.stop]
        if not places:
            return None
        (message,) = connection.execute(SQL["entry"], {"branch": branch, "position": position}).fetchone()
        return Match("message", *places[0], score, searchable(message), rowid, tuple(places[1:]))

    def _summary(self, connection: sqlite3.Connection, id: int, score: float) -> Match | None:
        places = connection.execute(SQL["summary_places"], {"id": id}).fetchall()
        known = [place for place in places if place[0] in self._sessions]
        if not known:
            return None
        known.sort(key=lambda place: -self._sessions[place[0]])
        session_id, start, stop = known[0]
        (text,) = connection.execute(SQL["summary_text"], {"id": id}).fetchone()
        return Match("summary", session_id, start, stop, score, readable(text), -id, tuple(known[1:]))


logger = logging.getLogger(__name__)

_SLICE = 128  # messages or summaries indexed in one transaction

_SLICE_BYTES = 250_000  # of messages; after that many the slice ends

_LONG = 1_000_000  # bytes of a message whose parsing takes milliseconds

_LEAVING = 0.25  # seconds that closing may spend on the index

_LARGEST_LEAVING = 2_000_000  # bytes of a message that is indexed then


class SqliteSearchIndex:
    """The index of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_kept_up = not access.read_only

    async def backlog(self) -> int:
        """Messages and summaries that are not indexed yet."""
        return await self._access.read(lambda connection: int(connection.execute(SQL["backlog"]).fetchone()[0]))

    async def catch_up(self) -> int:
        """Index a slice of what is missing; how many rows, 0 when all is indexed."""
        if self._access.read_only:
            return 0
        return await self._access.writer.submit(catch_up)

    async def complete(self, scope: Scope) -> None:
        """Index what a scope holds by now; what is appended meanwhile is left for later. Where the file takes no more,
        what is missing is indexed in memory by each search."""
        if self._access.read_only:
            return
        try:
            await self._catch_up_with(scope)
            self._is_kept_up = True
        except (StoreFullError, StoreLockedError) as error:
            self._is_kept_up = False
            logger.warning("the index could not be kept up", extra={"cause": type(error).__name__})

    async def _catch_up_with(self, scope: Scope) -> None:
        goals = await self._access.read(lambda connection: behind(connection, scope))
        for branch, stop in goals.branches:
            while await self._access.writer.submit_spare(partial(_index_branch_to, branch=branch, stop=stop)):
                pass
        while goals.last_summary and await self._access.writer.submit_spare(
            partial(_index_summaries_to, last=goals.last_summary)
        ):
            pass

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        """What holds any of the terms, the most relevant first."""
        look = find if self._is_kept_up else find_unindexed_too
        return await self._access.read(lambda connection: look(connection, terms, scope, limit))


def add_functions(connection: sqlite3.Connection) -> None:
    """What the queries call; on every connection that indexes, or forgets what is indexed."""
    connection.create_function("indexed", 1, _indexed, deterministic=True)
    connection.create_function("spaced", 1, lambda text: indexed_words(readable(text)), deterministic=True)


def _indexed(message: bytes) -> str:
    with holding_long() if len(message) > _LONG else nullcontext():
        return indexed_words(searchable(message))


def index_in_spare_time(connection: sqlite3.Connection) -> bool:
    """Index a slice in a transaction of its own; whether there is more."""
    with transaction(connection):
        return catch_up(connection) > 0


def index_before_leaving(connection: sqlite3.Connection) -> None:
    """Index what came last, so that readers find it; of a long backlog only a part."""
    until = time.monotonic() + _LEAVING
    has_more = True
    while has_more and time.monotonic() < until:
        with transaction(connection):
            has_more = catch_up(connection, largest=_LARGEST_LEAVING) > 0


def catch_up(connection: sqlite3.Connection, *, largest: float = inf) -> int:
    """Index a slice of what is missing; how many rows, 0 when all is indexed, or up to a message of more bytes."""
    row = connection.execute(SQL["branch_behind"]).fetchone()
    if row is None:
        return _index_summaries(connection)
    branch, start = row
    return _index_branch(connection, branch, start, largest)


def forget_entries(connection: sqlite3.Connection, branch: int, stop: int) -> None:
    """A branch is about to lose its entries from `stop` on."""
    values = {"branch": branch, "stop": stop}
    connection.execute(SQL["unindex_entries"], values)
    connection.execute(SQL["note_unindexed"], values)
    connection.execute(SQL["remove_row_vectors"], values)


def _index_branch(connection: sqlite3.Connection, branch: int, start: int, largest: float = inf) -> int:
    stop, size = start, 0
    for position, length in connection.execute(SQL["next_entries"], (branch, start, _SLICE)):
        if length > largest:
            break
        stop, size = position + 1, size + length
        if size >= _SLICE_BYTES:
            break
    values = {"branch": branch, "start": start, "stop": stop}
    connection.execute(SQL["index_entries"], values)
    connection.execute(SQL["note_indexed"], values)
    return stop - start


def _index_branch_to(connection: sqlite3.Connection, branch: int, stop: int) -> bool:
    """Index a slice of a branch, unless it is indexed up to `stop`; whether to go on."""
    row = connection.execute(SQL["indexed_of"], {"branch": branch}).fetchone()
    return row is not None and row[0] < stop and _index_branch(connection, branch, row[0]) > 0


def _index_summaries_to(connection: sqlite3.Connection, last: int) -> bool:
    """Index some summaries, unless all up to `last` are; whether to go on."""
    (indexed,) = connection.execute(SQL["indexed_summaries"]).fetchone()
    return indexed < last and _index_summaries(connection) > 0


def _index_summaries(connection: sqlite3.Connection) -> int:
    count, last = connection.execute(SQL["next_summaries"], {"count": _SLICE}).fetchone()
    if count:
        connection.execute(SQL["index_summaries"], {"stop": last})
        connection.execute(SQL["note_indexed_summaries"], {"stop": last})
    return int(count)
