"""Search by words in a relational store: which rows of an index match a query in a scope, and where they stand.

How words are indexed and weighed is the database's matter. Messages are numbered by branch and position, summaries by
their id below zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Scope
from summarizing_context.stores.relational.engine import Connection
from summarizing_context.stores.relational.log import readable

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore

MOST_RANKED = 2_500  # rows whose relevance one query works out

POSITION = (1 << 32) - 1

_ALL_ROWS = (-(1 << 63), (1 << 63) - 1)

_COMMON_SCORE = 1e-6  # of what holds common words alone, as BM25 has it


class RelationalSearchIndex:
    """The `SearchIndex` of a relational store."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            shown = Shown(connection, scope)
            found: dict[int, Match] = {}
            for row, score in _ranked(connection, terms, shown):
                if row not in found and (match := shown.match(connection, row, score)) is not None:
                    found[row] = match
                    if len(found) >= limit:
                        break
            return list(found.values())

        return await self._store.read(work) if terms else []


def _ranked(connection: Connection, terms: Sequence[str], shown: Shown) -> Iterator[tuple[int, float]]:
    """Yield rows that hold any of the terms with their relevance, the best first: those with a term that is rare enough
    to rank all its rows, then those that hold the two rarest of the others alone."""
    counts = {
        term: connection.run("count_matches", {"match": f'"{term}"', "most": MOST_RANKED}).fetchone()[0]
        for term in terms
    }
    ordered = sorted((term for term in terms if counts[term]), key=counts.__getitem__)
    rare: list[str] = []
    while len(rare) < len(ordered) and sum(counts[term] for term in ordered[: len(rare) + 1]) < MOST_RANKED:
        rare.append(ordered[len(rare)])
    if rare:
        yield from _best(connection, rare, *_ALL_ROWS)
    common = ordered[len(rare) :][:2]
    if not common:
        return
    if len(shown.runs) <= 8 and sum(last - first for first, last in shown.runs) <= MOST_RANKED:
        for run in reversed(shown.runs):
            yield from _best(connection, common, *run)
        return
    # The newest that hold both, then either; of the scope's own rows, for others may hold the words far more often.
    for joint in (" AND ", " OR ") if len(common) > 1 else (" OR ",):
        asked = {"match": joint.join(f'"{term}"' for term in common), "most": MOST_RANKED}
        for row in islice(_newest(connection, asked, shown.runs if shown.is_part else [_ALL_ROWS]), MOST_RANKED):
            yield row, _COMMON_SCORE


def _best(connection: Connection, terms: Sequence[str], first: int, last: int) -> Iterator[tuple[int, float]]:
    match = " OR ".join(f'"{term}"' for term in terms)  # letters, digits and spaces: see `query_terms`
    yield from connection.run("best_matches", {"match": match, "first": first, "last": last})


def _newest(connection: Connection, asked: dict[str, Any], runs: Sequence[tuple[int, int]]) -> Iterator[int]:
    for first, last in reversed(runs):
        for (row,) in connection.run("newest_matches", {**asked, "first": first, "last": last}):
            yield row


class Shown:
    """What the sessions of a scope hold: rows of it may be found, others belong to logs that were replaced."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self.is_part = scope.only_session is not None or scope.project is not None  # of all that there is
        values = {"session_id": scope.only_session, "project": scope.project}
        heads = connection.run("sessions_in_scope", values).fetchall()
        heads.sort(key=lambda head: head[0] == scope.nearest)  # what several share is told of the last one first
        self._sessions = {head[0]: at for at, head in enumerate(heads)}
        self._branches: dict[int, list[tuple[int, int, str]]] = {}  # places from start to stop, of a session
        for session_id, branch, stop in heads:
            for number, start, end in connection.run("ranges", {"branch": branch, "stop": stop}).fetchall():
                self._branches.setdefault(number, []).append((start, end, session_id))
        self.runs = sorted(  # first and last row of each
            ((branch << 32) + min(runs)[0], (branch << 32) + max(end for _, end, _ in runs) - 1)
            for branch, runs in self._branches.items()
        )

    def match(self, connection: Connection, row: int, score: float) -> Match | None:
        """Return a row of the index with its text; None where no session of the scope holds it."""
        if row > 0:
            branch, at = row >> 32, row & POSITION
            runs = reversed(self._branches.get(branch, ()))
            places = [(session_id, at, at + 1) for start, end, session_id in runs if start <= at < end]
            if not places:
                return None
            (message,) = connection.run("entry", {"branch": branch, "position": at}).fetchone()
            return Match("message", *places[0], score, searchable(message), row, tuple(places[1:]))
        found = connection.run("summary_places", {"id": -row}).fetchall()
        places = [place for place in found if place[0] in self._sessions]
        if not places:
            return None
        places.sort(key=lambda place: -self._sessions[place[0]])
        (text,) = connection.run("summary_text", {"id": -row}).fetchone()
        return Match("summary", *places[0], score, readable(text), row, tuple(places[1:]))
