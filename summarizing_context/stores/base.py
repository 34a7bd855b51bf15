"""The protocols that a store satisfies, the values that travel through them, and who replaces whom among memories.

That is decided on what a store holds, whatever store that is. A memory replaces older ones about the same: their
metadata have the same `choice`, or the same `subject` and, where both name one, the same `relation`; its metadata then
have their texts as `replaces`. One that was said later stays: by `message` within one session, else by `said_at`. First
of all, a memory of the same message of the same session, one `quote` within the other, is the same memory: it takes the
newer words.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

Committed = Callable[[], None]  # called on the event loop once a write is durable, before its awaitable resolves
# What is called by what takes long: what is done, and how many messages, rows or pages more; a total begins a stage.
WATCHED: ContextVar[Callable[..., object]] = ContextVar("watched", default=lambda doing, steps, total=None: None)
HitKind = Literal["message", "summary", "memory"]


def now() -> str:
    """Return the time as it is kept: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class SummaryKey(NamedTuple):
    """What is summarized, and how: the cache key."""

    range_hash: str  # hex
    recipe_hash: str  # hex


Place = tuple[int, int]  # the log entries, start and stop, for which a summary stands


class StoredEntry(NamedTuple):
    """One log entry as the store keeps it; the store looks into neither part."""

    message: bytes  # JSON, as received
    facts: bytes  # what is known of it: reopening need not parse the message, nor ask about it again


Entries = Sequence[StoredEntry]
Activations = Sequence[tuple[str, bytes]]  # states by provider keys, the newest last; the store looks into neither


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as the store keeps it."""

    text: str
    rank: int
    input_tokens: int  # what it cost; 0 for extractive ones
    output_tokens: int


class StoredFailure(NamedTuple):
    """What went wrong when summaries were made, without text of messages."""

    failed: int = 0  # summaries that were given up, to be tried again later
    error: str | None = None  # the last one
    at: str | None = None  # ISO 8601, UTC


class NewActivation(NamedTuple):
    """An activation that is kept along with its state; the store looks into neither `figures` nor `before`."""

    number: int  # counts up within the session
    figures: str
    before: bytes | None = None  # the provider's state until then; None where nothing of it is to be taken back
    undoes: int | None = None  # the number of the activation that it takes back


class StoredActivation(NamedTuple):
    number: int
    provider_key: str
    log_version: int  # how often the log was replaced before it
    figures: str
    has_before: bool  # whether the state until then is kept
    is_undone: bool


@dataclass(frozen=True, slots=True)
class StoredSession:
    """All that reopening a session needs."""

    session_id: str
    project: str | None
    entries: Entries
    activations: Activations
    log_version: int = 0  # how often the log was replaced
    pins: str = ""  # as they were saved
    history: Sequence[StoredActivation] = ()  # all of its own, oldest first; none of what it was forked from
    updated_at: str = field(default="", compare=False)  # when its log changed last; ISO 8601, UTC
    failure: StoredFailure = field(default=StoredFailure(), compare=False)
    fixed_tokens: int = field(default=0, compare=False)  # of its last request: system prompt and tools


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of sessions. Times are ISO 8601, UTC."""

    session_id: str
    project: str | None
    messages: int
    summaries: int
    created_at: str
    updated_at: str
    writer_pid: int | None  # of the process that has it open, when it lives
    input_tokens: int = 0  # what its summaries cost when they were made, by it or by another session
    output_tokens: int = 0
    budget: int | None = None  # tokens, of its last request
    writer_host: str | None = None  # its machine, where the store serves several
    failed: int = 0  # this and the rest as in `StoredFailure`
    last_error: str | None = None
    last_error_at: str | None = None
    title: str | None = None  # the beginning of what its person wrote first, at the time of its last request


CHECKPOINT_ID = re.compile(r"c([1-9][0-9]{0,17})")  # no checkpoint is named like that


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of a session that can be restored or forked."""

    id: str
    name: str | None
    seq: int  # messages in the log then
    created_at: str  # ISO 8601, UTC


class Present(NamedTuple):
    """What its writer knows of a session, to be kept as a checkpoint."""

    log_version: int  # as in `StoredSession`
    messages: int
    name: str | None
    activations: Activations  # as `save_activation` keeps them


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """All that going back to a checkpoint needs."""

    checkpoint: Checkpoint
    entries: Entries
    activations: Activations
    pins: str = ""  # as the session had saved them


class Scope(NamedTuple):
    """Which sessions are searched: one, those of a project, or, where both are None, all."""

    nearest: str | None  # session that is named where several share what is found
    only_session: str | None = None
    project: str | None = None


class Match(NamedTuple):
    """What was found, in the index or among the memories, with its whole text."""

    kind: HitKind
    places: Sequence[tuple[str, int, int]]  # every session of the scope that holds it, the nearest first: start, stop
    score: float  # the higher the better; between matches of one search only
    text: str
    id: str | None = None  # of a memory

    @property
    def start(self) -> int:
        return self.places[0][1]

    @property
    def stop(self) -> int:
        return self.places[0][2]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, a range of messages by its summary, or a memory by the message that it was said in, if that is known:
    else its `start` and `stop` are both 0."""

    session_id: str
    start: int  # first message of the session's log
    stop: int  # one past the last
    score: float  # the higher the better; between hits of one search only
    snippet: str  # on one line
    kind: HitKind
    id: str | None = None  # of a memory


class MemoryScope(NamedTuple):
    """Whose memories: those of a project, or, where there is none, of a session."""

    project: str | None
    session_id: str


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory as the store keeps it. Times are ISO 8601, UTC."""

    id: str  # "m" and its number, by which its vector is kept
    content: str
    metadata: Mapping[str, Any]  # JSON; a store refuses others by `StoreError`
    created_at: str
    updated_at: str


# Changes the memories in scope, by id, the oldest first, given those of the marks that are noted. A new one gets any id
# that none has; the store gives it its own, and writes the times itself.
Decide = Callable[[dict[str, StoredMemory], set[str]], None]


class VectorStore(Protocol):
    """Vectors of memories, of length 1, as 32-bit floats, by the recipe of their embedding. They are kept for any
    number, also before there is such a memory, and go when the text of a memory changes or goes."""

    async def save(self, recipe: str, vectors: Mapping[int, bytes]) -> None:
        """Keep vectors; as long as the process lives where nothing may be written."""

    async def near(self, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        """Return the cosine of each vector there is with the query; those of another length are left out.

        An empty query returns those of the numbers whose vector is `b""`, a mark, with any value."""


class SessionStore(Protocol):
    """Keeps logs, summaries, checkpoints and memories; many sessions in one place. A context takes one that is open;
    `tests/contract` calls `async def open()`, once: again, or after `close`, it raises `StoreError`.

    Every method raises `StoreError` or one of its subclasses, also before `open` and after `close`, or the error that
    is named with it, never the driver's own errors, and never with the text of an entry, nor in its cause. Errors write
    their texts themselves: `SessionInUseError(session_id, pid, host)`, `SessionExistsError(session_id)`. All writes are
    queued in call order and are durable when the awaitable returns. One that was called is done, also when its caller
    is cancelled, before anything that another store of this place is asked later. Those to a session, its forks and
    checkpoints need its claim, but for uses of summaries. No call holds the event loop up, one from another event loop
    raises `WrongEventLoopError`, and no thread is left behind, also of the loop's own executor.
    """

    name: str  # where it is, for statistics
    vectors: VectorStore

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        """Become the session's only writer until `close` or the death of the process; create the session if needed.
        Raises `SessionInUseError` where it has a writer, also this store. Without `project` it keeps its own."""

    async def load(self, session_id: str) -> StoredSession | None:
        """Return the session as committed, or None if there is none."""

    def append(self, session_id: str, entries: Entries, committed: Committed) -> Awaitable[None]:
        """Queue entries, which may be none, at the end of the log, at once and in call order. `committed` is called in
        the order of the calls, also when the caller was cancelled; it is not called when the write failed. Entries that
        are not bytes are refused by `StoreError`, those of this call alone."""

    async def replace(
        self, session_id: str, keep: int, entries: Entries, committed: Committed, present: Present | None = None
    ) -> Checkpoint | None:
        """Make the log its own first `keep` entries followed by `entries`, count the replacement, and forget the
        activation states and the places of summaries. The old log stays readable to the store (undo, fork) until
        `purge`, which also ends uses of summaries that were not noted since. Where `present` is given, it is made a
        checkpoint first, and returned, with the errors of `save_checkpoint`. Fewer entries than `keep` are refused."""

    async def save_activation(
        self, session_id: str, provider_key: str, state: bytes, made: NewActivation | None = None
    ) -> None:
        """Keep the newest state of a provider key; of each session the four newest keys remain. `made` says what the
        activation was: all of them stay listed, and of the newest 64 the states before."""

    async def state_before(self, session_id: str, number: int) -> bytes | None:
        """Return the provider's state until an activation; None where it is not kept, or not any longer."""

    async def save_pins(self, session_id: str, pins: str, committed: Committed) -> None:
        """Keep what a session has pinned, in the place of what it had. Checkpoints and forks keep it too."""

    async def save_facts(self, session_id: str, rows: Sequence[tuple[int, StoredEntry]]) -> None:
        """Put facts, each with its message and the place of that in the log, in the place of those that were stored
        with it, for every log that shares the message. Where another message stands there now, nothing is done."""

    async def save_request(self, session_id: str, budget: int, title: str | None, fixed_tokens: int = 0) -> None:
        """Keep the budget of the session's last request, in tokens, those of its system prompt and tools, and the
        title. A fork begins with them."""

    async def save_failure(self, session_id: str, failure: StoredFailure) -> None:
        """Keep the last error of making summaries, and add to the number of those that failed."""

    async def find_summaries(
        self, session_id: str, keys: Mapping[SummaryKey, Place | None]
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Return those of `keys` that are there, from any session, noted as used by this one at these places. It takes
        no claim; nothing is noted for an unknown session, or where nothing may be written."""

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, place: Place | None = None
    ) -> StoredSummary:
        """Keep a summary unless its key has one, and return the one that is kept: the first write wins. For an unknown
        session it is kept without a note of its use."""

    async def summaries_of(self, session_id: str) -> Mapping[SummaryKey, tuple[StoredSummary, Place | None]]:
        """Return those that a session uses, in the order of its log, with their places if they are known."""

    async def search(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        """Return the messages and summaries that hold any of the terms, the most relevant first; they are found as soon
        as they are durable. Terms are letters, digits and spaces; one of several words is a phrase, and in scripts
        without spaces each character is a word: `迁 移`. Case, accents and English endings make no difference. Of
        equals, the newest first. `searchable` in `messages/reading.py` gives the text of a message."""

    async def sessions(self) -> list[SessionInfo]:
        """Return all sessions, the newest change first."""

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session with its claim, and what only it used; False if unknown. The last bytes go with `purge`.
        Raises `SessionInUseError` while another writer has it."""

    # Checkpoints of all sessions. An id may also be a name: then the newest checkpoint of that name is meant. Methods
    # that take one raise `CheckpointNotFoundError` where there is none. Those that take the present raise `StoreError`,
    # with nothing done, if the log was replaced since.

    async def save_checkpoint(self, session_id: str, present: Present) -> Checkpoint:
        """Keep the log's first `present.messages` entries, the pins, the activation states of the present, and the
        summaries that the session uses within these entries."""

    async def load_checkpoint(self, session_id: str, id: str) -> StoredCheckpoint:
        """Return a checkpoint with its log."""

    async def restore(self, session_id: str, id: str, committed: Committed, present: Present) -> Checkpoint:
        """Make a checkpoint of the present, and return it; then make the log, the pins and the activation states those
        of `id`, and forget what `replace` does."""

    async def fork(self, session_id: str, id: str, new_id: str) -> None:
        """Begin a session that goes on from a checkpoint, with its pins and activation states, and the project,
        budget, title and used summaries of the session. No entry is copied: both hold the same rows. It has no writer
        yet. Raises `SessionExistsError`."""

    async def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return the checkpoints of a session, oldest first."""

    async def delete_checkpoint(self, session_id: str, id: str) -> None:
        """Forget a checkpoint; what only it needed goes with the next `purge`."""

    # Memories of all projects; `keep_memories` decides who replaces whom. Where the scope is None, those of the whole
    # store are meant. Memories of a session need its claim to be written.

    async def edit_memories(
        self, scope: MemoryScope, decide: Decide, reader: str = "", marks: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """Let memories be as `decide` leaves them, and note the marks of a reader; all or nothing, while nothing else
        writes memories of the scope. Return the ids of new ones. `decide` may be called in any thread, and again."""

    async def marked(self, scope: MemoryScope, reader: str, marks: Sequence[str]) -> set[str]:
        """Return those of the marks that were noted in this scope."""

    async def memories(self, scope: MemoryScope | None) -> list[StoredMemory]:
        """Return those in scope, oldest first."""

    async def purge(self) -> int:
        """Remove entries and summaries that no session or checkpoint uses; return the bytes of their texts."""

    async def close(self) -> None:
        """Finish the queued writes, give up the claims, end the thread. May be called twice."""


class NewMemory(NamedTuple):
    content: str
    metadata: Mapping[str, Any]
    said_at: str = ""  # no later than this, ISO 8601, UTC; empty: now


class KeptMemory(NamedTuple):
    id: str
    change: Literal["known", "stored", "replaced"]


async def keep_memories(
    store: SessionStore,
    scope: MemoryScope,
    memories: Sequence[NewMemory],
    gone: Sequence[str] = (),
    *,
    reader: str = "",
    marks: Sequence[str] = (),
    again: bool = True,
    renew: bool = False,
) -> list[KeptMemory]:
    """Keep memories one after the other, remove those of the contents `gone` that a session taught, and note the marks
    of what a reader has read; all or nothing.

    The metadata of a memory that is there word for word stay, or are renewed. Without `again` nothing is done where all
    marks are noted already.
    """
    kept: list[KeptMemory] = []  # one that is new has a passing id: `new` and a number

    def decide(held: dict[str, StoredMemory], marked: set[str]) -> None:
        kept.clear()

        def put(id: str, content: str, metadata: Mapping[str, Any]) -> None:
            held[id] = StoredMemory(id, content, metadata, now(), now())

        if not again and marked.issuperset(marks):
            return
        for taught in [one for one in held.values() if one.content in gone and one.metadata.get("source") == "session"]:
            del held[taught.id]
        for content, metadata, said_at in memories:
            quote, session_id, message = (metadata.get(name) for name in ("quote", "session_id", "message"))

            # the same text, or the same words of the same message, learnt by rules or by a model
            told = metadata if renew else None
            old = next((one for one in held.values() if one.content == content), None)
            if old is None and quote and message is not None and session_id == scope.session_id:
                for one in reversed(held.values()):  # the oldest that fits
                    said = one.metadata
                    words, place = str(said.get("quote", "")), (said.get("session_id"), said.get("message"))
                    if place == (session_id, message) and words and (words in quote or quote in words):
                        old, told = one, {**said, **metadata}
            if old is not None:
                if told is not None:
                    put(old.id, content, told)
                kept.append(KeptMemory(old.id, "known"))
                continue

            # others about the same: the newest takes their place, unless it was said later than this
            same = [one for one in held.values() if _are_about_the_same(one.metadata, metadata)]
            if not same:
                kept.append(KeptMemory(f"new {len(kept)}", "stored"))
                put(kept[-1].id, content, metadata)
                continue
            newest, *others = sorted(same, key=lambda one: one.updated_at)[::-1]  # of equals the one that came last
            if newest.metadata.get("session_id") == session_id is not None:
                at = newest.metadata.get("message")
                is_newer = isinstance(at, int) and isinstance(message, int) and at > message
            else:  # parts of a log are read in any order, and long after they were said
                is_newer = newest.updated_at > said_at != ""
            if not is_newer:
                for other in others:
                    del held[other.id]
                    kept[:] = [one._replace(id=newest.id) if one.id == other.id else one for one in kept]
                put(newest.id, content, {**metadata, "replaces": " ".join(one.content for one in (newest, *others))})
            kept.append(KeptMemory(newest.id, "known" if is_newer else "replaced"))

    ids = await store.edit_memories(scope, decide, reader, marks)
    return [KeptMemory(ids.get(id, id), change) for id, change in kept]


def _are_about_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    choice, subject, relation = (new.get(name) for name in ("choice", "subject", "relation"))
    if choice and isinstance(choice, str) and old.get("choice") == choice:
        return True
    is_same = subject and isinstance(subject, str) and old.get("subject") == subject
    return bool(is_same) and (not isinstance(relation, str) or not relation or old.get("relation") in (None, relation))
