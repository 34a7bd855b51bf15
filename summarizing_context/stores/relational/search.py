"""Search in a relational store, by words and by vectors: which rows match in a scope, and where they stand.

How words are indexed and weighed is the database's matter; who makes vectors, and what they mean, is `embeddings`'s.
Messages are numbered by branch and position, summaries by their id below zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import MissingExtraError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Match, Owner, Scope
from summarizing_context.stores.relational.engine import Connection
from summarizing_context.stores.relational.log import readable

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore


class _Shown:
    """What the sessions of a scope hold: rows of it may be found, others belong to logs that were replaced."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        found = connection.run("sessions_in_scope", session_id=scope.only_session, project=scope.project)
        # What several share is told of the last one first.
        heads = sorted(found.fetchall(), key=lambda head: head[0] == scope.nearest)
        self._sessions = {head[0]: at for at, head in enumerate(heads)}
        self.branches: dict[int, list[tuple[int, int, str]]] = {}  # places from start to stop, of a session
        for session_id, branch, stop in heads:
            for number, start, end in connection.run("ranges", branch=branch, stop=stop).fetchall():
                self.branches.setdefault(number, []).append((start, end, session_id))

    def match(self, connection: Connection, row: int, score: float) -> Match | None:
        """Return a row of the index with its text; None where no session of the scope holds it."""
        if row > 0:
            branch, at = divmod(row, 1 << 32)
            runs = reversed(self.branches.get(branch, ()))
            places = [(session_id, at, at + 1) for start, end, session_id in runs if start <= at < end]
        else:
            found = connection.run("summary_places", id=-row).fetchall()
            places = [place for place in found if place[0] in self._sessions]
            places.sort(key=lambda place: -self._sessions[place[0]])
        if not places:
            return None
        if row > 0:
            text = searchable(connection.run("entry", branch=branch, position=at).fetchone()[0])
        else:
            text = readable(connection.run("summary_text", id=-row).fetchone()[0])
        return Match("message" if row > 0 else "summary", *places[0], score, text, row, tuple(places[1:]))


class RelationalSearchIndex:
    """The `SearchIndex` of a relational store."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            shown = _Shown(connection, scope)
            asked = " OR ".join(f'"{term}"' for term in terms)  # letters, digits and spaces: see `query_terms`
            found = (shown.match(connection, *row) for row in connection.run("best_matches", match=asked))
            return list(islice((match for match in found if match is not None), limit))

        return await self._store.read(work) if terms else []


class RelationalVectors:
    """The `VectorStore` of a relational store: the extra `vectors`."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store
        self._passing: dict[tuple[Owner, str, int], bytes] = {}  # where nothing may be written

    def check_usable(self) -> None:
        if find_spec("numpy") is None:
            raise MissingExtraError("vectors", "comparing embeddings needs numpy")

    async def rows(self, scope: Scope) -> list[int]:
        def work(connection: Connection) -> list[int]:
            held = {
                (branch << 32) + at
                for branch, runs in _Shown(connection, scope).branches.items()
                for start, stop, _ in runs
                for at in range(start, stop)
            }
            return sorted(held, reverse=True)

        return await self._store.read(work)

    async def messages(self, rows: Sequence[int]) -> dict[int, bytes]:
        def work(connection: Connection) -> dict[int, bytes]:
            places = {row: dict(zip(("branch", "position"), divmod(row, 1 << 32), strict=True)) for row in rows}
            found = {row: connection.run("entry", **place).fetchone() for row, place in places.items()}
            return {row: entry[0] for row, entry in found.items() if entry is not None}

        return await self._store.read(work)

    async def missing(self, owner: Owner, recipe: str, numbers: Sequence[int], size: int) -> list[int]:
        asked = [n for n in numbers if not 0 < size == len(self._passing.get((owner, recipe, n), b""))]
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(asked), "size": size}
        missing = await self._store.read(lambda connection: {n for (n,) in connection.run("missing_vectors", **values)})
        return [n for n in asked if n in missing]

    async def drop(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> None:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        if not self._store.read_only:
            await self._store.submit(lambda connection: connection.run("drop_vectors", **values))

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._store.read_only:
            self._passing |= {(owner, recipe, number): vector for number, vector in vectors.items()}
            return
        rows = [
            {"owner": owner, "recipe": recipe, "number": number, "vector": vector} for number, vector in vectors.items()
        ]
        await self._store.submit(lambda connection: connection.run_many("save_vector", rows))

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        passing = [(n, self._passing.get((owner, recipe, n), b"")) for n in numbers if self._passing]
        return await self._store.read(
            lambda connection: cosines(chain(connection.run("vectors_of", **values), passing), query)
        )

    async def matches(self, scope: Scope, scores: Mapping[int, float]) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            shown = _Shown(connection, scope)
            found = (shown.match(connection, row, score) for row, score in scores.items())
            return [match for match in found if match is not None]

        return await self._store.read(work)


def cosines(rows: Iterable[tuple[int, bytes]], query: bytes) -> dict[int, float]:
    """Return that of each vector with the query; those of another length are left out."""
    import numpy

    scores: dict[int, float] = {}
    left = (row for row in rows if len(row[1]) == len(query))
    while some := list(islice(left, 4_000)):  # at once in memory
        table = numpy.frombuffer(b"".join(vector for _, vector in some), dtype=numpy.float32)
        found = table.reshape(len(some), -1) @ numpy.frombuffer(query, dtype=numpy.float32)
        scores |= {number: float(score) for (number, _), score in zip(some, found, strict=True)}
    return scores
