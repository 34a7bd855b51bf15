"""Vectors of a relational store: the extra `vectors`.

Who makes them, and what they mean, is `embeddings`'s matter. Messages are numbered as in the index of words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from summarizing_context.errors import MissingExtraError
from summarizing_context.stores.base import Match, Owner, Scope
from summarizing_context.stores.relational.database import Access, Connection
from summarizing_context.stores.relational.search import POSITION, Shown

AT_ONCE = 4_000  # vectors held in memory for comparing


class RelationalVectors:
    """The `VectorStore` of a relational store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._passing: dict[tuple[Owner, str, int], bytes] = {}  # where nothing may be written

    def check_usable(self) -> None:
        """Raise `MissingExtraError` where numpy is not installed."""
        if find_spec("numpy") is None:
            raise MissingExtraError("vectors", "comparing embeddings needs numpy")

    async def rows(self, scope: Scope) -> list[int]:
        def work(connection: Connection) -> list[int]:
            runs = Shown.of(connection, scope).runs
            return [row for first, last in reversed(runs) for row in range(last, first - 1, -1)]

        return await self._access.read(work)

    async def messages(self, rows: Sequence[int]) -> dict[int, bytes]:
        def work(connection: Connection) -> dict[int, bytes]:
            found = {}
            for row in rows:
                values = {"branch": row >> 32, "position": row & POSITION}
                entry = connection.run("entry", values).fetchone()
                if entry is not None:
                    found[row] = entry[0]
            return found

        return await self._access.read(work)

    async def missing(self, owner: Owner, recipe: str, numbers: Sequence[int], size: int) -> list[int]:
        there = {number for number in numbers if len(self._passing.get((owner, recipe, number), b"")) == size > 0}
        asked = [number for number in numbers if number not in there] if there else list(numbers)
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(asked), "size": size}
        return await self._access.read(
            lambda connection: [number for (number,) in connection.run("missing_vectors", values)]
        )

    async def drop(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> None:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        if not self._access.read_only:
            await self._access.submit(lambda connection: connection.run("drop_vectors", values))

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._access.read_only:
            self._passing |= {(owner, recipe, number): vector for number, vector in vectors.items()}
            return
        rows = [{"owner": owner, "recipe": recipe, "number": number, "vector": vectors[number]} for number in vectors]
        await self._access.submit(lambda connection: connection.run_many("save_vector", rows))

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        passing = self._passing_of(owner, recipe, numbers)

        def work(connection: Connection) -> dict[int, float]:
            scores: dict[int, float] = {}
            rows = connection.run("vectors_of", values)
            while some := rows.fetchmany(AT_ONCE):
                scores |= cosines(some, query)
            return scores | cosines(passing, query)

        return await self._access.read(work)

    def _passing_of(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        return [(number, self._passing.get((owner, recipe, number), b"")) for number in numbers if self._passing]

    async def matches(self, scope: Scope, scores: Mapping[int, float]) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            shown = Shown.of(connection, scope)
            found = (shown.match(connection, row, score) for row, score in scores.items())
            return [match for match in found if match is not None]

        return await self._access.read(work)


def cosines(rows: Sequence[tuple[int, bytes]], query: bytes) -> dict[int, float]:
    """Of each vector with the query; those of another length are left out."""
    import numpy

    fitting = [(number, vector) for number, vector in rows if len(vector) == len(query)]
    if not fitting:
        return {}
    table = numpy.frombuffer(b"".join(vector for _, vector in fitting), dtype=numpy.float32)
    scores = table.reshape(len(fitting), -1) @ numpy.frombuffer(query, dtype=numpy.float32)
    return {number: float(score) for (number, _), score in zip(fitting, scores, strict=True)}
