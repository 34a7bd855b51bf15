"""Memory extraction: memories are read off a log in the background, piece by piece, and kept.

Nothing waits for it. A piece that was read is marked by a hash, so that it is read once, also after a restart or fork.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import anyio.to_thread

from summarizing_context.concurrency import Clock
from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.extraction.rules import rule_topic
from summarizing_context.log.entries import prefix_hashes, range_hash
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Segment, Sources
from summarizing_context.log.tree import Node
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.search_terms import stems
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.messages.truncation import cut_results
from summarizing_context.retrieval.definitions import bare_subject, definitions, normal_subject
from summarizing_context.stores.base import (
    KeptMemory,
    MemoryScope,
    MemoryStore,
    NewMemory,
    Store,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.summarizers.base import Caller, SummaryJob
from summarizing_context.summarizers.resilience.retries import RetrySchedule
from summarizing_context.summarizers.verification.memories import HUMAN, Item, decode_items
from summarizing_context.worker.jobs import Recipe, paid_once
from summarizing_context.worker.summary_cache import SummaryCache

_MOST = 50  # takeaways of one session without a model, the newest
_LONGEST = 2_000  # characters
_CUT = "…"  # where a line of a summary was cut

logger = logging.getLogger(__name__)


class MemoryItems(NamedTuple):
    """What was read off some pieces of a log; the messages of its items are numbered as in the log, -1 for none."""

    items: Sequence[Item]
    gone: Sequence[str] = ()  # what was learnt before and holds no longer
    dropped: int = 0  # proposals
    by_model: frozenset[str] = frozenset()  # texts of items that a model has put into words


class LogPiece(NamedTuple):
    """What is read in one go: entries `start` up to `stop`, or a part of one large group."""

    leaf: int  # segment that it is in; one past the last for what is in none yet
    start: int
    stop: int
    hash: str  # names what is read
    mark: str  # names what of the segment has been read then


class UnreadPieces:
    """The pieces of one session's log that a model has summarized or that are asked for, and that are not read yet."""

    def __init__(self, log: MessageLog, summaries: SummaryCache, redact: Redact | None) -> None:
        self.log, self._summaries, self._redact = log, summaries, redact
        self.reset()

    def reset(self) -> None:
        """The log was replaced."""
        self._stops: dict[int, int] = {}  # by leaf: the entry up to which it was read
        self._begun: dict[int, LogPiece] = {}  # by leaf: what is to be read next, until it is
        self._first = 0  # leaves before it were read
        self._asked = 0  # entries before it are to be read now
        self._sources = Sources(self._redact, numbered=True, thinking=self.log.thinking)

    def read_to_end(self) -> None:
        """All that stands in closed groups is to be read."""
        self._asked = self.log.closed_groups_stop

    def wanted(self) -> Iterator[LogPiece]:
        """What is to be read now, oldest first."""
        segments = self.log.segments
        while self._first < len(segments) and self._stops.get(self._first) == segments[self._first].stop:
            self._stops.pop(self._first)
            self._first += 1
        for leaf in range(self._first, len(segments) + 1):
            if leaf not in self._begun and (piece := self._next(leaf)) is not None:
                self._begun[leaf] = piece
            if leaf in self._begun:
                yield self._begun[leaf]

    def note(self, piece: LogPiece) -> None:
        """A piece was read."""
        if self._begun.pop(piece.leaf, None) is not None:
            self._stops[piece.leaf] = piece.stop

    def holds(self, piece: LogPiece) -> bool:
        """Whether the piece stands where it stood: the log may have been replaced meanwhile."""
        return self._begun.get(piece.leaf) == piece

    def marks(self, leaves: Iterable[int]) -> dict[str, tuple[int, int]]:
        """For every mark that these leaves may have: the leaf, and the entry up to which it then was read."""
        known: dict[str, tuple[int, int]] = {}
        for leaf in leaves:
            segment = self._segment(leaf)
            if segment.parts > 1:
                known[self.log.hashes[leaf]] = leaf, segment.stop
                continue
            starts = self.log.group_starts
            first, last = bisect_left(starts, segment.start), bisect_left(starts, segment.stop)
            ends = [*islice(starts, first + 1, last), segment.stop] if first < last else []
            hashes = list(prefix_hashes([entry.digest for entry in self.log.entries[segment.start : segment.stop]]))
            known |= {hashes[end - segment.start - 1]: (leaf, end) for end in ends}
        return known

    def take(self, leaf: int, stop: int) -> None:
        """So far this leaf was read, by this process or by an earlier one."""
        self._stops[leaf] = max(stop, self._stops.get(leaf, 0))

    def source(self, piece: LogPiece) -> Callable[[], str]:
        """What gives the text of a piece, its messages with their numbers in it, in any thread."""
        segment = self._segment(piece.leaf)
        group = self.log.hashes[piece.leaf - segment.part] if segment.parts > 1 else ""
        return self._sources.source(segment, group, self.log.entries[piece.start : piece.stop])

    def _next(self, leaf: int) -> LogPiece | None:
        segment = self._segment(leaf)
        start = self._stops.get(leaf, segment.start)
        is_closed = leaf < len(self.log.segments)
        whole = is_closed and (segment.stop <= self._asked or self._summaries.is_ready(Node.leaf(leaf)))
        asked = start if is_closed else min(segment.stop, max(self._asked, self._summaries.open.ready_stop))
        stop = segment.stop if whole else asked
        if stop <= start:
            return None
        if is_closed and start == segment.start:
            return LogPiece(leaf, start, stop, self.log.hashes[leaf], self.log.hashes[leaf])
        digests = [entry.digest for entry in self.log.entries[segment.start : stop]]
        return LogPiece(leaf, start, stop, range_hash(digests[start - segment.start :]), range_hash(digests))

    def _segment(self, leaf: int) -> Segment:
        """A leaf; the last is what is in no segment yet."""
        log = self.log
        if leaf < len(log.segments):
            return log.segments[leaf]
        return Segment(log.covered_by_segments, log.closed_groups_stop, 0)


class ModelMemoryReader:
    """Asks a model, or takes what one has answered before."""

    name = "model"  # what it has read is marked by it

    def __init__(self, pieces: UnreadPieces, *, store: Store, session_id: str, caller: Caller, recipe: Recipe) -> None:
        self._pieces, self._store = pieces, store
        self._session_id, self._caller, self._recipe = session_id, caller, recipe

    def next(self, wanted: Iterator[LogPiece]) -> Sequence[LogPiece]:
        """Which of the pieces it reads in one go: the first, if it may be asked now."""
        return list(islice(wanted, 1)) if self._caller.ready_in() == 0.0 else ()

    async def read(self, pieces: Sequence[LogPiece]) -> MemoryItems | None:
        """What they teach; None where they are no longer there."""
        (piece,) = pieces
        key = SummaryKey(piece.hash, self._recipe.memory)
        async with paid_once(self._store, self._recipe, key, self):
            found: StoredSummary | None = None
            if self._recipe.shared:
                found = (await self._store.find_summaries(self._session_id, [key])).get(key)
            if found is None:
                if not self._pieces.holds(piece):
                    return None
                job = await anyio.to_thread.run_sync(
                    self._job, piece, self._pieces.source(piece), abandon_on_cancel=True
                )
                reply = await self._caller.summarize(job)
                found = StoredSummary(reply.text, 0, reply.input_tokens or 0, reply.output_tokens or 0)
                if self._recipe.shared:
                    found = await self._store.save_summary(self._session_id, key, found)
        if not self._pieces.holds(piece):
            return None
        items = decode_items(found.text)
        within = (item for item in items.kept if item.message <= piece.stop - piece.start)
        placed = [item._replace(message=piece.start + item.message - 1) for item in within]
        return MemoryItems(placed, dropped=items.dropped)

    def _job(self, piece: LogPiece, source: Callable[[], str]) -> SummaryJob:
        cut = cut_results(source())  # without the middles of long results: what lasts is seldom in them
        content = cut.join([()] * len(cut.left_out))
        most = self._recipe.memory_tokens
        asked = self._recipe.instructions("memory", 0, most), content, most
        place = 0, piece.start, piece.stop
        return SummaryJob("memory", *asked, *place, estimate_text(content), piece.hash, recipe_hash=self._recipe.memory)


class OfflineMemoryReader:
    """Reads by rules, without a model, all in one go: constraints, decisions and definitions that later sessions need.

    First what the human said, without what was taken back; then what summaries tell of decisions besides. What is
    learnt leaves its session, so it is redacted too.
    """

    name = "rules"

    def __init__(
        self, log: MessageLog, ledger: SessionLedger, summaries: SummaryCache, cap: int, redact: Redact | None
    ) -> None:
        self._log, self._ledger, self._summaries = log, ledger, summaries
        self._cap, self._redact = cap, redact

    def next(self, wanted: Iterator[LogPiece]) -> Sequence[LogPiece]:
        """All of the pieces."""
        return list(wanted)

    async def read(self, pieces: Sequence[LogPiece]) -> MemoryItems:
        """What they teach."""
        ranges = sorted({(piece.start, piece.stop) for piece in pieces})
        found = self._items(pieces, ranges)
        if (redact := self._redact) is None:
            return found
        log = self._log.entries
        said = {item.message: [log[item.message]] for item in found.items if item.message >= 0}
        if any(item.message < 0 and item.text not in found.by_model for item in found.items):
            said[-1] = [entry for start, stop in ranges for entry in log[start:stop]]  # what no single message says

        def clean() -> MemoryItems:
            # what is left of messages, each redacted as a whole, in one line
            left = {}
            for message, entries in said.items():
                reads = [entry.read(0) for entry in entries]
                texts = [text for read in reads for text in redact_reading(read.message, read.reading, redact).texts]
                left[message] = _flat("\n".join(texts))

            # What was copied from the log may hold a part of what is only known as a secret as a whole, unless it
            # stands in what is left there. A model was told no more than that.
            kept: list[Item] = []
            for item in found.items:
                text, about = _flat(redact(item.text)), redact(item.about)
                if item.message >= 0 or item.text not in found.by_model:
                    if not all(part.strip() in left[item.message] for part in text.split(_CUT)):
                        continue
                    if bare_subject(about).casefold() not in left[item.message].casefold():
                        about = ""
                kept.append(item._replace(text=text, about=about))
            return MemoryItems(kept, list(map(redact, found.gone)))

        return await anyio.to_thread.run_sync(clean, abandon_on_cancel=True)

    def _items(self, pieces: Sequence[LogPiece], ranges: Sequence[tuple[int, int]]) -> MemoryItems:
        """The constraints, decisions and facts of some pieces of the log, oldest first, each once."""
        rules = self._log.rules.facts()
        ended = {_flat(fact.value) for fact in rules if fact.superseded}
        facts = [fact for fact in rules if not fact.superseded]
        facts += (fact for fact in self._ledger.facts() if fact.kind == "decision")
        said = {_flat(fact.value) for fact in facts}
        valid = [
            Item("preference" if fact.kind == "constraint" else "decision", "", _flat(fact.value), fact.start, HUMAN)
            for fact in facts
            if any(start <= fact.start < stop for start, stop in ranges)
        ]
        known = said | {item.text for item in valid}
        entries = ((index, self._log.entries[index]) for start, stop in ranges for index in range(start, stop))
        defined = (
            Item("fact", one.subject, _flat(one.sentence), index, HUMAN, one.relation)
            for index, entry in entries
            if entry.facts.human
            for one in definitions(entry.read(index).reading.typed)
        )
        valid += [item for item in defined if item.text not in known]
        items = list({item.text: item for item in sorted(valid, key=lambda item: item.message)}.values())[-_MOST:]

        # what summaries tell besides, the newest first
        lines: dict[str, bool] = {}  # whether a model wrote it
        for line, by_model in self._summary_lines(pieces):
            if len(items) + len(lines) >= _MOST:
                break
            start, cut, _ = line.partition(_CUT)
            is_begun = bool(cut and start) and any(value.startswith(start.strip()) for value in said)
            if line not in said and not is_begun:
                lines[line] = lines.get(line, True) and by_model
        besides = [Item("decision", "", line, -1, "summary") for line in reversed(lines)]
        made = frozenset(line[:_LONGEST] for line, by_model in lines.items() if by_model)
        learnt = [item._replace(text=item.text[:_LONGEST]) for item in [*besides, *items]]
        return MemoryItems(learnt, sorted(ended - said), by_model=made)

    def _summary_lines(self, pieces: Sequence[LogPiece]) -> Iterator[tuple[str, bool]]:
        """Lines of the section that outlives a session, in what stands for the pieces, without the marks of a quote,
        and whether a model wrote them; the last of the newest first, while there is time."""
        log, until = self._log, time.monotonic() + 0.5  # seconds: some summaries are only made by that
        for piece in sorted(pieces, reverse=True):
            if time.monotonic() > until:
                return
            if piece.leaf < len(log.segments) and piece.hash == log.hashes[piece.leaf]:
                made = self._summaries.text_of(Node.leaf(piece.leaf))
            else:
                entries = range(piece.start, piece.stop)
                ready = self._summaries.ready_piece(entries, self._cap)
                made = ready or self._summaries.piece_reader(entries, self._cap)()
            found: list[str] = []
            is_wanted = False
            for line in made.text.splitlines():
                if line.startswith("## "):
                    is_wanted = line.strip() == "## Decisions"
                elif is_wanted and line.startswith("- ") and line[2:] and not line.rstrip().endswith(" (superseded)"):
                    bare = line[2:].strip().removesuffix(" (latest)")
                    found.append(_flat(bare.removeprefix('"').removesuffix('"')))
            yield from ((line, made.made_by == "model") for line in reversed(found))


def _flat(text: str) -> str:
    return " ".join(text.split())


class MemoryExtractor:
    """What one session teaches. All methods belong to its event loop; none but the waiting ones wait."""

    def __init__(
        self,
        pieces: UnreadPieces,
        reader: ModelMemoryReader | OfflineMemoryReader,
        last_reader: OfflineMemoryReader,  # reads on leaving what the first has not read
        memory_store: MemoryStore,
        scope: MemoryScope,
        *,
        clock: Clock,
        cooldown: float,
        notify: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._pieces, self._memory_store, self._scope = pieces, memory_store, scope
        self._reader, self._last_reader = reader, last_reader
        self._clock, self._notify = clock, notify
        self._retries = RetrySchedule(cooldown)
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._is_new = True  # nothing is known yet of what was read of the log
        self._before = 0, ""  # what was said before this opening: entries, and when at the latest
        self.dropped = 0  # proposals that the record did not bear out
        self.last_error: str | None = None

    def read_to_end(self) -> None:
        """Read the log as it stands, in the background."""
        self._pieces.read_to_end()
        self.wake()

    def wake(self) -> None:
        """Go on reading, if there is anything to read."""
        if not self._closed and (self._task is None or self._task.done()) and (self._is_new or self._next()):
            self._task = asyncio.create_task(self._run(), name="learning")

    def opened(self, stop: int, updated_at: str) -> None:
        """The log held so many entries when it was opened, the last of that time (ISO 8601, UTC)."""
        self._before = stop, updated_at

    def forget(self) -> None:
        """The log is another one."""
        self._pieces.reset()
        self._is_new = True
        self._before = len(self._pieces.log), ""

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until all that is to be read was; whether it was, within so many seconds."""
        self.wake()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=timeout)
        return not self._is_new and next(self._pieces.wanted(), None) is None

    async def leave(self, within: float) -> None:
        """The session ends: read what has not been read yet. What the first reader does not manage within so many
        seconds is left to the last one, and to the first when the session is opened again."""
        self.read_to_end()
        is_read = await self.settle(within)
        await self.close()
        try:
            if not is_read and not self._is_new and (pieces := list(self._pieces.wanted())):
                self._reader = self._last_reader
                if (extracted := await self._reader.read(pieces)) is not None:
                    await self._keep(pieces, extracted)
        except Exception as error:  # of what was left behind
            self._fail(error)

    async def close(self) -> None:
        """End what is under way."""
        self._closed = True
        if self._task is not None and self._task.cancel():
            await asyncio.wait({self._task}, timeout=0.5)

    def _next(self) -> Sequence[LogPiece]:
        if self._closed:
            return ()
        now = self._clock.now()
        return self._reader.next(one for one in self._pieces.wanted() if not self._retries.rests(one.hash, now))

    async def _run(self) -> None:
        if self._is_new and not await self._recall():
            return
        while pieces := self._next():
            began = self._clock.now()
            try:
                extracted = await self._reader.read(pieces)
                if extracted is not None:
                    await self._keep(pieces, extracted)
                self._retries.recover(pieces[0].hash, began)
            except SummarizerNotReady:
                return  # nothing was tried
            except Exception as error:  # the session goes on without
                for piece in pieces:
                    self._retries.note(piece.hash, error, self._clock.now())
                self._fail(error)
            if self._is_new and not await self._recall():
                return

    async def _recall(self) -> bool:
        """Find out what of a log was read before; whether that is known now."""
        self._is_new, leaves = False, len(self._pieces.log.segments) + 1  # with what is in no segment yet
        try:
            for first in range(0, leaves, 200):
                marks = self._pieces.marks(range(first, min(first + 200, leaves)))
                known = await self._memory_store.marked(self._scope, self._reader.name, list(marks))
                if self._is_new:  # replaced meanwhile
                    return await self._recall()
                for leaf, stop in (marks[mark] for mark in known):
                    if stop <= self._before[0]:
                        self._pieces.take(leaf, stop)
        except StoreError as error:
            self._is_new = True
            self._fail(error)
            return False
        return True

    async def _keep(self, pieces: Sequence[LogPiece], extracted: MemoryItems) -> None:
        before, until = self._before
        first = min(piece.start for piece in pieces)
        memories = []
        for item in extracted.items:
            place = item.message if item.message >= 0 else first
            memories.append(_memory(item, self._scope.session_id, until if place < before else ""))
        marks = [piece.mark for piece in pieces]
        kept = await self._memory_store.learn(
            self._scope, self._reader.name, marks, memories, extracted.gone, again=first >= before
        )
        self.dropped += extracted.dropped
        for piece in pieces:
            self._pieces.note(piece)
        for one, memory in zip(kept, memories, strict=False):
            notify_of_memory(self._notify, one, memory.metadata)

    def _fail(self, error: Exception) -> None:
        known = isinstance(error, SummarizerError | StoreError)
        self.last_error = str(error) if known else type(error).__name__
        logger.warning("memories could not be learnt", extra={"cause": type(error).__name__})


def notify_of_memory(notify: Callable[[str, dict[str, object]], None], kept: KeptMemory, metadata: Any) -> None:
    """Tell of a memory that is new, or that has taken the place of another; never its text."""
    if kept.change != "known":
        facts = {name: metadata.get(name) for name in ("kind", "source") if isinstance(metadata.get(name), str)}
        notify(f"memory_{kept.change}", {"id": kept.id, **facts})


def _memory(item: Item, session_id: str, said_at: str) -> NewMemory:
    metadata: dict[str, Any] = {
        "source": "session",
        "session_id": session_id,
        "kind": item.kind,
        "said_by": item.said_by,
    }
    if item.message >= 0:
        metadata |= {"message": item.message, "quote": item.text}
    if item.about:
        metadata |= {"about": item.about, "subject": normal_subject(item.about)}
        if item.relation:
            metadata["relation"] = item.relation
    elif item.kind == "preference":
        topic = rule_topic(item.text)
        metadata |= {name: text for name, text in (("subject", topic.order), ("choice", topic.choice)) if text}
    is_clear = not item.about or stems(item.about) <= stems(item.text)
    return NewMemory(item.text if is_clear else f"{item.about}: {item.text}", metadata, said_at)
