"""Search by words in a relational store: which rows of an index match a query in a scope, and where they stand.

How words are indexed and weighed is the database's matter; see `Words`. Messages are numbered by branch and position,
summaries by their id below zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.relational.database import Access, Connection
from summarizing_context.stores.relational.log import readable

MOST_RANKED = 2_500  # rows whose relevance one query works out

_MOST_COMMON = 2  # common words that a query may ask for

_NARROW = 8  # runs of rows that are looked through one by one

_COMMON_SCORE = 1e-6  # of what holds common words alone, as BM25 has it

POSITION = (1 << 32) - 1

ALL_ROWS = (-(1 << 63), (1 << 63) - 1)


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


class RelationalSearchIndex:
    """The `SearchIndex` of a relational store; `words` makes the `Words` of a connection."""

    def __init__(self, access: Access, words: Callable[[Any], Words]) -> None:
        self._access = access
        self._words = words

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        return await self._access.read(
            lambda connection: find(connection, terms, scope, limit, self._words(connection))
        )


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
            yield _newest(words, common, runs if shown.is_part else [ALL_ROWS], all_of_them)


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
