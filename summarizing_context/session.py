"""The session behind a context: its log and the store kept in step, activations committed, a stored log loaded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import msgspec

from summarizing_context.concurrency import Pause, finish_despite_cancellation, running_loop
from summarizing_context.errors import ContextClosedError, StoreError, StoreReadOnlyError, WrongEventLoopError
from summarizing_context.log.entries import Entry, decode_entry
from summarizing_context.log.pins import decode_pins, encode_pins
from summarizing_context.statistics import Parts
from summarizing_context.stores.base import Place, StoredEntry, StoredProviderView, StoredRules
from summarizing_context.views.activation import ActivationReport, ActivationRequest, Reason
from summarizing_context.views.memory_section import is_memory_block, memories_in
from summarizing_context.views.provider_view import Change
from summarizing_context.views.tail import log_name
from summarizing_context.views.view import ActivationState, decode_state, encode_state

_BREATH = 1_000  # entries loaded between two turns of the event loop

logger = logging.getLogger(__name__)


async def load_session(parts: Parts) -> None:
    """Bring back the log, the summaries and the activation states of a session."""
    session_id = parts.settings.session_id
    if not parts.read_only:
        await parts.store.claim(session_id, project=parts.settings.project)
    stored = await parts.store.load(session_id)
    if stored is None:
        raise StoreError(
            f"{parts.store.name} holds no session {session_id!r}; `summarizing-context sessions` lists them"
        )
    parts.intake.learn(stored.rules)
    unread: list[tuple[int, StoredRules]] = []
    for at, entry in enumerate(await read_entries(parts, stored.entries)):
        if (rules := parts.intake.unread(entry)) is not None:
            unread.append((at, rules))
        parts.timeline.extend(entry)
        if at % _BREATH == _BREATH - 1:
            await asyncio.sleep(0)
    await _keep_rules(parts, unread)
    parts.timeline.version = stored.log_version
    parts.timeline.take_pins(decode_pins(stored.pins))
    parts.viewer.reopened = bool(stored.entries)
    await parts.worker.recall()
    for key, data in stored.activations:
        if (state := usable_state(parts, data)) is not None:
            parts.viewer.restore(key, state)
            for hash in parts.timeline.hashes[: state.leaves]:  # an earlier process has read what it covered
                parts.book.saw(hash)


async def _keep_rules(parts: Parts, rows: Sequence[tuple[int, StoredRules]]) -> None:
    """Keep what was read of messages on opening, so that it need not be read again."""
    if not rows or parts.read_only:
        return
    try:
        await parts.store.rules.save(parts.settings.session_id, rows)
    except StoreError as error:
        logger.warning("standing rules could not be kept; they are read again when it is opened", exc_info=error)


def usable_state(parts: Parts, data: bytes) -> ActivationState | None:
    """A stored state; None if it cannot be read, or if the log is cut otherwise than it was when the state was made:
    into other segments by other settings, into other groups by an earlier version."""
    try:
        state = decode_state(data)
    except (msgspec.MsgspecError, ValueError) as error:
        logger.warning("an activation state is not readable; it is made anew", extra={"cause": type(error).__name__})
        return None
    timeline = parts.timeline
    ends = [0, *(segment.stop for segment in timeline.segments[: state.leaves])]
    if len(ends) <= state.leaves or ends[state.leaves] != state.leaves_stop:
        return None
    fits = timeline.group_start(state.stop) == state.stop and max(state.stop, state.repeats_stop) <= len(timeline)
    return state if fits else None


async def read_entries(parts: Parts, stored: Sequence[StoredEntry]) -> list[Entry]:
    """Entries as the log holds them; the event loop turns meanwhile."""
    count, name = parts.counter.count, parts.counter.name
    entries: list[Entry] = []
    for at, entry in enumerate(stored, 1):
        entries.append(decode_entry(entry.message, entry.facts, count, name))
        if at % _BREATH == 0:
            await asyncio.sleep(0)
    return entries


_MOST_CHANGES = 8  # of the log while a view is decided

_Decide = Callable[[], Change | None]


class Session:
    """A log and what is shown of it. All methods belong to the event loop in which it was opened."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.id = parts.settings.session_id
        self.changing = anyio.Lock()  # activations and replacements of the log, one at a time
        self.closed = False
        self._is_announcing = False  # an activation: whoever asks for a view meanwhile gets one unannounced
        self.loop = running_loop()
        self.prepare: Callable[[], Awaitable[None]] | None = None  # awaited before it is decided; not for long
        self.look_ahead: Callable[[], Awaitable[None]] | None = None  # the same before it is only asked for
        self.key, self.budget = _asked_last(parts)
        self.asked_at = parts.clock.now()  # when the last view was asked for
        self.activations: Counter[str] = Counter()
        self.last_error: str | None = None
        self.replaced_by = 0  # messages of the log that was put in the place of another last
        self._segments_seen = 0

    @property
    def is_idle(self) -> bool:
        """Whether the provider's prompt cache is taken for cold."""
        after = self.parts.settings.idle_after
        return after is not None and self.parts.clock.now() - self.asked_at > after

    def check(self, *, writes: bool = False) -> None:
        """Raise unless the session may be used, here and now."""
        if self.closed:
            raise ContextClosedError(f"the context of session {self.id!r} is closed; open it again")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = self.loop  # a plain function called outside of any loop
        if loop is not self.loop:
            raise WrongEventLoopError("this context was opened in another event loop; open one for each loop")
        if writes and self.parts.read_only:
            raise StoreReadOnlyError("this context was opened with read_only=True; open it without to change the log")

    async def add(self, entry: Entry) -> None:
        """Add an entry at the end of the log; ephemeral ones are kept in memory only."""
        if entry.facts.ephemeral:
            self._extend([entry])
        else:
            stored = self.parts.intake.stored([entry])
            with self.parts.foreground.call():
                await self.parts.store.append(self.id, stored, lambda: self._extend([entry]))

    async def replace(self, log: list[Entry]) -> None:
        """Make `log` the whole log. Summaries whose range still matches are kept. A log of which anything would be lost
        is made a checkpoint first."""
        timeline = self.parts.timeline
        async with self.changing:
            durable = [entry for entry in log if not entry.facts.ephemeral]
            keep = timeline.common_prefix(log)
            if keep == len(timeline) == len(durable) and not timeline.riders and len(durable) == len(log):
                return
            pinned = timeline.pinned
            with self.parts.foreground.call():
                await self._store_replacement(log, durable)
            if timeline.pinned != pinned:
                await self.parts.store.pins.save(self.id, encode_pins(timeline.pinned), lambda: None)
            await self.parts.worker.recall(everything=True)

    async def _store_replacement(self, log: Sequence[Entry], durable: Sequence[Entry]) -> None:
        """Commit another log; where the present one holds what that does not, with a checkpoint of it."""
        timeline, store = self.parts.timeline, self.parts.store
        while True:
            keep = timeline.common_prefix(log)
            rest, committed = self.parts.intake.stored(durable[keep:]), partial(self.replaced, log)
            if keep == len(timeline):
                return await store.replace(self.id, keep, rest, committed)
            place, showings = self.place, self.showings()
            if await store.checkpoints.replace(self.id, place, showings, keep, rest, committed=committed) is not None:
                return None  # else a cancelled replacement of the log was still on its way

    @property
    def place(self) -> Place:
        """Where the log stands now."""
        return Place(self.parts.timeline.version, len(self.parts.timeline))

    def showings(self) -> list[StoredProviderView]:
        """What each provider is shown, as checkpoints keep it."""
        return [
            StoredProviderView(showing.key, encode_state(showing.state), msgspec.json.encode(showing.marks).decode())
            for showing in self.parts.viewer.showings
        ]

    def replaced(self, log: Sequence[Entry]) -> None:
        """A new log is committed: go on from it."""
        self.parts.timeline.replace(log)
        self.replaced_by = len(self.parts.timeline)
        self.parts.ledger.keep(self.parts.timeline.kept)
        self.parts.book.reset()
        self.parts.worker.reset()
        if self.parts.learner is not None:
            self.parts.learner.forget()
        self.parts.viewer.forget("log_replaced")
        self._segments_seen = -1  # as many segments as before may be other ones
        self._wake_for_segments()

    def would_compact(self) -> bool:
        """Whether the next view, for the provider of the last one, would activate."""
        return self.parts.viewer.would_compact(self.key, self.budget, "idle" if self.is_idle else None)

    async def activate(
        self,
        key: str,
        budget: int,
        asked: Reason | None,
        *,
        focus: str | None = None,
        wish: ActivationRequest | None = None,
        begin: Callable[[], None] = lambda: None,
    ) -> ActivationReport | None:
        """Decide, and see that to its end: the store and the next view begin alike, though the call be cancelled.
        `begin` runs first of what must not be parted. Where somebody is to act before, it is decided again after."""
        decide = partial(self.parts.viewer.change, key, budget, asked, focus=focus, wish=wish)
        announce = None if self._is_announcing else self.parts.announce
        if announce is not None:
            async with self.changing:
                begin()
                if self.look_ahead is not None:
                    await self.look_ahead()
                change = await self._decided(partial(decide, ahead=True))
            if change is not None:
                self._is_announcing = True
                try:
                    await announce(self._told_before(change))
                finally:
                    self._is_announcing = False
        try:
            self.changing.acquire_nowait()  # a plain view does not give way to other tasks
        except anyio.WouldBlock:
            await self.changing.acquire()
        try:
            begin()
            await self._wait_for_summaries(key, budget)
            if self.prepare is not None:
                await self.prepare()
            change = await self._decided(decide)
            return None if change is None else await finish_despite_cancellation(self._make(key, change, decide))
        finally:
            self.changing.release()

    async def _make(
        self, key: str, change: Change | None, decide: Callable[[], Change | None]
    ) -> ActivationReport | None:
        """Commit and show; decide again where a cancelled `set_messages` took effect in between."""
        viewer = self.parts.viewer
        while change is not None:
            if self.parts.announce is None:
                self.parts.tell("pre_compact", self._told_before(change))
            await self._commit(key, change)
            if viewer.apply(change):
                self.activations[change.report.reason] += 1
                shown = len(viewer.leading.costs()) + len(change.state.head) + len(change.tail.items)
                self.parts.tell(
                    "activation", {**change.report._asdict(), "messages": shown, **change.state.header_figures}
                )
                self._tell_memories(change)
                return change.report
            change = await self._decided(decide)
        return None

    async def _decided(self, decide: _Decide) -> Change | None:
        """What is decided, in slices, so that no decision keeps the event loop for long. Of a log that others change
        all the while it is decided in one go at last."""
        pace, timeline = self.parts.viewer.pace, self.parts.timeline
        log, changes = log_name(timeline), 0
        with pace.decision(), self.parts.foreground.call():
            while changes <= _MOST_CHANGES:
                try:
                    with pace.slice():
                        return decide()
                except Pause as pause:
                    await (asyncio.sleep(0) if pause.work is None else self.parts.apart(pause.work))
                if log_name(timeline) != log:
                    log, changes = log_name(timeline), changes + 1
            return decide()

    def _told_before(self, change: Change) -> dict[str, Any]:
        return {"messages": len(self.parts.timeline), "tokens": change.report.tokens_before}

    def _tell_memories(self, change: Change) -> None:
        """What the view includes now that is no part of the log."""
        for message in change.state.after:
            if is_memory_block(message) and message not in change.before.after:
                self.parts.tell("include", {"source": "memory", "content": f"{memories_in(message)} memories"})

    def _extend(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.parts.timeline.extend(entry)
        self._wake_for_segments()

    def _wake_for_segments(self) -> None:
        if len(self.parts.timeline.segments) != self._segments_seen and not self.closed:
            self._segments_seen = len(self.parts.timeline.segments)
            self.parts.worker.wake()

    async def _wait_for_summaries(self, key: str, budget: int) -> None:
        """Only where the settings ask for it, and only before an activation."""
        longest = self.parts.settings.max_wait
        if longest > 0:
            now, high = self.parts.viewer.tokens(key, budget)
            if now > high:
                await self.parts.worker.wait_idle(longest)

    async def _commit(self, key: str, change: Change) -> None:
        """Keep the state. A view is due in any case: where the store fails, it is shown from memory and told."""
        if self.parts.read_only:
            return
        try:
            with self.parts.foreground.call():
                await self.parts.store.save_activation(self.id, key, encode_state(change.state))
        except StoreError as error:
            self.last_error = str(error)
            logger.warning("an activation could not be kept; after a restart it is made again", exc_info=error)


def _asked_last(parts: Parts) -> tuple[str, int]:
    """The key and the budget of the last request: where that named a provider, also of one before this process."""
    latest, most = parts.viewer.latest, int(parts.settings.max_tokens)
    if latest is None or not latest.key:
        return "", most
    budget = latest.state.room + parts.viewer.leading.tokens
    return latest.key, min(budget, most) if parts.settings.max_tokens_is_set else budget
