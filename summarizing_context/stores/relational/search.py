"""Search by words in a relational store: which rows of an index match a query in a scope, and where they stand.

How words are indexed and weighed is the database's matter; see `Words`. Messages are numbered by branch and position,
summaries by their id below zero.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from summarizing_context.errors import StoreFullError, StoreLockedError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.relational.database import Access, Connection

logger = logging.getLogger(__name__)

MOST_RANKED = 2_500  # rows whose relevance one query works out

_MOST_COMMON = 2  # common words that a query may ask for

_NARROW = 8  # runs of rows that are looked through one by one

_COMMON_SCORE = 1e-6  # of what holds common words alone, as BM25 has it

POSITION = (1 << 32) - 1

_ALL_ROWS = (-(1 << 63), (1 << 63) - 1)


class Words(Protocol):
    """The index of words. A term is a word, or several as a phrase."""

    def count(self, term: str, most: int) -> int:
        """How many rows hold a term, counted up to `most`."""

    def best(self, terms: Sequence[str]) -> Iterable[tuple[int, float]]:
        """Rows that hold any of the terms with their relevance, the best first."""

    def best_within(self, terms: Sequence[str], first: int, last: int) -> Iterable[tuple[int, float]]:
        """The same of one run of rows."""

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterable[int]:
        """Rows of one run that hold any, or all, of the terms, the newest first."""


class Behind(NamedTuple):
    """What the index lacks of a scope."""

    branches: list[tuple[int, int]]  # each with one past its last entry
    last_summary: int  # 0: all are indexed


class RelationalSearchIndex:
    """The `SearchIndex` of a relational store. A database says how it indexes a slice, and how it finds."""

    takes_no_more: tuple[type[Exception], ...] = (StoreFullError, StoreLockedError)  # then searches index in memory

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_kept_up = not access.read_only

    async def backlog(self) -> int:
        return await self._access.read(lambda connection: int(connection.run("backlog").fetchone()[0]))

    async def catch_up(self) -> int:
        return 0 if self._access.read_only else await self._access.submit(self._catch_up)

    async def complete(self, scope: Scope) -> None:
        """Index what a scope holds by now; what is appended meanwhile is left for later. Where the store takes no more,
        what is missing is indexed in memory by each search."""
        if self._access.read_only:
            return
        try:
            goals = await self._access.read(lambda connection: behind(connection, scope))
            for branch, stop in goals.branches:
                while await self._access.submit_spare(partial(self._index_branch_to, branch=branch, stop=stop)):
                    pass
            while goals.last_summary and await self._access.submit_spare(
                partial(self._index_summaries, last=goals.last_summary)
            ):
                pass
            self._is_kept_up = True
        except self.takes_no_more as error:
            self._is_kept_up = False
            logger.warning("the index could not be kept up", extra={"cause": type(error).__name__})

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        return await self._access.read(lambda connection: self._find(connection, terms, scope, limit))

    def _index_branch_to(self, connection: Any, branch: int, stop: int) -> bool:
        """Index a slice of a branch, unless it is indexed up to `stop`; whether to go on."""
        row = connection.run("indexed_of", {"branch": branch}).fetchone()
        return row is not None and row[0] < stop and self._index_branch(connection, branch, row[0]) > 0

    def _catch_up(self, connection: Any) -> int:
        raise NotImplementedError

    def _index_branch(self, connection: Any, branch: int, start: int) -> int:
        """Index a slice of a branch from a position on; how many entries."""
        raise NotImplementedError

    def _index_summaries(self, connection: Any, last: int) -> int:
        """Index some summaries, unless all up to `last` are; how many."""
        raise NotImplementedError

    def _find(self, connection: Any, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        raise NotImplementedError


def readable(text: str | bytes) -> str:
    """A text as it is kept, in which halves of characters are let through, without these: no index takes them."""
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def behind(connection: Connection, scope: Scope) -> Behind:
    """What the index lacks of a scope now."""
    branches = connection.run("branches_behind").fetchall()
    shown = Shown.of(connection, scope) if branches else None
    (last,) = connection.run("last_summary_behind").fetchone()
    return Behind([row for row in branches if shown is not None and shown.has_branch(row[0])], last)


def find(connection: Connection, terms: Sequence[str], scope: Scope, limit: int, words: Words) -> list[Match]:
    """What holds any of the terms in the scope, the most relevant first."""
    if not terms:
        return []
    shown = Shown.of(connection, scope)
    rare, common = _by_frequency(words, terms)
    found: dict[int, Match] = {}
    for rows in _searches(words, rare, common, shown):
        for rowid, score in rows:
            if rowid not in found and (match := shown.match(connection, rowid, score)) is not None:
                found[rowid] = match
            if len(found) >= limit:
                return list(found.values())
    return list(found.values())


def _by_frequency(words: Words, terms: Sequence[str]) -> tuple[list[str], list[str]]:
    """The terms that are rare enough to rank all rows that hold one, and the rarest of the others."""
    counts = {term: words.count(term, MOST_RANKED) for term in terms}
    rare: list[str] = []
    total = 0
    ordered = sorted((term for term in terms if counts[term]), key=lambda term: counts[term])
    for term in ordered:
        total += counts[term]
        if total >= MOST_RANKED:
            break
        rare.append(term)
    return rare, ordered[len(rare) :][:_MOST_COMMON]


def _searches(
    words: Words, rare: Sequence[str], common: Sequence[str], shown: Shown
) -> Iterator[Iterable[tuple[int, float]]]:
    """Where to look, the best place first; what a later place finds is less relevant than all before."""
    if rare:
        yield words.best(rare)
    if not common:
        return
    runs = shown.runs
    if len(runs) <= _NARROW and sum(last - first for first, last in runs) <= MOST_RANKED:
        for first, last in reversed(runs):
            yield words.best_within(common, first, last)
    else:
        for all_of_them in (True, False) if len(common) > 1 else (False,):
            yield _newest(words, common, runs if shown.is_part else [_ALL_ROWS], all_of_them)


def _newest(
    words: Words, terms: Sequence[str], runs: Sequence[tuple[int, int]], all_of_them: bool
) -> Iterator[tuple[int, float]]:
    """The newest rows of these runs that match; of a scope's own, for others may hold the words far more often."""
    left = MOST_RANKED
    for first, last in reversed(runs):
        for row in words.newest(terms, first, last, all_of_them=all_of_them):
            yield row, _COMMON_SCORE
            left -= 1
            if not left:
                return


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
    def of(cls, connection: Connection, scope: Scope) -> Shown:
        """What a scope holds now."""
        values = {"session_id": scope.only_session, "project": scope.project}
        heads = connection.run("sessions_in_scope", values).fetchall()
        heads.sort(key=lambda head: head[0] == scope.nearest)  # what several sessions share is told of this one first
        branches: dict[int, list[_Run]] = {}
        for session_id, branch, stop in heads:
            for number, start, end in connection.run("ranges", {"branch": branch, "stop": stop}).fetchall():
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

    def match(self, connection: Connection, rowid: int, score: float) -> Match | None:
        """A row of the index with its text; None where no session of the scope holds it."""
        return self._message(connection, rowid, score) if rowid > 0 else self._summary(connection, -rowid, score)

    def _message(self, connection: Connection, rowid: int, score: float) -> Match | None:
        branch, position = rowid >> 32, rowid & POSITION
        runs = reversed(self._branches.get(branch, ()))
        places = [(run.session_id, position, position + 1) for run in runs if run.start <= position < run.stop]
        if not places:
            return None
        (message,) = connection.run("entry", {"branch": branch, "position": position}).fetchone()
        return Match("message", *places[0], score, searchable(message), rowid, tuple(places[1:]))

    def _summary(self, connection: Connection, id: int, score: float) -> Match | None:
        places = connection.run("summary_places", {"id": id}).fetchall()
        known = [place for place in places if place[0] in self._sessions]
        if not known:
            return None
        known.sort(key=lambda place: -self._sessions[place[0]])
        session_id, start, stop = known[0]
        (text,) = connection.run("summary_text", {"id": id}).fetchone()
        return Match("summary", session_id, start, stop, score, readable(text), -id, tuple(known[1:]))
