"""Vectors of a relational store: the extra `vectors`.

Who makes them, and what they mean, is `embeddings`'s matter. Messages are numbered as in the index of words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import MissingExtraError
from summarizing_context.stores.base import Match, Owner, Scope
from summarizing_context.stores.relational.engine import Connection
from summarizing_context.stores.relational.search import POSITION, Shown

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore

AT_ONCE = 4_000  # vectors held in memory for comparing


class RelationalVectors:
    """The `VectorStore` of a relational store."""

    def __init__(self, store: RelationalStore[Any]) -> None:
        self._store = store
        self._passing: dict[tuple[Owner, str, int], bytes] = {}  # where nothing may be written

    def check_usable(self) -> None:
        if find_spec("numpy") is None:
            raise MissingExtraError("vectors", "comparing embeddings needs numpy")

    async def rows(self, scope: Scope) -> list[int]:
        def work(connection: Connection) -> list[int]:
            runs = Shown(connection, scope).runs
            return [row for first, last in reversed(runs) for row in range(last, first - 1, -1)]

        return await self._store.read(work)

    async def messages(self, rows: Sequence[int]) -> dict[int, bytes]:
        def work(connection: Connection) -> dict[int, bytes]:
            places = {row: {"branch": row >> 32, "position": row & POSITION} for row in rows}
            found = {row: connection.run("entry", place).fetchone() for row, place in places.items()}
            return {row: entry[0] for row, entry in found.items() if entry is not None}

        return await self._store.read(work)

    async def missing(self, owner: Owner, recipe: str, numbers: Sequence[int], size: int) -> list[int]:
        asked = [n for n in numbers if not 0 < size == len(self._passing.get((owner, recipe, n), b""))]
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(asked), "size": size}
        return await self._store.read(lambda connection: [n for (n,) in connection.run("missing_vectors", values)])

    async def drop(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> None:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        if not self._store.read_only:
            await self._store.submit(lambda connection: connection.run("drop_vectors", values))

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._store.read_only:
            self._passing |= {(owner, recipe, number): vector for number, vector in vectors.items()}
        else:
            kept = dict(vectors)
            await self._store.submit(lambda connection: self._save(connection, owner, recipe, kept))

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        passing = [(n, self._passing.get((owner, recipe, n), b"")) for n in numbers if self._passing]

        def work(connection: Connection) -> dict[int, float]:
            return {**self._near(connection, owner, recipe, numbers, query), **cosines(passing, query)}

        return await self._store.read(work)

    async def matches(self, scope: Scope, scores: Mapping[int, float]) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            shown = Shown(connection, scope)
            found = (shown.match(connection, row, score) for row, score in scores.items())
            return [match for match in found if match is not None]

        return await self._store.read(work)

    # What a database may do in a better way, in the engine's thread.

    def _save(self, connection: Any, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        known = {"owner": owner, "recipe": recipe}
        connection.run_many("save_vector", [{**known, "number": n, "vector": vector} for n, vector in vectors.items()])

    def _near(
        self, connection: Any, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes
    ) -> dict[int, float]:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        return cosines(connection.run("vectors_of", values), query)


def cosines(rows: Iterable[tuple[int, bytes]], query: bytes) -> dict[int, float]:
    """Return that of each vector with the query; those of another length are left out."""
    import numpy

    scores: dict[int, float] = {}
    left = iter(rows)
    while some := list(islice(left, AT_ONCE)):
        fitting = [(number, vector) for number, vector in some if len(vector) == len(query)]
        if fitting:
            table = numpy.frombuffer(b"".join(vector for _, vector in fitting), dtype=numpy.float32)
            found = table.reshape(len(fitting), -1) @ numpy.frombuffer(query, dtype=numpy.float32)
            scores |= {number: float(score) for (number, _), score in zip(fitting, found, strict=True)}
    return scores
