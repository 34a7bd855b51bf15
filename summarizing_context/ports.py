"""What the parts need from each other: short protocols and the values that travel through them.

Real things satisfy a port without inheriting from it; only `assembly` names concrete classes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """One summary still to be made: what to read, how to, and how long the answer may be."""

    kind: Literal["segment", "rollup", "memory"]  # `memory`: what of a range later sessions need to know
    instructions: str  # for the system slot
    content: str  # data to be summarized, as `core.rendering` writes it; never instructions
    max_tokens: int  # cap of the answer
    rank: int  # 0 for a segment, n+1 for a rollup of rank-n nodes
    start: int  # first log entry it stands for
    stop: int  # one past the last
    source_tokens: int  # estimate of `content`
    range_hash: str  # hex; names the content
    attempt: int = 1

    @property
    def prompt(self) -> str:
        """Instructions, a blank line, content: for summarizers with a single text slot."""
        return f"{self.instructions}\n\n{self.content}"


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """A summarizer's answer, when it can say more than the text."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    truncated: bool = False  # cut off by the length limit
    cached_tokens: int | None = None  # of the input, what the provider read from its prompt cache


class Summarizer(Protocol):
    """Turns a job into a summary. An attribute `recipe: str`, if present, names it for the shared cache."""

    async def summarize(self, job: SummaryJob) -> str | SummaryReply:
        """Summarize one job. Raise `SummarizerError` if it cannot be done now."""


class Embedder(Protocol):
    """Turns texts into vectors. An attribute `recipe: str`, if present, names how, so that vectors can be kept."""

    async def embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """A vector for each text, all of one length."""


class TokenCounter(Protocol):
    """Counts tokens of a text. `name` says which counter it is, for statistics and for stored counts."""

    name: str

    def count(self, text: str) -> int:
        """Tokens in `text`, at least 0. Never raises, whatever the text."""


class Clock(Protocol):
    """Where time comes from, so that tests can turn it."""

    def now(self) -> float:
        """Seconds, never going back."""


class Events(Protocol):
    """Where notices for observers go. Handlers may not delay or break the caller."""

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Hand one event over; finite JSON values, never message text."""


class SummaryKey(NamedTuple):
    """What is summarized, and how: the cache key."""

    range_hash: str  # hex
    recipe_hash: str  # hex


Places = Mapping[SummaryKey, tuple[int, int]]  # the log entries, start and stop, for which a summary stands
NOWHERE: Places = MappingProxyType({})


class StoredRules(NamedTuple):
    """The standing rules of one message as the store keeps them beside the log; it does not look into them."""

    digest: bytes  # names the message by its bytes
    version: str  # of how they were read
    rules: bytes


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One log entry as the store keeps it; the store looks into neither part."""

    message: bytes  # JSON, as received
    facts: bytes  # what was derived from it when it was added, so that reopening need not parse the message
    rules: StoredRules | None = None  # to be written with it; `load` tells them apart from the entries


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as the store keeps it."""

    text: str
    rank: int
    input_tokens: int  # what it cost; 0 for extractive ones
    output_tokens: int


@dataclass(frozen=True, slots=True)
class StoredSession:
    """All that reopening a session needs. `activations` holds (provider key, state), oldest first."""

    session_id: str
    project: str | None
    entries: Sequence[StoredEntry]
    activations: Sequence[tuple[str, bytes]]
    log_version: int = 0  # how often the log was replaced
    pins: str = ""  # as they were saved
    rules: Sequence[StoredRules] = ()  # of every version


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of sessions."""

    session_id: str
    project: str | None
    messages: int
    summaries: int
    created_at: str  # ISO 8601, UTC
    updated_at: str
    writer_pid: int | None  # of the process that has it open, when it lives
    input_tokens: int = 0  # what its summaries cost when they were made, by it or by another session
    output_tokens: int = 0


class Store(Protocol):
    """Keeps logs, summaries and activation states; many sessions in one place.

    Every method raises `StoreError` or one of its subclasses, never the driver's own errors.
    All writes are queued in call order and are durable when the awaitable returns.
    """

    name: str  # where it is, for statistics

    async def claim(self, session_id: str, *, project: str | None = None) -> None:
        """Become the session's only writer, creating the session if needed; `SessionInUseError` if it has one.

        Given up by `close`, and by the death of the process.
        """

    async def load(self, session_id: str) -> StoredSession | None:
        """The session as committed, or None if there is none."""

    def append(self, session_id: str, entries: Sequence[StoredEntry], committed: Callable[[], None]) -> Awaitable[None]:
        """Queue entries at the end of the log, at once and in call order.

        `committed` is called on the event loop once they are durable, in the order of the calls, before the
        awaitable resolves, and also when nobody awaits any longer; it is not called when the write failed.
        """

    async def replace(
        self, session_id: str, keep: int, entries: Sequence[StoredEntry], committed: Callable[[], None]
    ) -> None:
        """Make the log its own first `keep` entries followed by `entries`, and forget the activation states.

        The old log stays readable to the store (undo, fork) until `purge`. `committed` as in `append`.
        """

    async def save_activation(self, session_id: str, provider_key: str, state: bytes) -> None:
        """Keep the newest state of a provider key; of each session the four newest keys remain."""

    async def find_summaries(
        self, session_id: str, keys: Sequence[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary]:
        """Those of `keys` that are there, from any session, noted as used by this one at these places."""

    async def save_summary(
        self, session_id: str, key: SummaryKey, summary: StoredSummary, places: Places = NOWHERE
    ) -> StoredSummary:
        """Keep a summary unless its key has one, and return the one that is kept: the first write wins."""

    async def sessions(self) -> list[SessionInfo]:
        """All sessions, the newest change first."""

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session, and what only it used, so that its text is no longer in the file; False if unknown.

        `SessionInUseError` while another writer has it.
        """

    async def purge(self) -> int:
        """Remove every entry and summary that no session uses any longer; bytes freed."""

    async def close(self) -> None:
        """Finish the queued writes, give up the claims, end the thread. May be called twice."""
