"""Readers of memories: a model that is asked about a piece of the log, and rules.

When they read, and what becomes of what they find, is the matter of `learning`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import anyio.to_thread

from summarizing_context.core.definitions import as_said
from summarizing_context.core.entries import Entry
from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.memory_items import Item, Lessons, decode_items
from summarizing_context.core.redaction import Redact, redact_reading
from summarizing_context.flights import alone_with
from summarizing_context.jobs import Recipe
from summarizing_context.memory_pieces import MemoryPieces, Piece, shortened
from summarizing_context.ports import Store, StoredSummary, SummaryJob, SummaryKey, SummaryReply
from summarizing_context.timeline import Timeline

_NOWHERE = -1  # the place of what no single message says
_CUT = "…"  # where a line of a summary was cut


class Reader(Protocol):
    """Reads memories off pieces of a log."""

    name: str  # what it has read is marked by it

    def ready(self) -> bool:
        """Whether it may be asked now."""

    def next(self, wanted: Iterator[Piece]) -> Sequence[Piece]:
        """Which of the pieces it reads in one go."""

    async def read(self, pieces: Sequence[Piece]) -> Lessons | None:
        """What they teach; None where they are no longer there."""


class Caller(Protocol):
    """A summarizer with a gate before it."""

    async def summarize(self, job: SummaryJob) -> SummaryReply: ...

    def ready_in(self) -> float | None: ...


class ModelReader:
    """Asks a model, or takes what one has answered before."""

    name = "model"

    def __init__(
        self,
        pieces: MemoryPieces,
        *,
        store: Store,
        session_id: str,
        caller: Caller,
        recipe: Recipe,
    ) -> None:
        self._pieces, self._store = pieces, store
        self._session_id, self._caller, self._recipe = session_id, caller, recipe
        self._place = store.name if recipe.shared and store.name != ":memory:" else id(self)

    def ready(self) -> bool:
        return self._caller.ready_in() == 0.0

    def next(self, wanted: Iterator[Piece]) -> Sequence[Piece]:
        return list(islice(wanted, 1))

    async def read(self, pieces: Sequence[Piece]) -> Lessons | None:
        (piece,) = pieces
        key = SummaryKey(piece.hash, self._recipe.memory)
        async with alone_with((self._place, key)):
            found = (
                (await self._store.find_summaries(self._session_id, [key])).get(key) if self._recipe.shared else None
            )
            if found is None:
                if not self._pieces.holds(piece):
                    return None
                reply = await self._caller.summarize(await self._job(piece))
                found = StoredSummary(reply.text, 0, reply.input_tokens or 0, reply.output_tokens or 0)
                if self._recipe.shared:
                    found = await self._store.save_summary(self._session_id, key, found)
        if not self._pieces.holds(piece):
            return None
        items = decode_items(found.text)
        within = (item for item in items.kept if item.message <= piece.stop - piece.start)
        placed = [item._replace(message=piece.start + item.message - 1) for item in within]
        return Lessons(placed, dropped=items.dropped)

    async def _job(self, piece: Piece) -> SummaryJob:
        source = self._pieces.source(piece)

        def made() -> SummaryJob:
            content = shortened(source())
            most = self._recipe.max_tokens
            told = self._recipe.instructions("memory", 0, most)
            tokens = estimate_text(content)
            return SummaryJob("memory", told, content, most, 0, piece.start, piece.stop, tokens, piece.hash)

        return await anyio.to_thread.run_sync(made, abandon_on_cancel=True)


class RuleReader:
    """Reads by rules, without a model, all in one go. What is learnt leaves its session, so it is redacted too."""

    name = "rules"

    def __init__(
        self, timeline: Timeline, lessons: Callable[[Sequence[Piece]], Lessons], redact: Redact | None
    ) -> None:
        self._timeline, self._lessons, self._redact = timeline, lessons, redact

    def ready(self) -> bool:
        return True

    def next(self, wanted: Iterator[Piece]) -> Sequence[Piece]:
        return list(wanted)

    async def read(self, pieces: Sequence[Piece]) -> Lessons | None:
        found = self._lessons(pieces)
        if (redact := self._redact) is None:
            return found
        log = self._timeline.entries
        said = {item.message: log[item.message] for item in found.items if item.message >= 0}
        ranges = sorted({(piece.start, piece.stop) for piece in pieces})
        told = [entry for start, stop in ranges for entry in log[start:stop]]

        def clean() -> Lessons:
            lefts = {message: _left_of([entry], redact) for message, entry in said.items()}
            if any(item.message < 0 and item.text not in found.by_model for item in found.items):
                lefts[_NOWHERE] = _left_of(told, redact)
            made = [_redacted(item, lefts, redact, by_model=item.text in found.by_model) for item in found.items]
            return Lessons([item for item in made if item is not None], list(map(redact, found.gone)))

        return await anyio.to_thread.run_sync(clean, abandon_on_cancel=True)


def _left_of(entries: Sequence[Entry], redact: Redact) -> str:
    """What is left of messages, each redacted as a whole, in one line."""
    reads = [entry.read(0) for entry in entries]
    texts = [text for read in reads for text in redact_reading(read.message, read.reading, redact).texts]
    return _flat("\n".join(texts))


def _redacted(item: Item, lefts: Mapping[int, str], redact: Redact, *, by_model: bool) -> Item | None:
    """An item without its secrets. One that was copied from the log may hold a part of what is only known as a whole:
    None unless it stands in what is left there. A model was told no more than that."""
    text, about = _flat(redact(item.text)), redact(item.about)
    if item.message >= 0 or not by_model:
        left = lefts[max(item.message, _NOWHERE)]
        if not all(part.strip() in left for part in text.split(_CUT)):
            return None
        if as_said(about).casefold() not in left.casefold():
            about = ""
    return item._replace(text=text, about=about)


def _flat(text: str) -> str:
    return " ".join(text.split())
