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

from summarizing_context.errors import MemoryNotFoundError, MissingExtraError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import KeptMemory, Match, MemoryScope, NewMemory, Owner, Scope, StoredMemory
from summarizing_context.stores.relational import log
from summarizing_context.stores.relational.engine import Connection, Result, Work
from summarizing_context.stores.relational.log import readable

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
            found = (
                (row, connection.run("entry", branch=row >> 32, position=row % (1 << 32)).fetchone()) for row in rows
            )
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

    async def add(self, scope: MemoryScope, memory: NewMemory, *, renew: bool = False) -> KeptMemory:
        return await self._write("store", scope, lambda connection: _keep(connection, scope, memory, renew))

    async def learn(
        self,
        scope: MemoryScope,
        reader: str,
        marks: Sequence[str],
        memories: Sequence[NewMemory],
        gone: Sequence[str],
        *,
        again: bool = False,
    ) -> list[KeptMemory]:
        def work(connection: Connection) -> list[KeptMemory]:
            new = set(marks) - _marked(connection, scope, reader, marks)
            if not new and not again:
                return []
            for mark in new:
                connection.run("add_mark", **scope._asdict(), mark=mark, reader=reader)
            for content in gone:
                row = connection.run("same_memory", **scope._asdict(), content=content).fetchone()
                if row is not None and _find(connection, scope, f"m{row[0]}").metadata.get("source") == "session":
                    _remove(connection, row[0])
            return [_keep(connection, scope, memory, renew=False) for memory in memories]

        return await self._write("store", scope, work)

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        return await self._store.read(lambda connection: _marked(connection, scope, reader, marks))

    async def update(self, scope: MemoryScope, id: str, content: str, metadata: Mapping[str, Any] | None) -> None:
        def work(connection: Connection) -> None:
            old = _find(connection, scope, id)
            _change(connection, old, content, old.metadata if metadata is None else metadata)

        await self._write("update", scope, work)

    async def forget(self, scope: MemoryScope, id: str) -> None:
        def work(connection: Connection) -> None:
            _remove(connection, int(_find(connection, scope, id).id[1:]))

        await self._write("forget", scope, work)

    async def all(self, scope: MemoryScope | None) -> list[StoredMemory]:
        whose = (scope or MemoryScope(None, ""))._asdict()
        return list(starmap(_memory, await self._store.rows("memories", **whose, everything=scope is None)))

    async def _write(self, what: str, scope: MemoryScope, work: Work[Result]) -> Result:
        """Run `work` while nobody else writes memories of the scope."""
        self._store.refuse_if_read_only(f"{what} a memory")

        def guarded(connection: Connection) -> Result:
            connection.run("guard_memories", **scope._asdict())
            return work(connection)

        if scope.project is None:
            return await self._store.write(scope.session_id, guarded)
        return await self._store.submit(guarded)


def remove_of_session(connection: Connection, session_id: str) -> None:
    """Remove the memories of a session that is about to go; those of its project stay."""
    for (number,) in connection.run("own_memories", session_id=session_id).fetchall():
        _remove(connection, number)
    for name in ("disown_memories", "remove_own_marks", "disown_marks"):
        connection.run(name, session_id=session_id)


def _remove(connection: Connection, number: int) -> None:
    """Remove a memory with its vectors."""
    connection.run("remove_memory", id=number)
    connection.run("remove_vector", owner="memory", number=number)


def _change(connection: Connection, old: StoredMemory, content: str, metadata: Mapping[str, Any]) -> None:
    number = int(old.id[1:])
    connection.run("update_memory", id=number, content=content, metadata=json.dumps(metadata), now=log.now())
    connection.run("remove_vector", owner="memory", number=number)


def _keep(connection: Connection, scope: MemoryScope, memory: NewMemory, renew: bool) -> KeptMemory:
    content, metadata = memory.content, memory.metadata
    values = {**scope._asdict(), "content": content, "metadata": json.dumps(metadata), "now": log.now()}
    # The same text.
    row = connection.run("same_memory", **values).fetchone()
    if row is not None:
        if renew:
            connection.run("update_memory", **values, id=row[0])
        return KeptMemory(f"m{row[0]}", "known")
    # The same words of the same message, learnt by rules or by a model.
    quote = metadata.get("quote")
    if quote and metadata.get("session_id") == scope.session_id:
        learnt = connection.run("memories_of_message", **scope._asdict(), message=metadata.get("message"))
        for old in list(starmap(_memory, learnt)):
            old_quote = str(old.metadata.get("quote", ""))
            if old_quote and (old_quote in quote or quote in old_quote):
                _change(connection, old, content, {**old.metadata, **metadata})
                return KeptMemory(old.id, "known")
    # Others about the same: the newest takes their place, unless it was said later than this.
    about = {name: metadata.get(name) for name in ("subject", "choice", "relation")}
    about = {name: value if isinstance(value, str) and value else None for name, value in about.items()}
    same: list[StoredMemory] = []
    if about["subject"] or about["choice"]:
        same = list(starmap(_memory, connection.run("memories_of_subject", **scope._asdict(), **about)))
    if same:
        newest, *others = same
        if newest.metadata.get("session_id") == metadata.get("session_id") is not None:
            at, new_at = newest.metadata.get("message"), metadata.get("message")
            is_newer = isinstance(at, int) and isinstance(new_at, int) and at > new_at
        else:  # parts of a log are read in any order, and long after they were said
            is_newer = newest.updated_at > memory.said_at != ""
        if is_newer:
            return KeptMemory(newest.id, "known")
        for other in others:
            _remove(connection, int(other.id[1:]))
        _change(connection, newest, content, {**metadata, "replaces": " ".join(one.content for one in same)})
        return KeptMemory(newest.id, "replaced")
    (number,) = connection.run("add_memory", **values).fetchone()
    return KeptMemory(f"m{number}", "stored")


def _marked(connection: Connection, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
    found = connection.run("marked", **scope._asdict(), reader=reader, marks=json.dumps(list(marks)))
    return {mark for (mark,) in found}


def _find(connection: Connection, scope: MemoryScope, id: str) -> StoredMemory:
    number = int(id[1:]) if id[:1] == "m" and id[1:].isascii() and id[1:].isdigit() and len(id) < 19 else None
    row = connection.run("memory", **scope._asdict(), id=number).fetchone()
    if row is None:
        raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() tell the ids there are")
    return _memory(*row)


def _memory(number: int, content: str, metadata: str, created_at: str, updated_at: str) -> StoredMemory:
    return StoredMemory(f"m{number}", content, json.loads(metadata), created_at, updated_at)
