"""What stores on relational databases do alike: sessions, their logs, summaries, and checkpoints; and what they find
again: messages and summaries by words, texts by vectors, and memories.

A log is listed by a head on a branch; a checkpoint is a head that is kept with what each provider was shown. A writer
takes a session with a fence, by which later writes see that it is still theirs. A database says how other writers are
kept off a session, and how words are indexed and weighed. Functions on a connection run within the transaction of
their caller.

An `Engine` is one thread with one connection, which commits all that is queued in one transaction. Results and
callbacks come back to the event loop in the order of the submissions.

Messages are numbered by branch and position, summaries by their id below zero. Memories of a project are shared: any
host may write them, one at a time. Those of a session without a project are its own, as its log is.

What no session needs any longer is removed in slices, between which others write. What is found unneeded stays so, for
a fork keeps its checkpoint from being removed until it is committed, and only one session adds to a branch.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from itertools import accumulate, chain, groupby, islice, starmap
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from summarizing_context import errors
from summarizing_context.concurrency import running_loop
from summarizing_context.errors import StoreCorruptError, StoreError, StoreReadOnlyError
from summarizing_context.messages.reading import searchable
from summarizing_context.stores import base
from summarizing_context.stores.base import Activations, Checkpoint, Committed, MemoryScope, Present, SummaryKey, now

_MOST_RANKED = 2_500  # rows whose relevance one query works out
_ALL_ROWS = (-(1 << 63), (1 << 63) - 1)
_OWN_TABLES = {  # with what names a session in them
    **dict.fromkeys(("sessions", "checkpoints", "activation_history", "activations", "summary_uses"), "session_id"),
    **dict.fromkeys(("memories", "memory_marks"), "scope"),
}


class Connection(Protocol):
    """A connection with queries by name. It begins and ends no transaction by itself."""

    writer: str | None  # by which its sessions are claimed

    def run(self, query: str, /, **values: Any) -> Any: ...

    def run_many(self, query: str, rows: Iterable[Values]) -> object: ...

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> object:
        """Index the words of texts by the numbers that they have in the index."""

    def unindex_texts(self, texts: Iterable[tuple[int, str]]) -> object:
        """Remove texts from the index, given as they were indexed."""

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction that writes; at its end, what was written is durable."""

    def rollback(self) -> object:
        """Undo the open transaction, if there is one."""

    def pipeline(self) -> AbstractContextManager[object]:
        """Begin a block in which what needs no answer may go to the server at once."""

    def lives(self, writer: str) -> bool:
        """Return whether another writer still has what it claimed."""


@dataclass(slots=True, eq=False)
class _Operation:
    work: Work[Any]
    done: asyncio.Future[Any]
    committed: Callable[[], None] | None
    alone: bool  # opens its own transactions, or none
    added: tuple[Hashable, base.Entries] | None  # a log, and entries that `work` adds to it
    result: Any = None
    error: Exception | None = None


def _settle(operations: Sequence[_Operation]) -> None:
    """On the event loop, one by one: the callback first, then the caller, if it still waits."""
    for one in operations:
        if one.error is None and one.committed is not None:
            try:
                one.committed()
            except Exception as error:  # the caller's own fault goes to the caller, and spoils nothing for the others
                one.error = error
        if not one.done.done():  # else it was cancelled
            if one.error is not None:
                one.done.set_exception(one.error)
            else:
                one.done.set_result(one.result)


class Engine:
    """The thread and the connection of any number of stores. It starts with the first and ends with the last of them;
    then a new one is needed. A database says how it is opened and closed, and what its errors mean."""

    def __init__(self, name: str, *, read_only: bool) -> None:
        self.name, self.read_only = name, read_only
        self.stores: list[RelationalStore] = []  # that are open
        self.is_stopping = False
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"store {name}")
        self._queue: deque[_Operation] = deque()
        self._is_awake = False  # the thread is about to look into the queue
        self._connection: Any = None
        self.lost: Exception | None = None  # the error of all that follows
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[None]

    async def start(self) -> None:
        """Begin the thread, unless another store has, and wait until the connection is there."""
        if self._loop is None:
            loop = running_loop()
            try:
                self._opening = loop.run_in_executor(self.thread, self._open)
            except RuntimeError as error:  # there are too many threads
                raise StoreError(f"{self.name}: no thread could be started for the store; try again") from error
            self._loop = loop
        await asyncio.shield(self._opening)

    def submit(
        self, work: Work[Result], *, committed: Committed | None = None, alone: bool = False, added: Any = None
    ) -> asyncio.Future[Result]:
        """Queue an operation now. Cancelling the future withdraws nothing: it only stops the waiting."""
        self.check_loop()
        assert self._loop is not None
        done: asyncio.Future[Result] = self._loop.create_future()
        self._queue.append(_Operation(work, done, committed, alone, added))
        if not self._is_awake:
            self._is_awake = True
            self.thread.submit(self._work_off)
        return done

    async def stop(self) -> None:
        """Finish what is queued and end the thread."""
        self.is_stopping = True
        if self._loop is not None:
            await asyncio.shield(self._loop.run_in_executor(self.thread, self._close))
            self.thread.shutdown()
            self._opening.exception()  # raised already to those that waited

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` in another event loop than that in which it was started."""
        running = None
        with suppress(RuntimeError):
            running = asyncio.get_running_loop()
        if self._loop is not None and running is not self._loop:
            raise errors.WrongEventLoopError(
                f"{self.name}: the store belongs to the event loop in which it was opened; "
                "call it from there, or open another one"
            )

    # What a database does in its own way, in the thread.

    open: Callable[[], Any]  # returns a `Connection`
    close: Callable[[], None]  # gives up what the stores hold, and ends the connection
    fault: Callable[[Exception], StoreError | None]  # returns what to raise in place of one of the database

    def may_pass(self, error: Exception) -> bool:
        """Return whether the same work may succeed if it is tried again at once."""
        return False

    def gone(self) -> Exception | None:
        """Return the error of all that follows, once what is written to is gone for good."""
        return None

    # The thread.

    def _open(self) -> None:
        try:
            self._connection = self.open()
        except Exception as error:
            self.lost = fault = self._translated(error)
            raise fault from fault.__cause__

    def _close(self) -> None:
        with suppress(Exception):  # all that was acknowledged is in the file
            if self._connection is not None:
                self.close()

    def _translated(self, error: Exception) -> Exception:
        """Return the error to raise in place of `error`. The values of a query do not get into it."""
        if isinstance(error, errors.SummarizingContextError):
            return error
        if isinstance(error, UnicodeError):  # no cause: it carries the whole text that could not be written
            return StoreError(f"{self.name}: a name is not valid Unicode; leave lone surrogates out of it")
        fault = self.fault(error)
        if fault is None:
            fault = StoreError(f"{self.name}: the store cannot keep a value ({type(error).__name__})")
            fault.__cause__ = error
        return fault

    def _work_off(self) -> None:
        """Perform all that is queued."""
        self._is_awake = False  # what is queued from now on wakes the thread again
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        for _, run in groupby(batch, key=lambda one: one if one.alone else None):
            operations = list(run)
            if not self.lost:
                self._perform(operations)
            self.lost = self.lost or self.gone()
            for one in operations:
                one.error = self.lost or one.error
            with suppress(RuntimeError):  # the loop is closed: no caller waits
                operations[0].done.get_loop().call_soon_threadsafe(_settle, operations)

    def _perform(self, operations: Sequence[_Operation], tries: int = 1) -> None:
        """Perform operations in one transaction, or one that is alone. Where one fails, perform each by itself."""
        connection, may_part = self._connection, False
        try:
            with nullcontext() if operations[0].alone else connection.transaction():
                may_part = len(operations) > 1
                for _, run in groupby(operations, key=lambda one: one.added[0] if one.added else one):
                    first, *others = run  # several: what calls next to each other add to one log is added at once
                    entries = [entry for one in (first, *others) if one.added for entry in one.added[1]]
                    first.result = first.work(connection, entries) if first.added else first.work(connection)
                may_part = False  # where a commit has no answer, nothing may be done twice
        except Exception as error:  # each caller gets an answer
            with suppress(Exception):  # the first error is the one to raise
                connection.rollback()
            if tries < 4 and self.may_pass(error):
                self._perform(operations, tries + 1)
            elif may_part:
                for operation in operations:
                    self._perform([operation])
            else:  # locked, or out of reach: each would have to wait as long as this one did
                for operation in operations:
                    operation.error = self._translated(error)


def readable(text: bytes) -> str:
    """Return a text as it is kept without the halves of characters that are let through: no index takes them."""
    return text.decode("utf-8", "replace")


def read_queries(package: str, *, schema: str) -> dict[str, str]:
    """Return queries by name: those that all databases share, and those of the folder `sql` of a package.

    Each begins with a line `-- name: purpose` and ends where the next begins; `schema` is all of its files.
    The argument `schema` takes the place of `store.`.
    """
    found = {
        f"remove_{table}": f"delete from {schema}{table} where {own} = :{own}" for table, own in _OWN_TABLES.items()
    }
    for table in ("branches", "checkpoints", "memories", "vectors"):
        found[f"remove_one_of_{table}"] = f"delete from {schema}{table} where id = :id"
    found["schema"] = ""
    for folder in ("summarizing_context.stores.relational", package):
        for file in (files(folder) / "sql").iterdir():
            text = re.sub(r"\bstore\.(?=[a-z])", schema, file.read_text(encoding="utf-8"))
            if file.name == "schema.sql":
                found["schema"] += text
                continue
            parts = re.split(r"^-- ([a-z_]+): .*$", text, flags=re.MULTILINE)
            found |= {name: text.strip().removesuffix(";") for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    return found


def check_version(version: int, name: str, instead: str) -> None:
    """Raise `StoreVersionError` for a store of another schema than that of this version of the package."""
    if version != VERSION:
        raise errors.StoreVersionError(
            f"{name}: its schema version is {version} but this version of summarizing-context reads and writes "
            f"{VERSION} only; use the version of summarizing-context that wrote it, or {instead} was left as it is"
        )


_engines: WeakValueDictionary[Hashable, Engine] = WeakValueDictionary()  # by place and event loop


def _find_matches(connection: Connection, terms: Sequence[str], scope: base.Scope, limit: int) -> list[base.Match]:
    """Return what sessions of the scope hold of the rows with any of the terms: first those with a term that is rare
    enough to rank all its rows, then those that hold the two rarest of the others alone."""

    def rows(query: str, words: Sequence[str], joint: str = " OR ", run: tuple[int, int] = _ALL_ROWS) -> Any:
        match = joint.join(f'"{word}"' for word in words)  # letters, digits and spaces: see `query_terms`
        return connection.run(query, match=match, first=run[0], last=run[1], most=_MOST_RANKED)

    # the sessions with their ranks, the nearest first, and what they hold of each branch, from place to place
    heads = connection.run("sessions_in_scope", session_id=scope.only_session, project=scope.project).fetchall()[::-1]
    heads.sort(key=lambda head: head[0] != scope.nearest)
    ranks = {head[0]: rank for rank, head in enumerate(heads)}
    branches: dict[int, list[tuple[int, int, str]]] = {}
    for session_id, *head in heads:
        for number, start, end in Head(*head).ranges():
            branches.setdefault(number, []).append((start, end, session_id))

    # the queries, of which each begins when those before it have found too little
    counts = sorted((rows("count_matches", [term]).fetchone()[0], term) for term in terms)
    few = sum(total < _MOST_RANKED for total in accumulate(count for count, _ in counts))
    rare, common = [term for _, term in counts[:few]], [term for _, term in counts[few : few + 2]]
    runs = [_ALL_ROWS] if common else []
    if common and (scope.only_session, scope.project) != (None, None):  # others may hold the words far more often
        held = ((number << 32, places) for number, places in branches.items())
        runs = sorted((at + start, at + stop - 1) for at, places in held for start, stop, _ in places)[::-1]
    queries: list[tuple[Any, ...]] = [("best_matches", rare)] if rare else []
    if sum(last - first for first, last in runs) <= _MOST_RANKED:
        queries += (("best_matches", common, " OR ", run) for run in runs)
    else:  # the newest that hold both, then either
        queries += (("newest_matches", common, joint, run) for joint in (" AND ", " OR ") for run in runs)

    # what the sessions hold of the rows; others belong to logs that were replaced
    found, seen = list[base.Match](), set[int]()
    for row, score in islice(chain.from_iterable(starmap(rows, queries)), 3 * _MOST_RANKED):
        if len(found) >= limit:
            break
        if row in seen:
            continue
        seen.add(row)
        if row > 0:
            branch, at = divmod(row, 1 << 32)
            if places := [(name, at, at + 1) for start, stop, name in branches.get(branch, ()) if start <= at < stop]:
                (message, _), *_ = connection.run("entries", branch=branch, start=at, stop=at + 1)
                found.append(base.Match("message", places, score, searchable(message)))
        elif uses := [use for use in connection.run("summary_places", id=-row) if use[0] in ranks]:
            places = sorted((use[:3] for use in uses), key=lambda use: ranks[use[0]])
            found.append(base.Match("summary", places, score, readable(uses[0][3])))
    return found


@dataclass(frozen=True, eq=False)
class RelationalVectors:
    """The `VectorStore` of a relational store: the extra `vectors`."""

    _store: RelationalStore
    _passing: dict[tuple[str, int], bytes] = field(default_factory=dict)  # where nothing may be written

    async def save(self, recipe: str, vectors: Mapping[int, bytes]) -> None:
        if self._store.read_only:
            self._passing.update(((recipe, number), vector) for number, vector in vectors.items())
            return
        rows = [{"recipe": recipe, "number": number, "vector": vector} for number, vector in vectors.items()]
        await self._store.submit("save vectors", lambda connection: connection.run_many("save_vector", rows))

    async def near(self, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        passing = [(n, self._passing[recipe, n]) for n in numbers if (recipe, n) in self._passing]
        values = {"recipe": recipe, "numbers": json.dumps(list(numbers))}
        return await self._store.read(
            lambda connection: cosines(chain(connection.run("vectors_of", **values), passing), query)
        )


def cosines(rows: Iterable[tuple[int, bytes]], query: bytes) -> dict[int, float]:
    """Return that of each vector with the query; those of another length are left out."""
    import numpy

    alike = [row for row in rows if len(row[1]) == len(query)]
    table = numpy.frombuffer(b"".join(vector for _, vector in alike), dtype=numpy.float32)
    found = table.reshape(len(alike), len(query) // 4) @ numpy.frombuffer(query, dtype=numpy.float32)
    return {number: float(score) for (number, _), score in zip(alike, found, strict=True)}


def _scope_name(scope: MemoryScope) -> str:
    return f"session {scope.session_id}" if scope.project is None else f"project {scope.project}"


def _memory(number: int, content: str, metadata: str, created_at: str, updated_at: str) -> base.StoredMemory:
    return base.StoredMemory(f"m{number}", content, json.loads(metadata), created_at, updated_at)


Values = Mapping[str, Any] | Sequence[Any]
Result = TypeVar("Result")
Work = Callable[..., Result]  # on a `Connection`, and on entries where it adds them

VERSION = 5  # of the schema; one version of the package reads and writes one of the schema


class RelationalStore:
    """The methods of a `SessionStore` that are the same for every database. Stores of one event loop at one place share
    an engine; `place` says what makes two stores the same, and None shares nothing."""

    _slice = 200  # entries or summaries that a deletion removes in one transaction, while others wait
    _forgotten: tuple[str, ...] = ("forget_replaced_states", "remove_stale_uses", "remove_unnamed_vectors")
    _removals: tuple[str, ...] = ("owner_of_branches", "own_vectors", *_OWN_TABLES)

    def __init__(self, name: str, place: Hashable, make_engine: Callable[..., Engine], *, read_only: bool) -> None:
        self.name, self.read_only = name, read_only
        self._place, self._make_engine = place, make_engine
        self._engine: Engine | None = None
        self._is_open = self._is_closed = False
        self._claimed: dict[str, int] = {}  # the sessions that this store may write to, with its fences
        self._leaving: asyncio.Task[None] | None = None
        self.vectors: base.VectorStore = RelationalVectors(self)

    async def open(self) -> None:
        """Connect, creating the store if needed."""
        key = (running_loop(), type(self), self._place, self.read_only)
        if self._engine is not None or self._is_closed:
            raise StoreError(f"{self.name}: the store was opened before; make a new one")
        engine = None if self._place is None else _engines.get(key)
        if engine is None or engine.is_stopping or engine.lost or engine.gone():
            engine = _engines[key] = self._make_engine(read_only=self.read_only)
        self._engine = engine
        engine.stores.append(self)
        try:
            await engine.start()
        except BaseException:  # also a cancellation: else the thread would stay
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Finish the queued writes and give up the claims; the last store ends the thread. May be called twice."""
        self._is_closed = True
        if (engine := self._engine) is None:
            return

        def release(connection: Connection) -> None:
            held = [{"session_id": session_id, "writer": connection.writer} for session_id in self._claimed]
            connection.run_many("release_session", held)  # also those of claims whose callers were cancelled

        async def leave() -> None:
            try:
                if self._is_open and not self.read_only and len(engine.stores) > 1:  # else claims end with the writer
                    with suppress(StoreError):  # as where the database is locked or gone
                        await engine.submit(release)
            finally:
                engine.stores.remove(self)
                if not engine.stores:
                    await engine.stop()

        engine.check_loop()
        self._leaving = self._leaving or asyncio.create_task(leave())  # a first call may have been cancelled
        await asyncio.shield(self._leaving)

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        def work(connection: Connection) -> None:
            if session_id in self._claimed:
                raise errors.SessionInUseError(session_id, os.getpid())
            with self._held(connection, session_id) as is_there:
                if not is_there:
                    new = {"session_id": session_id, "project": project, "now": now()}
                    connection.run("create_session", **new, **Head(0, 0)._asdict())
                claim = {"session_id": session_id, "project": project, "writer": connection.writer}
                (fence,) = connection.run("take_session", **claim).fetchone()
            self._claimed[session_id] = fence

        await self.submit("claim a session", work, alone=True)

    async def load(self, session_id: str) -> base.StoredSession | None:
        def work(connection: Connection) -> base.StoredSession | None:
            row = connection.run("session", session_id=session_id).fetchone()
            if row is None:
                return None
            *head, log_version, project, pins, updated_at, failed, error, at, _, _, fixed = row
            entries = read_entries(connection, Head(*head), self.name)
            states = connection.run("activations", session_id=session_id).fetchall()
            history = list(starmap(base.StoredActivation, connection.run("history", session_id=session_id)))
            noted = log_version, pins, history, updated_at, base.StoredFailure(failed, error, at), fixed
            return base.StoredSession(session_id, project, entries, states, *noted)

        return await self.read(work)

    def append(self, session_id: str, entries: base.Entries, committed: Committed) -> Awaitable[None]:
        def work(connection: Connection, added: base.Entries) -> None:
            _write(connection, session_id, head_of(connection, session_id), added)

        return self.write(session_id, work, committed, ((self, session_id), tuple(entries)))

    async def replace(
        self, session_id: str, keep: int, entries: base.Entries, committed: Committed, present: Present | None = None
    ) -> Checkpoint | None:
        new = tuple(entries)

        def work(connection: Connection) -> Checkpoint | None:
            made = None if present is None else _keep(connection, session_id, present)
            if (head := head_of(connection, session_id)).stop < keep:
                raise StoreError(f"{self.name}: {keep} messages cannot be kept of {head.stop}")
            put_in_place(connection, session_id, head.cut(keep), new)
            return made

        return await self.write(session_id, work, committed)

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: base.NewActivation | None = None
    ) -> None:
        def work(connection: Connection) -> None:
            save_activation(connection, session_id, provider_key, state)
            if made is None:
                return
            known = {"session_id": session_id, "number": made.number}
            before = None if made.before is None else zlib.compress(made.before, 1)  # quickly: a view waits for it
            what = {"provider_key": provider_key, "figures": made.figures, "before": before}
            connection.run("add_to_history", **known, **what)
            connection.run("update_history", **known, undone=made.undoes, keep=64)

        await self.write(session_id, work)

    async def state_before(self, session_id: str, number: int) -> bytes | None:
        rows = await self.rows("state_before", session_id=session_id, number=number)
        return zlib.decompress(rows[0][0]) if rows and rows[0][0] is not None else None

    async def save_pins(self, session_id: str, pins: str, committed: Committed) -> None:
        await self._run_for("save_pins", session_id, committed, pins=pins)

    async def save_facts(self, session_id: str, rows: Sequence[tuple[int, base.StoredEntry]]) -> None:
        new = tuple(rows)

        def work(connection: Connection) -> None:
            for branch, start, stop in head_of(connection, session_id).ranges():
                found = [(one.facts, branch, place, one.message) for place, one in new if start <= place < stop]
                connection.run_many("update_facts", found)

        await self.write(session_id, work)

    async def save_request(self, session_id: str, budget: int, title: str | None, fixed_tokens: int = 0) -> None:
        await self._run_for("save_request", session_id, budget=budget, title=title, fixed_tokens=fixed_tokens)

    async def save_failure(self, session_id: str, failure: base.StoredFailure) -> None:
        await self._run_for("save_failure", session_id, **failure._asdict())

    async def find_summaries(
        self, session_id: str, keys: Mapping[SummaryKey, base.Place | None]
    ) -> Mapping[SummaryKey, base.StoredSummary]:
        wanted = dict(keys)

        def work(connection: Connection) -> dict[SummaryKey, base.StoredSummary]:
            if not self.read_only:
                note_uses(connection, session_id, wanted)
            return _find_summaries(connection, wanted)

        return await (self.read(work) if self.read_only else self.submit("note uses", work))

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: base.StoredSummary, place: base.Place | None = None
    ) -> base.StoredSummary:
        def work(connection: Connection) -> base.StoredSummary:
            kept = save_summary(connection, key, summary)
            note_uses(connection, session_id, {key: place})
            return kept

        return await self.submit("save a summary", work)

    async def summaries_of(self, session_id: str) -> Mapping[SummaryKey, tuple[base.StoredSummary, base.Place | None]]:
        return {
            SummaryKey(*row[:2]): (_read_summary(*row[4:]), None if row[2] is None else (row[2], row[3]))
            for row in await self.rows("summaries_of", session_id=session_id)
        }

    async def search(self, terms: Sequence[str], scope: base.Scope, limit: int) -> list[base.Match]:
        return await self.read(lambda connection: _find_matches(connection, terms, scope, limit))

    async def sessions(self) -> list[base.SessionInfo]:
        return list(starmap(base.SessionInfo, await self.rows("sessions")))

    # Checkpoints

    async def save_checkpoint(self, session_id: str, present: Present) -> Checkpoint:
        return await self.write(session_id, lambda to: _keep(to, session_id, present, stop=present.messages))

    async def load_checkpoint(self, session_id: str, id: str) -> base.StoredCheckpoint:
        def work(connection: Connection) -> base.StoredCheckpoint:
            checkpoint, head, states, pins = _find(connection, session_id, id)
            return base.StoredCheckpoint(checkpoint, read_entries(connection, head, self.name), states, pins)

        return await self.read(work)

    async def restore(self, session_id: str, id: str, committed: Committed, present: Present) -> Checkpoint:
        def work(connection: Connection) -> Checkpoint:
            _, head, states, pins = _find(connection, session_id, id)
            made = _keep(connection, session_id, present)
            put_in_place(connection, session_id, head)
            _show_again(connection, session_id, states, pins)
            return made

        return await self.write(session_id, work, committed)

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        def work(connection: Connection) -> None:
            connection.run("lock_session", session_id=session_id)  # none removes it, or a checkpoint of it, meanwhile
            _, head, states, pins = _find(connection, session_id, id)
            if connection.run("session", session_id=new_id).fetchone() is not None:
                raise errors.SessionExistsError(new_id)
            there = connection.run("session", session_id=session_id).fetchone()
            _, _, _, _, project, *_, budget, title, fixed = there
            connection.run("create_session", session_id=new_id, project=project, now=now(), **head._asdict())
            connection.run("save_request", session_id=new_id, budget=budget, title=title, fixed_tokens=fixed)
            connection.run("copy_uses", session_id=session_id, fork=new_id)
            _show_again(connection, new_id, states, pins)

        await self.submit("fork a session", work)

    async def checkpoints(self, session_id: str) -> list[Checkpoint]:
        return list(starmap(_checkpoint, await self.rows("checkpoints", session_id=session_id)))

    async def delete_checkpoint(self, session_id: str, id: str) -> None:
        def work(connection: Connection) -> None:
            connection.run("remove_one_of_checkpoints", id=int(_find(connection, session_id, id)[0].id[1:]))

        await self.write(session_id, work)

    # Memories

    async def edit_memories(
        self, scope: MemoryScope, decide: base.Decide, reader: str = "", marks: Sequence[str] = ()
    ) -> Mapping[str, str]:
        whose = {"scope": _scope_name(scope)}

        def work(connection: Connection) -> dict[str, str]:
            connection.run("guard", what=f"memories of {whose['scope']}")
            known = {one.id: one for one in starmap(_memory, connection.run("memories", **whose))}
            noted = {mark for (mark,) in connection.run("marked", **whose, reader=reader, marks=json.dumps([*marks]))}
            held, ids = dict(known), dict[str, str]()
            decide(held, noted)
            for id in [id for id in {**known, **held} if held.get(id) is not known.get(id)]:
                old, new = known.get(id), held.get(id)
                what = {"content": new.content, "metadata": json.dumps(dict(new.metadata)), "now": now()} if new else {}
                if old is None:
                    ids[id] = f"m{connection.run('add_memory', **whose, **what).fetchone()[0]}"
                    continue
                connection.run("update_memory" if new else "remove_one_of_memories", id=int(id[1:]), **what)
                if new is None or new.content != old.content:
                    connection.run("remove_one_of_vectors", id=int(id[1:]))
            for mark in {*marks} - noted:
                connection.run("add_mark", **whose, mark=mark, reader=reader)
            return ids

        if scope.project is None:
            return await self.write(scope.session_id, work)
        return await self.submit("change memories", work)

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        values = {"scope": _scope_name(scope), "reader": reader, "marks": json.dumps(list(marks))}
        return {mark for (mark,) in await self.rows("marked", **values)}

    async def memories(self, scope: MemoryScope | None) -> list[base.StoredMemory]:
        rows = await self.rows("memories", scope=None if scope is None else _scope_name(scope))
        return list(starmap(_memory, rows))

    # What no session needs

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session and what only it used, in slices: others write in between. Where this is cut short, the
        session is gone, and `purge` removes the rest."""

        def work(connection: Connection) -> bool:
            with self._held(connection, session_id) as is_there:
                for what in self._removals if is_there else ():  # else another host may just have made it
                    connection.run(f"remove_{what}", session_id=session_id, scope=f"session {session_id}")
            self._claimed.pop(session_id, None)
            return is_there

        is_there = await self.submit("delete a session", work, alone=True)
        if is_there:
            await self._remove_unneeded(everything=False)
        return is_there

    async def purge(self) -> int:
        """Remove what no session uses any longer; return the bytes of its texts. A file may shrink by more, or less."""

        def forget(connection: Connection) -> None:
            for what in self._forgotten:
                connection.run(what)

        await self.submit("purge", forget)
        return await self._remove_unneeded(everything=True)

    async def _remove_unneeded(self, *, everything: bool) -> int:
        """Remove what no session needs; of logs, `everything` or what deleted sessions left. Return the bytes of the
        texts."""

        def remove_entries(connection: Connection, branch: int, start: int) -> list[int]:
            connection.run("guard", what="removal")
            removed = connection.run("remove_entries", branch=branch, start=start, most=self._slice).fetchall()
            connection.unindex_texts(((branch << 32) + place, searchable(message)) for place, message in removed)
            if not removed and not start:
                connection.run("remove_one_of_branches", id=branch)
            return [len(message) for _, message in removed]

        def remove_summaries(connection: Connection) -> list[int]:
            connection.run("guard", what="removal")
            removed = connection.run("remove_unused_summaries", most=self._slice).fetchall()
            connection.unindex_texts((number, readable(text)) for number, text in removed)
            return [len(text) for _, text in removed]

        freed = 0
        removals: list[Work[list[int]]] = [
            partial(remove_entries, branch=branch, start=start)
            for branch, start in await self.submit("purge", partial(find_unneeded, everything=everything))
        ]
        for remove in (*removals, remove_summaries):
            while sizes := await self.submit("purge", remove):
                freed += sum(sizes)
                base.WATCHED.get()("", len(sizes))
        return freed

    # How all of these read and write

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one committed state."""
        return await self._opened().submit(lambda connection: self._read(connection, work), alone=True)

    async def rows(self, query: str, **values: Any) -> list[Any]:
        """Return all rows of a query."""
        return await self.read(lambda connection: list(connection.run(query, **values)))

    def write(
        self, session_id: str, work: Work[Result], committed: Committed | None = None, added: Any = None
    ) -> asyncio.Future[Result]:
        """Queue `work` for a session that this store has claimed; it is durable when the future is done."""
        engine = self._writable("write to a session")
        if session_id not in self._claimed:
            raise StoreError(f"{self.name}: session {session_id!r} is not claimed by this store; claim it first")

        def fenced(connection: Connection, *entries: base.Entries) -> Result:
            fence = self._claimed.get(session_id, -1)
            known = {"session_id": session_id, "writer": connection.writer, "fence": fence}
            if connection.run("check_fence", **known).fetchone() is None:
                raise self._lost(session_id)
            return work(connection, *entries)

        return engine.submit(fenced, committed=committed, added=added)

    async def _run_for(self, query: str, session_id: str, committed: Committed | None = None, **values: Any) -> None:
        values["session_id"] = session_id
        await self.write(session_id, lambda connection: connection.run(query, **values), committed)

    def submit(self, what: str, work: Work[Result], *, alone: bool = False) -> asyncio.Future[Result]:
        """Queue `work` that belongs to no session; it is durable when the future is done. `what` it does is named where
        nothing may be written. If `alone`, it begins and ends transactions itself."""
        return self._writable(what).submit(work, alone=alone)

    def _writable(self, what: str) -> Engine:
        if self.read_only:
            raise StoreReadOnlyError(f"{self.name}: cannot {what}, the store was opened with read_only=True")
        return self._opened()

    def _opened(self) -> Engine:
        if self._engine is None or not self._is_open or self._is_closed:
            raise StoreError(f"{self.name}: the store is {'closed' if self._is_closed else 'not open yet'}")
        return self._engine

    # What a database does in its own way; functions on a connection run in the engine's thread.

    _lost: Callable[[str], StoreError]  # what to raise where another writer has taken the session
    _read: Callable[[Any, Work[Any]], Any]  # on one committed state

    @contextmanager
    def _held(self, connection: Connection, session_id: str) -> Iterator[bool]:
        """A transaction on a session that no other living writer has, and none takes until it ends; whether it is
        there."""
        with connection.transaction():
            row = connection.run("lock_session", session_id=session_id).fetchone()
            if row is not None and row[0] is not None and session_id not in self._claimed:
                writer, host, pid = row
                assert self._engine is not None
                is_ours = writer == connection.writer  # then another store of the engine may have it
                here = any(session_id in one._claimed for one in self._engine.stores)
                if here if is_ours else connection.lives(writer):
                    raise errors.SessionInUseError(session_id, pid, host)
            yield row is not None


# Heads, branches and entries


class Head(NamedTuple):
    """Where a log ends on its own branch, of which it has none if that is 0, and what it has of older branches, as
    JSON: the oldest first, each with where it is left."""

    branch: int
    stop: int
    below: str = "[]"

    def ranges(self) -> list[tuple[int, int, int]]:
        """Return the branches that make up the log, oldest first, each with its places from start to stop."""
        places = [*json.loads(self.below), (self.branch, self.stop)]
        starts = [0, *(stop for _, stop in places)]
        return [(branch, start, stop) for (branch, stop), start in zip(places, starts, strict=False) if start < stop]

    def cut(self, stop: int) -> Head:
        """Return the head of as much of the log, without a branch of its own."""
        places = [(branch, min(its_stop, stop)) for branch, start, its_stop in self.ranges() if start < stop]
        return Head(0, stop, json.dumps(places))


def find_unneeded(connection: Connection, *, everything: bool) -> list[tuple[int, int]]:
    """Return the branches with entries that no log needs, and from where on; from 0 on where one is to go."""
    branches = connection.run("branches", everything=everything).fetchall()
    needed: dict[int, int] = {}
    for head in connection.run("heads") if branches else ():  # read after the branches, for others add to both
        for branch, _, stop in Head(*head).ranges():
            needed[branch] = max(stop, needed.get(branch, 0))
    return [(branch, needed.get(branch, 0)) for branch, end in branches if needed.get(branch, 0) < max(1, end)]


def put_in_place(connection: Connection, session_id: str, head: Head, entries: base.Entries = ()) -> None:
    """Let the log be that of a head with entries behind it."""
    _write(connection, session_id, head, entries, replaced=1)
    connection.run("remove_activations", session_id=session_id)
    connection.run("age_uses", session_id=session_id)


def _write(connection: Connection, session_id: str, head: Head, entries: base.Entries, *, replaced: int = 0) -> None:
    """Add entries where a head ends, with their words, and let the log end behind them."""
    if not all(isinstance(part, bytes) for entry in entries for part in (entry.message, entry.facts)):
        raise StoreError("the store takes bytes; it got something else")
    if entries and not head.branch:
        head = head._replace(branch=connection.run("begin_branch", session_id=session_id).fetchone()[0])
    branch, end = head.branch, head._replace(stop=head.stop + len(entries))
    places = list(enumerate(entries, head.stop))
    with connection.pipeline():
        connection.run_many("add_entry", [(branch, place, entry.message, entry.facts) for place, entry in places])
        connection.index_texts(((branch << 32) + place, searchable(entry.message)) for place, entry in places)
        connection.run("move_head", session_id=session_id, now=now(), replaced=replaced, **end._asdict())


def head_of(connection: Connection, session_id: str) -> Head:
    """Return where the log of a session that is there ends."""
    return Head(*connection.run("session", session_id=session_id).fetchone()[:3])


def read_entries(connection: Connection, head: Head, name: str) -> list[base.StoredEntry]:
    """Return the log that a head lists, of the store of this name."""
    entries: list[base.StoredEntry] = []
    for branch, start, stop in head.ranges():
        entries.extend(starmap(base.StoredEntry, connection.run("entries", branch=branch, start=start, stop=stop)))
    if len(entries) != head.stop:
        raise StoreCorruptError(f"{name}: the store is damaged and left as it is: restore a backup, or name another")
    return entries


def save_activation(connection: Connection, session_id: str, provider_key: str, state: bytes) -> None:
    """Keep a state as the newest of its session, and drop the oldest beyond four."""
    connection.run("save_activation", session_id=session_id, provider_key=provider_key, state=state)
    connection.run("forget_activations", session_id=session_id, keep=4)


# Summaries


def _find_summaries(connection: Connection, keys: Iterable[SummaryKey]) -> dict[SummaryKey, base.StoredSummary]:
    rows = connection.run("find_summaries", keys=json.dumps(list(keys)))
    return {SummaryKey(*row[:2]): _read_summary(*row[2:]) for row in rows}


def _read_summary(text: bytes, rank: int, input_tokens: int, output_tokens: int) -> base.StoredSummary:
    return base.StoredSummary(text.decode("utf-8", "surrogatepass"), rank, input_tokens, output_tokens)


def save_summary(connection: Connection, key: SummaryKey, summary: base.StoredSummary) -> base.StoredSummary:
    """Keep `summary` unless there is one, and return the one that is kept."""
    text = summary.text.encode("utf-8", "surrogatepass")
    paid = {"input_tokens": summary.input_tokens, "output_tokens": summary.output_tokens}
    new = connection.run("save_summary", **key._asdict(), text=text, rank=summary.rank, **paid).fetchone()
    if new is not None:
        connection.index_texts([(-new[0], readable(text))])
    return _find_summaries(connection, [key])[key]


def note_uses(connection: Connection, session_id: str, keys: Mapping[SummaryKey, base.Place | None]) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *(place or (None, None))) for key, place in keys.items()]
    connection.run("note_uses", session_id=session_id, keys=json.dumps(listed))


# Checkpoints


def _find(connection: Connection, session_id: str, id: str) -> tuple[Checkpoint, Head, Activations, str]:
    """Return a checkpoint with its log, and the activation states and pins of then."""
    match = base.CHECKPOINT_ID.fullmatch(id)
    name = id if id.isprintable() else None  # what no checkpoint is called; half a character cannot even be asked for
    values = {"session_id": session_id, "id": int(match[1]) if match else None, "name": name}
    row = connection.run("checkpoint", **values).fetchone()
    if row is None:
        newest = [f"c{number}" for number, *_ in reversed(connection.run("checkpoints", **values).fetchall()[-5:])]
        has = f"its newest: {', '.join(newest)}" if newest else "it has none yet"
        raise errors.CheckpointNotFoundError(f"session {session_id!r} has no checkpoint of this id or name; {has}")
    number, called, stop, created_at, below, packed, pins = row
    states = msgspec.msgpack.decode(zlib.decompress(packed), type=list[tuple[str, bytes]])
    return _checkpoint(number, called, stop, created_at), Head(0, stop, below), states, pins


def _show_again(connection: Connection, session_id: str, states: Activations, pins: str) -> None:
    """Give a session the pins and the activation states of a checkpoint."""
    connection.run("save_pins", session_id=session_id, pins=pins)
    for key, state in states:
        save_activation(connection, session_id, key, state)


def _keep(connection: Connection, session_id: str, present: Present, *, stop: int | None = None) -> Checkpoint:
    """Make a checkpoint of the log, or of as much of it."""
    branch, end, below, log_version, *_ = connection.run("session", session_id=session_id).fetchone()
    if log_version != present.log_version:
        raise StoreError(f"the log of session {session_id!r} was replaced meanwhile; try again")
    head = Head(branch, end, below).cut(end if stop is None else stop)
    packed, created_at = zlib.compress(msgspec.msgpack.encode(present.activations), 9), now()
    kept = {"session_id": session_id, "name": present.name, "now": created_at, "states": packed}
    (number,) = connection.run("add_checkpoint", **kept, **head._asdict()).fetchone()
    return _checkpoint(number, present.name, head.stop, created_at)


def _checkpoint(number: int, name: str | None, stop: int, created_at: str) -> Checkpoint:
    return Checkpoint(f"c{number}", name, stop, created_at)
