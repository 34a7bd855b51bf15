"""What a relational store finds again: messages and summaries by words, texts by vectors, and memories.

How words are indexed and weighed is the database's matter; who makes vectors, and what they mean, is `embeddings`'s.
Messages are numbered by branch and position, summaries by their id below zero. Memories of a project are shared: any
host may write them, one at a time. Those of a session without a project are its own, as its log is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import accumulate, chain, islice, starmap
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import MissingExtraError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Decide, Match, MemoryScope, Owner, Scope, StoredMemory
from summarizing_context.stores.relational.engine import Connection, now, readable

if TYPE_CHECKING:
    from summarizing_context.stores.relational.store import RelationalStore

_MOST_RANKED = 2_500  # rows whose relevance one query works out
_ALL_ROWS = (-(1 << 63), (1 << 63) - 1)


def _held(connection: Connection, scope: Scope) -> tuple[dict[str, int], dict[int, list[tuple[int, int, str]]]]:
    """Return the sessions of a scope with their ranks, the nearest first; and what they hold of each branch, from place
    to place."""
    heads = connection.run("sessions_in_scope", session_id=scope.only_session, project=scope.project).fetchall()[::-1]
    heads.sort(key=lambda head: head[0] != scope.nearest)
    branches: dict[int, list[tuple[int, int, str]]] = {}
    for session_id, branch, stop in heads:
        for number, start, end in connection.run("ranges", branch=branch, stop=stop).fetchall():
            branches.setdefault(number, []).append((start, end, session_id))
    return {head[0]: rank for rank, head in enumerate(heads)}, branches


def _matches(connection: Connection, scope: Scope, rows: Iterable[tuple[int, float]]) -> Iterator[Match]:
    """Yield rows of the index, given with their scores, that sessions of the scope hold; others belong to logs that
    were replaced."""
    sessions, branches = _held(connection, scope)
    for row, score in rows:
        if row > 0:
            branch, at = divmod(row, 1 << 32)
            places = [(name, at, at + 1) for start, end, name in branches.get(branch, ()) if start <= at < end]
            if places:
                text = searchable(connection.run("entry", branch=branch, position=at).fetchone()[0])
                yield Match("message", *places[0], score, text, row, tuple(places[1:]))
        else:
            found = connection.run("summary_places", id=-row).fetchall()
            places = sorted((one for one in found if one[0] in sessions), key=lambda one: sessions[one[0]])
            if places:
                text = readable(connection.run("summary_text", id=-row).fetchone()[0])
                yield Match("summary", *places[0], score, text, row, tuple(places[1:]))


def _ranked(connection: Connection, terms: Sequence[str], scope: Scope) -> Iterator[tuple[int, float]]:
    """Yield rows that hold any of the terms with their relevance, the best first: those with a term that is rare enough
    to rank all its rows, then those that hold the two rarest of the others alone."""

    def rows(query: str, words: Sequence[str], joint: str = " OR ", run: tuple[int, int] = _ALL_ROWS) -> Any:
        match = joint.join(f'"{word}"' for word in words)  # letters, digits and spaces: see `query_terms`
        return connection.run(query, match=match, first=run[0], last=run[1], most=_MOST_RANKED)

    counts = sorted((rows("count_matches", [term]).fetchone()[0], term) for term in terms)
    few = sum(total < _MOST_RANKED for total in accumulate(count for count, _ in counts))
    rare, common = [term for _, term in counts[:few]], [term for _, term in counts[few : few + 2]]
    runs = [_ALL_ROWS] if common else []
    if common and (scope.only_session, scope.project) != (None, None):  # others may hold the words far more often
        held = _held(connection, scope)[1].items()
        runs = sorted(((at << 32) + start, (at << 32) + stop - 1) for at, all in held for start, stop, _ in all)[::-1]
    parts: list[tuple[Any, ...]] = [("best_matches", rare)] if rare else []
    if sum(last - first for first, last in runs) <= _MOST_RANKED:
        parts += (("best_matches", common, " OR ", run) for run in runs)
    else:  # the newest that hold both, then either
        parts += (("newest_matches", common, joint, run) for joint in (" AND ", " OR ") for run in runs)
    seen = set[int]()
    for row, score in islice(chain.from_iterable(starmap(rows, parts)), 3 * _MOST_RANKED):
        if row not in seen:
            seen.add(row)
            yield row, score


class RelationalSearchIndex:
    """The `SearchIndex` of a relational store."""

    def __init__(self, store: RelationalStore) -> None:
        self._store = store

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        def work(connection: Connection) -> list[Match]:
            return list(islice(_matches(connection, scope, _ranked(connection, terms, scope)), limit))

        return await self._store.read(work) if terms else []


class RelationalVectors:
    """The `VectorStore` of a relational store: the extra `vectors`."""

    def __init__(self, store: RelationalStore) -> None:
        self._store = store
        self._passing: dict[tuple[Owner, str, int], bytes] = {}  # where nothing may be written

    def check_usable(self) -> None:
        if find_spec("numpy") is None:
            raise MissingExtraError("vectors", "comparing embeddings needs numpy")

    async def rows(self, scope: Scope) -> list[int]:
        _, branches = await self._store.read(lambda connection: _held(connection, scope))
        runs = ((branch << 32, *run[:2]) for branch, held in branches.items() for run in held)
        return sorted({first + at for first, start, stop in runs for at in range(start, stop)}, reverse=True)

    async def messages(self, rows: Sequence[int]) -> dict[int, bytes]:
        def work(connection: Connection) -> dict[int, bytes]:
            asked = [(row, {"branch": row >> 32, "position": row % (1 << 32)}) for row in rows]
            found = [(row, connection.run("entry", **place).fetchone()) for row, place in asked]
            return {row: entry[0] for row, entry in found if entry is not None}

        return await self._store.read(work)

    async def missing(self, owner: Owner, recipe: str, numbers: Sequence[int], size: int) -> list[int]:
        asked = [n for n in numbers if not 0 < size == len(self._passing.get((owner, recipe, n), b""))]
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(asked), "size": size}
        missing = {number for (number,) in await self._store.rows("missing_vectors", **values)}
        return [number for number in asked if number in missing]

    async def drop(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> None:
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        if not self._store.read_only:
            await self._store.submit(lambda connection: connection.run("drop_vectors", **values))

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._store.read_only:
            self._passing |= {(owner, recipe, number): vector for number, vector in vectors.items()}
            return
        of = {"owner": owner, "recipe": recipe}
        rows = [{**of, "number": number, "vector": vector} for number, vector in vectors.items()]
        await self._store.submit(lambda connection: connection.run_many("save_vector", rows))

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        passing = [(n, self._passing.get((owner, recipe, n), b"")) for n in numbers if self._passing]
        values = {"owner": owner, "recipe": recipe, "numbers": json.dumps(list(numbers))}
        return await self._store.read(
            lambda connection: cosines(chain(connection.run("vectors_of", **values), passing), query)
        )

    async def matches(self, scope: Scope, scores: Mapping[int, float]) -> list[Match]:
        return await self._store.read(lambda connection: list(_matches(connection, scope, scores.items())))


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


class RelationalMemories:
    """The `MemoryStore` of a relational store."""

    def __init__(self, store: RelationalStore) -> None:
        self._store = store

    async def edit(self, scope: MemoryScope, decide: Decide, reader: str = "", marks: Sequence[str] = ()) -> list[str]:
        self._store.refuse_if_read_only("change memories")
        whose = scope._asdict()

        def work(connection: Connection) -> list[str]:
            connection.run("guard_memories", **whose)
            known = list(starmap(_memory, connection.run("memories", **whose, everything=False)))
            contents = {one.id: one.content for one in known}
            noted = _marked(connection, scope, reader, marks)
            ids: list[str] = []
            for id, content, metadata in decide(known, noted):
                values = {"content": content, "metadata": json.dumps(dict(metadata)), "now": now()}
                if id is None:
                    ids.append(f"m{connection.run('add_memory', **whose, **values).fetchone()[0]}")
                    continue
                ids.append(id)
                number = int(id[1:])
                if content is None:
                    connection.run("remove_memory", id=number)
                else:
                    connection.run("update_memory", id=number, **values)
                if content != contents[id]:
                    connection.run("remove_vector", owner="memory", number=number)
            for mark in {*marks} - noted:
                connection.run("add_mark", **whose, mark=mark, reader=reader)
            return ids

        if scope.project is None:
            return await self._store.write(scope.session_id, work)
        return await self._store.submit(work)

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        return await self._store.read(lambda connection: _marked(connection, scope, reader, marks))

    async def all(self, scope: MemoryScope | None) -> list[StoredMemory]:
        whose = (scope or MemoryScope(None, ""))._asdict()
        return list(starmap(_memory, await self._store.rows("memories", **whose, everything=scope is None)))


def _marked(connection: Connection, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
    found = connection.run("marked", **scope._asdict(), reader=reader, marks=json.dumps(list(marks)))
    return {mark for (mark,) in found}


def _memory(number: int, content: str, metadata: str, created_at: str, updated_at: str) -> StoredMemory:
    return StoredMemory(f"m{number}", content, json.loads(metadata), created_at, updated_at)
