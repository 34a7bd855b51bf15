"""The session behind a context: its log and the store kept in step, activations committed, a stored log loaded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol, cast

import anyio
import msgspec

from summarizing_context.concurrency import Clock, Foreground, finish_despite_cancellation, in_turns, running_loop
from summarizing_context.errors import (
    BudgetError,
    ContextClosedError,
    DamagedMessageError,
    SettingsError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    UndoError,
    WrongEventLoopError,
    briefly,
)
from summarizing_context.log.entries import Entry, Intake, decode_entry, load_rules, make_entry
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.pins import decode_pins, encode_pins
from summarizing_context.log.tree import Node, stand_ins
from summarizing_context.messages.shapes import Message, check_message
from summarizing_context.messages.tokens import TokenCounter
from summarizing_context.sessions.activations import (
    ActivationHistory,
    closings_of,
    last_to_undo,
    stored_form,
    usable_state,
)
from summarizing_context.sessions.announcements import Announce, Notify
from summarizing_context.sessions.statistics import BudgetReport, Statistics
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import (
    NewActivation,
    Place,
    SessionStore,
    StoredCheckpoint,
    StoredEntry,
    StoredProviderView,
    StoredRules,
)
from summarizing_context.summarizers.base import CallStatistics
from summarizing_context.views.budget import USEFUL_ROOM
from summarizing_context.views.builder import Viewer
from summarizing_context.views.sections import is_memory_block, memories_in
from summarizing_context.views.view import (
    ActivationRecord,
    ActivationReport,
    ActivationRequest,
    ActivationState,
    Change,
    Reason,
    Replaced,
    View,
    ViewMarks,
    encode_state,
)
from summarizing_context.worker.summary_cache import SummaryCache
from summarizing_context.worker.worker import Worker

logger = logging.getLogger(__name__)
_Decide = Callable[[], Change | None]
_acted_on: ContextVar[object | None] = ContextVar("announcement_acted_on", default=None)  # by a hook


class MemoryLearner(Protocol):
    """What a session asks of the background task that extracts memories."""

    dropped: int  # memories that a model proposed and the log did not bear out
    last_error: str | None

    def wake(self) -> None:
        """Go on reading, if there is anything to read."""

    def read_to_end(self) -> None:
        """Read the log up to its present end."""

    def opened(self, stop: int, updated_at: str) -> None:
        """The log held so many entries when it was opened, the last of that time."""

    def forget(self) -> None:
        """The log was replaced: nothing of it has been read."""

    async def settle(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to read; False after `timeout` seconds."""

    async def leave(self, within: float) -> None:
        """The session ends: read the rest, within so many seconds."""

    async def close(self) -> None:
        """End what is under way."""


@dataclass(kw_only=True, eq=False)
class Session:
    """A log and what is shown of it. All methods belong to the event loop in which it was opened."""

    settings: Settings
    log: MessageLog
    summaries: SummaryCache
    ledger: SessionLedger
    views: Viewer
    worker: Worker
    learner: MemoryLearner | None  # where memories are learnt
    store: SessionStore
    intake: Intake
    counter: TokenCounter
    in_thread: Callable[[Callable[[], object]], Awaitable[object]]  # runs what takes long
    foreground: Foreground
    clock: Clock
    notify: Notify  # an observer
    announce: Announce | None  # returns when the hooks have acted; None where there are none
    read_only: bool
    warns_of_room: bool = True  # once, that a budget leaves too little of it

    def __post_init__(self) -> None:
        self.id = self.settings.session_id
        self.views.only_looks = self.read_only
        self.changing = anyio.Lock()  # activations and replacements of the log, one at a time
        self.closed = False
        self.loop = running_loop()
        self.key, self.budget = "", int(self.settings.max_tokens)  # of the last request
        self.requested_at = self.clock.now()  # when the last view was asked for
        self.activations: Counter[str] = Counter()
        self.history = ActivationHistory()
        self.last_error: str | None = None
        self.replaced_by = 0  # messages of the log that was put in the place of another last
        self._kept_closings: set[int] = set()  # what the store knows of where views have ended segments
        self.worker.before_call = self._keep_closings
        self._segments_seen = 0
        self._waking: asyncio.Handle | None = None  # the call of `wake` that is due
        self._announcing = anyio.Lock()  # one request at a time
        self._announced: object | None = None  # what hooks act on now

    async def load(self) -> None:
        """Bring back the log, the summaries and the activation states of the session."""
        if not self.read_only:
            await self.store.claim(self.id, project=self.settings.project)
        stored = await self.store.load(self.id)
        if stored is None:
            raise StoreError(
                f"{self.store.name} holds no session {self.id!r}; `summarizing-context sessions` lists them"
            )
        self.log.closings = closings_of(data for _, data in stored.activations)
        self._kept_closings = set(self.log.closings)
        entries, unread = await self.decoded(stored.entries), list[tuple[int, StoredRules]]()
        for at, rules in load_rules(entries, stored.rules, self.log.verdicts):
            unread += ((at, row) for row in rules)
            await asyncio.sleep(0)
        async for entry in in_turns(entries):
            self.log.extend(entry)
        await self.keep_rules(unread)
        if self.learner is not None:
            self.learner.opened(len(self.log), stored.updated_at)
        self.log.version = stored.log_version
        self.log.take_pins(decode_pins(stored.pins))
        self.views.reopened = bool(stored.entries)
        self.log.loaded = len(self.log)
        for key, data in stored.activations:
            if (
                state := usable_state(self.log, data)
            ) is not None and state.serial:  # else it was kept for its closings
                self.log.take_interruptions(state.interruptions)
                self.views.restore(key, state)
                for hash in self.log.hashes[: state.leaves]:  # an earlier process has read what it covered
                    self.summaries.mark_read(hash)
        self.worker.failed, self.worker.last_error, self.worker.last_error_at = stored.failure
        self.history.load(await self.store.list_activations(self.id))
        await self.worker.recall()
        if (latest := self.views.latest) is not None and latest.provider:  # a provider asked, in an earlier process
            budget, most = latest.state.room + self.views.system_rows.tokens, self.budget
            self.key, self.budget = latest.provider, min(budget, most) if self.settings.max_tokens_is_set else budget
        self.requested_at = self.clock.now()
        self.worker.start_tokens = self._start_tokens()

    async def messages(self) -> list[Message]:
        """Every message of the log as it stands now, in order, as fresh copies; the event loop turns meanwhile."""
        return [entry.message() async for entry in in_turns(self.log.in_order())]

    async def decoded(self, stored: Sequence[StoredEntry]) -> list[Entry]:
        """Entries as the log holds them; the event loop turns meanwhile."""
        entries: list[Entry] = []
        async for entry in in_turns(stored):
            try:
                entries.append(decode_entry(entry.message, entry.facts, self.counter.count, self.counter.name))
            except StoreCorruptError as error:
                raise DamagedMessageError(self.id, len(entries), self.store.name) from error
        return entries

    async def keep_rules(self, rows: Sequence[tuple[int, StoredRules]]) -> None:
        """Keep what was read of messages, so that it need not be read again."""
        if rows:
            warning = "standing rules could not be kept; they are read again when it is opened"
            await self._keep(partial(self.store.save_rules, self.id, rows), warning)

    async def save_budget(self, budget: int) -> None:
        """Keep the budget of a request with the session, for those who look at the session later."""
        warning = "the budget of a session could not be kept with it"
        await self._keep(partial(self.store.save_budget, self.id, budget), warning)

    async def _save_state(self, key: str, state: bytes, made: NewActivation | None = None) -> None:
        """Keep a state. A view is due in any case: where the store fails, it is shown from memory."""
        warning = "an activation could not be kept; after a restart it is made again"
        await self._keep(partial(self.store.save_activation, self.id, key, state, made), warning)

    async def _keep_closings(self) -> None:
        """Keep where a view has ended a segment ahead of its activation, before a summary is paid for."""
        if not self.log.closings <= self._kept_closings:
            async with self.changing:
                if (latest := self.views.latest) is not None:
                    self._kept_closings = set(self.log.closings)
                    await self._save_state(latest.key, encode_state(latest.state.on(self.log)))

    async def _keep(self, save: Callable[[], Awaitable[None]], warning: str) -> None:
        if self.read_only:
            return
        try:
            with self.foreground.call():
                await save()
        except StoreError as error:
            if self.last_error != str(error):  # as with a session that was lost: once is enough
                logger.warning("%s: %s", warning, error)
            self.last_error = str(error)

    @property
    def is_idle(self) -> bool:
        """Whether the provider's prompt cache is taken for cold."""
        after = self.settings.idle_after
        return after is not None and self.clock.now() - self.requested_at > after

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
        if writes and self.read_only:
            raise StoreReadOnlyError("this context was opened with read_only=True; open it without to change the log")

    async def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end of the log, all of them or none."""
        if stored := [self.intake.stored(entry) for entry in entries if not entry.facts.ephemeral]:
            with self.foreground.call():
                await self.store.append(self.id, stored, self.changing_log(partial(self._extend, entries)))
        else:
            self.foreground.change(partial(self._extend, entries))
        await self.foreground.thawed()

    async def replace(self, log: list[Entry]) -> None:
        """Make `log` the whole log. Summaries whose range still matches are kept. A log of which anything would be lost
        is made a checkpoint first."""
        present = self.log
        async with self.changing:
            durable = [entry for entry in log if not entry.facts.ephemeral]
            keep = present.common_prefix(log)
            if keep == len(present) == len(durable) and not present.ephemeral and len(durable) == len(log):
                return
            pinned = present.pinned
            with self.foreground.call():
                await self._store_replacement(log, durable, await self.filled(log))
            if present.pinned != pinned:
                await self.store.save_pins(self.id, encode_pins(present.pinned), lambda: None)
            for one in self.views.provider_views:  # the store has forgotten all of them
                if one.state.stop > self.log.leading_count:
                    await self._save_state(one.key, one.encode(one.state))
            await self.worker.recall(everything=True)

    async def filled(self, log: Sequence[Entry], closings: set[int] | None = None) -> MessageLog | None:
        """Return a log of these entries beside the present one, worked out while the event loop turns; None where few
        of them are new: those are worked out when they are committed."""
        if len(log) - self.log.common_prefix(log) <= max(1_000, len(log) // 8):
            return None
        filled = self.log.beside(self.log.closings_within(log) if closings is None else closings)
        async for entry in in_turns(log):
            filled.extend(entry)
        return filled

    async def _store_replacement(
        self, log: Sequence[Entry], durable: Sequence[Entry], filled: MessageLog | None
    ) -> None:
        """Commit another log; where the present one holds what that does not, with a checkpoint of it."""
        store = self.store
        while True:
            keep = self.log.common_prefix(log)
            rest = await self.intake.all_stored(durable[keep:])
            committed = self.changing_log(partial(self.replaced, log, filled))
            if keep != self.log.common_prefix(log):  # added to meanwhile
                continue
            if keep == len(self.log):
                return await store.replace(self.id, keep, rest, committed)
            made = await store.checkpoints.replace(
                self.id, self.place, self.provider_views(), keep, rest, committed=committed
            )
            if made is not None:
                return None  # else a cancelled replacement of the log was still on its way

    def changing_log(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what a store calls once it has committed: it waits until no thread reads the session."""
        return partial(self.foreground.change, work)

    @property
    def place(self) -> Place:
        """Where the log stands now."""
        return Place(self.log.version, len(self.log))

    def provider_views(self) -> list[StoredProviderView]:
        """What each provider is shown, as checkpoints keep it."""
        return [
            StoredProviderView(one.key, one.encode(one.state), msgspec.json.encode(one.marks).decode())
            for one in self.views.provider_views
        ]

    def replaced(self, log: Sequence[Entry], filled: MessageLog | None, closings: set[int] | None = None) -> None:
        """A new log is committed: go on from it."""
        covered_histories = self.views.covered_histories()
        old = Replaced(list(self.log.entries), self.log.common_prefix(log))
        self.log.replace(log, filled, closings)
        self.replaced_by = len(self.log)
        self.ledger.keep(self.log.kept)
        self.summaries.reset()
        if self.learner is not None:
            self.learner.forget()
        self.views.replaced(old, covered_histories)
        self._segments_seen = -1  # as many segments as before may be other ones
        self._wake_for_segments()

    def go_back(self, log: Sequence[Entry], filled: MessageLog | None, there: StoredCheckpoint) -> None:
        """The store is back at a checkpoint: so are the log in memory, the pins and the views."""
        self.replaced(log, filled, closings_of(one.state for one in there.provider_views))
        self.log.take_pins(decode_pins(there.pins))
        self.views.reset()
        self.log.interruptions = []  # those of then come with the states
        for key, data, marks in there.provider_views:
            if (state := usable_state(self.log, data)) is not None:
                self.log.take_interruptions(state.interruptions)
                self.views.restore(key, state, msgspec.json.decode(marks, type=ViewMarks))
        self.worker.start_tokens = self._start_tokens()
        self.requested_at = self.clock.now()  # the view of then comes first, before any for a cold cache

    def wake(self) -> None:
        """Have the background look for work, from the size of the log on from which a view may soon show summaries."""
        self._waking = None
        if not self.foreground.is_frozen:
            self.worker.wake(self._start_tokens(), self.views.look_ahead())
        if self.learner is not None and not self.closed:
            self.learner.wake()

    def _start_tokens(self) -> float:
        """Tokens of the log beyond which its summaries are made."""
        if self.views.covers:
            return -1.0  # every log has more
        return self.settings.start_at * self.views.high_water(int(self.settings.max_tokens))

    def would_compact(self, memories: Sequence[str]) -> bool:
        """Whether the next view, for the provider of the last one, would activate."""
        if self.foreground.is_frozen:  # a thread decides about it
            used, high = self.views.tokens(self.key, self.budget, as_shown=True)
            return used > high
        return self.views.would_compact(self.key, self.budget, "idle" if self.is_idle else None, memories)

    async def view(self, key: str, budget: int, memories: Sequence[str], *, begin: Callable[[], None]) -> View:
        """The next view of a provider, activated where that is due. For the arguments see `activate`."""
        known = {one.key: one.state.interruptions for one in self.views.provider_views}
        idle: Reason | None = "idle" if self.is_idle else None
        report = await self.activate(key, budget, idle, memories, begin=begin, for_request=True)
        shown = self.views.shown(key, budget)
        if report is None and shown.state.serial and shown.state.interruptions != known.get(shown.key, ()):
            await self._save_state(shown.key, shown.encode(shown.state))  # a later process gives up the same calls
        self.key, self.budget, self.requested_at = key, budget, self.clock.now()
        fixed = self.views.system_rows.tokens
        if self.warns_of_room and 2 * fixed > budget and budget < fixed + USEFUL_ROOM:
            self.warns_of_room = False
            logger.warning(
                "a budget of %s tokens leaves %s, for system rows and tools take %s: views show little of the session; "
                "give at least %s, or fewer tools",
                *(f"{tokens:,}" for tokens in (budget, budget - fixed, fixed, fixed + USEFUL_ROOM)),
            )
        if self._waking is None:  # the view need not wait for it
            self._waking = self.loop.call_soon(self.wake)
        return self.views.view(key, budget, report, has_activated=bool(self.history.records))

    async def activate(
        self,
        key: str,
        budget: int,
        reason: Reason | None,
        memories: Sequence[str],
        *,
        focus: str | None = None,
        request: ActivationRequest | None = None,
        begin: Callable[[], None] = lambda: None,
        for_request: bool = False,
    ) -> ActivationReport | None:
        """Decide, and see that to its end: the store and the next view begin alike, though the call be cancelled.
        `memories` of earlier sessions are shown by an activation, the most relevant first.
        `begin` runs first of what must not be parted. After waiting for summaries or hooks it is decided again."""
        change_of = partial(self.views.change, focus=focus, request=request, memories=memories, for_request=for_request)
        decide = partial(change_of, key, budget, reason)
        takes_long = partial(self.views.takes_long, key, budget)
        until, began = anyio.current_time() + self.settings.max_wait, self.clock.now()
        acting = _acted_on.get()
        is_announced = self.announce is None or (acting is not None and acting is self._announced)  # a hook asks for it
        is_next = False  # it is the turn of this request to announce
        async with AsyncExitStack() as announcing:
            while True:
                try:
                    self.changing.acquire_nowait()  # a plain view does not yield to other tasks
                except anyio.WouldBlock:
                    await self.changing.acquire()
                try:
                    begin()
                    change = await self._decided(decide, takes_long())
                    if change is None:
                        return None
                    waits = self._await_summaries(change, until)
                    if not waits and is_announced:
                        return await finish_despite_cancellation(self._make(change, decide, began))
                finally:
                    self.changing.release()
                if waits:
                    await self.worker.wait_idle(until - anyio.current_time())
                    continue
                if not is_next:
                    is_behind, is_next = self._announcing.locked(), True
                    await announcing.enter_async_context(self._announcing)
                    if is_behind:  # another request has announced and activated: decide again
                        continue
                await self._announce(change)
                is_announced = True

    async def _announce(self, change: Change) -> None:
        """Have the hooks act before an activation. What they ask for meanwhile is announced by that, too."""
        assert self.announce is not None
        self._announced = object()
        token = _acted_on.set(self._announced)
        try:
            await self.announce({"messages": len(self.log), "tokens": change.report.tokens_before})
        finally:
            self._announced = None
            _acted_on.reset(token)

    async def _make(self, change: Change | None, decide: _Decide, began: float) -> ActivationReport | None:
        """Commit and show; decide again where a cancelled `set_messages` took effect in between."""
        while change is not None:
            if self.announce is None:
                self.notify("pre_compact", {"messages": len(self.log), "tokens": change.report.tokens_before})
            made = self.history.next(change, self.log, self.views)
            form = stored_form(made, change.provider_view.encode(change.before))
            await self._save_state(change.provider_view.key, change.provider_view.encode(change.state), form)
            if self._show(change, made, began):
                return change.report
            change = await self._decided(decide, True)
        return None

    def budget_report(self) -> BudgetReport:
        """How much of the budget the view takes as it stands."""
        used = min(self._used_tokens(), self.budget)
        return BudgetReport(self.budget, used, used / self.budget)

    def has_space(self, message: object) -> bool:
        """Whether the whole message fits beside what the view takes."""
        entry = make_entry(check_message(message), self.counter.count, self.counter.name)
        return self._used_tokens() + entry.cost(self.settings.image_tokens) <= self.budget

    async def make_space(self, tokens: int, memories: Sequence[str]) -> ActivationReport:
        """Activate unless so many tokens are free."""
        if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= self.budget:
            raise SettingsError(
                f"make_space was asked for {briefly(tokens)}; it is a number of tokens from 0 to {self.budget}"
            )
        now, report = self._used_tokens(), None
        if now + tokens > self.budget:
            report = await self.activate(self.key, self.budget, "explicit", memories)
        return report if report is not None else ActivationReport(False, "explicit", now, now, 0)

    def _used_tokens(self) -> int:
        """Tokens of the view if nothing more is covered."""
        try:
            return self.views.tokens(self.key, self.budget, as_shown=self.foreground.is_frozen)[0]
        except BudgetError as error:  # the system rows alone leave no room
            return error.required_tokens

    async def undo(self) -> ActivationReport:
        """Take back the last activation. Raises `UndoError`, and `StoreError`, and then nothing is changed."""
        async with self.changing:
            began = self.clock.now()
            shown = None if self.views.latest is None else self.views.latest.key
            own = [one for one in self.history.records if one.provider == shown]  # of the view that was shown last
            undone = last_to_undo(own or self.history.records, self.log.version)
            data = await self.store.state_before(self.id, undone.number)
            there = None if data is None else usable_state(self.log, data)
            if there is None:
                raise UndoError("the view of before is not kept any longer, or its log is cut otherwise by now")
            key, latest = undone.provider, self.views.latest
            if latest is not None and (latest.key, latest.provider) == (key, self.key):
                budget = self.budget
            else:
                state = next((one.state for one in self.views.provider_views if one.key == key), there)
                budget = state.room + self.views.system_rows.tokens
            change = await self._decided(partial(self.views.undo, key, there, budget), True)
            if change is None:
                raise UndoError("the view of before, with what was said since, does not fit; give a larger budget")
            made = self.history.next(change, self.log, self.views, undone.number)
            return await finish_despite_cancellation(self._undone(change, made, began))

    async def _undone(self, change: Change, made: ActivationRecord, began: float) -> ActivationReport:
        shown = change.provider_view
        form = stored_form(made, shown.encode(change.before))
        await self.store.save_activation(self.id, shown.key, shown.encode(change.state), form)
        if not self._show(change, made, began):
            raise UndoError("the log was replaced meanwhile; look at activations() again")
        if self.log.pinned.pins:
            self.views.refresh_pins()  # what was pinned since
        return change.report

    def _show(self, change: Change, made: ActivationRecord, began: float) -> bool:
        """An activation is committed: the next view shows it. False if the log was replaced in between."""
        views = self.views
        if not views.apply(change):
            return False
        self.worker.start_tokens = self._start_tokens()
        self.activations[change.report.reason] += 1
        if not self.read_only:
            self.history.add(made)
        shown = len(views.system_rows.rows) + len(change.state.head) + len(change.tail.items)
        figures = {"messages": shown, **change.state.header_figures, "duration": self.clock.now() - began}
        self.notify("activation", {**change.report._asdict(), **figures})
        for message in change.state.after:  # what the view includes now that is no part of the log
            if is_memory_block(message) and message not in change.before.after:
                self.notify("include", {"source": "memory", "content": f"{memories_in(message)} memories"})
        return True

    async def _decided(self, decide: _Decide, takes_long: bool) -> Change | None:
        """What is decided; in a thread if it takes long, and then nothing of the session changes meanwhile."""
        if not takes_long:
            with self.foreground.call():
                return decide()
        with self.foreground.frozen():
            return cast(Change | None, await self.in_thread(decide))

    def statistics(self, calls: CallStatistics, cost: float | None, search_error: str | None) -> Statistics:
        """The figures as they stand now, with those of the calls to a model and what they cost in dollars."""
        log, repairs = self.log, self.views.repairs
        missing = [at for at in range(len(log.segments)) if not self.summaries.is_ready(Node.leaf(at))]
        state = self.views.latest.state if self.views.latest is not None else ActivationState()
        return Statistics(
            messages=len(log) + len(log.ephemeral),
            history_tokens=log.history_tokens,
            segments=len(log.segments),
            summaries_ready=len(log.segments) - len(missing),
            summaries_pending=self.worker.pending,
            summaries_failed=self.worker.failed,
            activations=self.activations.total(),
            activations_by_reason=dict(self.activations),
            model_calls=calls.model_calls,
            model_input_tokens=calls.input_tokens,
            model_cached_tokens=calls.cached_tokens,
            model_output_tokens=calls.output_tokens,
            estimated_cost=cost,
            stand_ins=stand_ins(state.nodes),
            stand_ins_total=self.views.stand_ins_shown,
            refused_replies=calls.refused_replies,
            refused_input_tokens=calls.refused_input_tokens,
            refused_output_tokens=calls.refused_output_tokens,
            dropped_lines=calls.dropped_lines,
            memories_dropped=self.learner.dropped if self.learner else 0,
            repairs=dict(repairs.kinds),
            pins_left_out=state.pins_left_out,
            rules_left_out=state.rules_left_out,
            elided_tokens=repairs.left_out,
            max_passes=max((node.passes for node in state.nodes), default=0),
            breaker=calls.breaker,
            cap_reached=calls.cap_ends_in > 0,
            cap_ends_in=calls.cap_ends_in if 0 < calls.cap_ends_in < inf else None,
            lag_tokens=sum(log.segments[at].size // log.segments[at].parts for at in missing),
            least_useful_budget=self.views.system_rows.tokens + USEFUL_ROOM,
            token_counter=self.counter.name,
            store=self.store.name,
            last_error=calls.last_error
            or self.worker.last_error
            or search_error
            or self.last_error
            or (self.learner.last_error if self.learner else None),
            last_error_at=self.worker.last_error_at,
        )

    def _extend(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.log.extend(entry)
        self._wake_for_segments()

    def _wake_for_segments(self) -> None:
        if len(self.log.segments) != self._segments_seen and not self.closed:
            self._segments_seen = len(self.log.segments)
            self.wake()

    def _await_summaries(self, change: Change, until: float) -> bool:
        """Whether to wait for summaries in the place of the stand-ins that a change shows: they are being made."""
        if anyio.current_time() >= until or not stand_ins(change.state.nodes):
            return False
        self.views.request(change.state.stop, change.state.nodes, change.state.focus)
        self.wake()
        return not self.worker.is_idle
