"""The session behind a context: its log and the store kept in step, activations committed, checkpoints and pins,
a stored log loaded; and what it tells an observer.

The cache ledger tells what requests took from the provider's prompt cache, and what a plain client's would have taken.
Such a client sends its whole history each time, with the same cache, until the window is full. What a provider did not
tell is estimated: by how much of the beginning stayed, and by the clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import anyio
import msgspec

from summarizing_context import errors
from summarizing_context.concurrency import Events, finish_despite_cancellation, in_turns, running_loop
from summarizing_context.errors import MessageError, SettingsError, StoreError, UndoError, briefly
from summarizing_context.log.entries import Entry, Intake, Recalled
from summarizing_context.log.message_log import MessageLog, PinList
from summarizing_context.messages.reading import canonical_json, check_message, listed
from summarizing_context.messages.text import GONE, shown
from summarizing_context.models import UNKNOWN_CACHE, ModelTable, ProviderWindow
from summarizing_context.stores import base
from summarizing_context.views import view as states
from summarizing_context.views.builder import View, Viewer, common_prefix
from summarizing_context.views.header import memories_in
from summarizing_context.worker.summary_cache import stand_ins
from summarizing_context.worker.worker import Worker


class Took(NamedTuple):
    """Tokens of one request."""

    input: int = 0  # neither read from the cache nor written to it
    read: int = 0
    written: int = 0
    written_long: int = 0  # for longer than usual
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.read + self.written + self.written_long


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Tokens of requests, and US dollars; None where a model's price is not known. Calls for summaries are left out."""

    requests: int = 0
    reported: int = 0  # requests of which the provider has told; the others are estimated
    input_tokens: int = 0  # neither read from the cache nor written to it
    read_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    expiries: int = 0  # times that the cache no longer held a beginning that had stayed the same
    expired_tokens: int = 0
    cost: float | None = 0.0
    plain_requests: int = 0  # those that a plain client could have sent too, before its window was full
    plain_input_tokens: int = 0
    plain_read_tokens: int = 0
    plain_written_tokens: int = 0
    plain_cost: float | None = 0.0
    compared_cost: float | None = 0.0  # the part of `cost` for these requests


class Sent(msgspec.Struct, frozen=True):
    """A request as it was made, in tokens as they are counted here."""

    window: ProviderWindow
    messages: int
    at: float
    lifetime: float  # seconds that the cache lives, as the request asks
    tokens: int
    whole: int  # of what a plain client would have sent
    kept: int  # of the beginning, from the request before
    plain_kept: int  # by the clock too
    is_warm: bool  # by the clock


class CacheLedger:
    """Counts the requests of a session. The table of models is looked at when figures are asked for."""

    def __init__(self, session: Session, models: ModelTable) -> None:
        self._session, self._models = session, models
        self._last: dict[str, Sent] = {}  # by the key of the view
        self._newest: Sent | None = None  # until the provider has told of it
        self._waiting: list[tuple[Sent, Took | None]] = []  # still to be counted
        self._counted = CacheFigures()
        self._is_cached = False  # a provider has told of its cache

    def send(self, view: View, window: ProviderWindow) -> None:
        """Note a view of the session that goes out, the newest."""
        session, at = self._session, self._session.requested_at
        fixed, kept, plain_kept, is_warm = view.fixed_tokens, 0, 0, False
        tokens, whole = view.tokens + fixed, session.log.history_tokens + fixed
        assert session.views.latest is not None
        mine = f"{session.views.latest.key} {fixed}"  # tools and system prompt stand in front
        plain = f"plain {window.model} {fixed}"
        if (last := self._last.pop(mine, None)) is not None:
            kept = last.tokens * min(view.stable_prefix_messages, last.messages) // max(1, last.messages)
            if view.activation is not None and (stayed := session.views.records[-1].prefix_kept) is not None:
                kept = stayed + fixed
            kept = min(tokens, kept)
            is_warm = at - last.at <= last.lifetime
        if (last := self._last.pop(plain, None)) is not None and at - last.at <= last.lifetime:
            plain_kept = min(last.whole, whole)
        asked = window, len(view.shared), at, session.cache_lifetime
        sent = self._last[mine] = self._last[plain] = Sent(*asked, tokens, whole, kept, plain_kept, is_warm)
        while len(self._last) > 16:  # a session keeps fewer views than that
            del self._last[next(iter(self._last))]
        if self._newest is not None:
            self._waiting.append((self._newest, None))
        self._newest = sent

    def tell(self, took: Took) -> None:
        """Note what the provider has told of the view that went out last; where it took nothing, it had failed."""
        if self._newest is not None and took.total:
            self._waiting.append((self._newest, took))
        self._newest = None

    def figures(self) -> CacheFigures:
        """Return the figures as they stand now; of a request without a reply yet, what it is taken to take."""
        while self._waiting:
            self._counted = self._with(*self._waiting.pop(0))
        return self._counted if self._newest is None else self._with(self._newest, None)

    def _with(self, sent: Sent, told: Took | None) -> CacheFigures:
        """Return the figures with one more request."""
        model, price = sent.window.model, self._models.price_of(sent.window.model)
        cache = self._models.cache_of(model)

        def estimate(total: int, kept: int) -> Took:  # of whose beginning so much is in the cache
            read = kept if kept >= cache.min_tokens else 0
            rest = total - read
            if price is None or price.cache_write is None or total < cache.min_tokens:  # the rest is plain input
                return Took(rest, read)
            return Took(0, read, 0, rest) if sent.lifetime > cache.seconds() else Took(0, read, rest)

        def spent(whose: str, took: Took) -> dict[str, float | None]:  # added to the figures whose names begin so
            cost, written = None, {"written": took.written, "written_long": took.written_long}
            if price is not None:
                cost = price.at(took.total).cost(took.total, took.output, took.read, **written)
            tokens = took.input, took.read, took.written + took.written_long
            names = ("requests", "input_tokens", "read_tokens", "written_tokens", "cost")
            return {f"{whose}{name}": value for name, value in zip(names, (1, *tokens, cost), strict=True)}

        took = told or estimate(sent.tokens, sent.kept if sent.is_warm else 0)
        scale = took.total / max(1, sent.tokens) if told is not None else 1.0
        was_cached = self._is_cached or told is None
        self._is_cached |= told is not None and took.total > took.input

        # a beginning that stayed, and is paid for again
        kept = int(sent.kept * scale) if was_cached and sent.kept * scale >= cache.min_tokens else 0
        expired = kept > 0 and took.read < kept / 2 and (told is not None or not sent.is_warm)
        more = {"reported": int(told is not None), "output_tokens": took.output, **spent("", took)}
        more |= {"expiries": int(expired), "expired_tokens": kept - took.read if expired else 0}

        # what a plain client takes
        whole = int(sent.whole * scale)
        window = sent.window.window or (self._models.window_of(model) if model else None)
        has_room = self._counted.plain_requests == self._counted.requests  # so far
        if has_room and (window is None or whole <= window):
            is_cached = self._is_cached or told is None
            plain = estimate(whole, int(sent.plain_kept * scale)) if is_cached else Took(whole)
            more |= {**spent("plain_", plain._replace(output=took.output)), "compared_cost": more["cost"]}
        for name, value in more.items():
            before = getattr(self._counted, name)
            more[name] = None if before is None or value is None else before + value
        return replace(self._counted, **more)  # type: ignore[arg-type]


logger = logging.getLogger("summarizing_context")  # one name for all sessions, as the documents give it

_acted_on: ContextVar[object | None] = ContextVar("announcement_acted_on", default=None)  # by a hook

_LINES = {  # of the log, by event
    "activation": "activation ({reason}) in {duration:.3f} s: {tokens_before} tokens to {tokens_after}, "
    "{messages} messages, {header_blocks} summaries, {stand_ins} stand-ins",
    "summary_failed": "summary {range_hash:.8} of rank {rank} failed after {duration:.3f} s: {error}",
    "summary_ready": "summary {range_hash:.8} of rank {rank} by {by} in {duration:.3f} s",
}


def make_notify(events: Events | None, session_id: str) -> Callable[[str, dict[str, Any]], None]:
    """Return what logs an event and hands it to the observer. A fault of the observer costs only the event."""

    def notify(name: str, data: dict[str, Any]) -> None:
        if line := _LINES.get(name):
            if name == "summary_ready" and data["made_by"] == "model":
                line += ", {input_tokens} tokens in, {output_tokens} out"
            logger.info("%s: %s", session_id, line.format(**data, by=data.get("model") or data.get("made_by")))
        if events is not None:
            try:
                events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    return notify


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Tokens of the budget that the last request had, and how many of them the view takes as it stands.

    A log that has outgrown the budget takes all of it, until the next view compacts.
    """

    max_tokens: int
    used_tokens: int
    percent_used: float  # from 0 to 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, and tokens where the name says so; since the session was opened, unless a line says `present`.

    Tokens of a model are those of calls that got a reply, also one that was refused: as the provider reported them,
    else estimated. A call that failed counts as a call, also for the caps on calls, and costs no tokens.
    """

    messages: int  # in the present log
    history_tokens: int  # of the present log
    segments: int  # closed ones of the present log
    summaries_ready: int  # present segments with a summary of their own
    summaries_pending: int  # at present: still to be made
    summaries_failed: int  # times that one was given up, to be tried again later; by earlier processes too
    activations: int
    activations_by_reason: Mapping[str, int]
    model_calls: int  # attempts sent to a summarizer that is not extractive, those that failed too
    model_input_tokens: int
    model_cached_tokens: int  # of the input, what the provider read from its prompt cache
    model_output_tokens: int
    estimated_cost: float | None  # US dollars for these tokens; None where the model's price is not known
    cache: CacheFigures  # of the requests themselves
    stand_ins: int  # in the present header
    stand_ins_total: int  # that views have shown
    refused_replies: int  # that came and could not serve; most are asked for once more
    refused_input_tokens: int  # of the model's input, what calls for refused replies took
    refused_output_tokens: int  # of its output, what refused replies took
    dropped_lines: int  # and clauses, out of summaries, for they held literals that their source does not hold
    memories_dropped: int  # that a model proposed, for the message that they name does not say so
    repairs: Mapping[str, int]  # by kind
    pins_left_out: int  # pinned, critical and system messages that the present view has no room to show whole
    rules_left_out: int  # standing rules and pinned texts for which it has no room
    elided_tokens: int  # left out of shrunk messages
    max_passes: int  # summarizations that the oldest fact of the present header went through
    breaker: str  # at present: closed, open, half_open
    cap_reached: bool  # at present: no model is called
    cap_ends_in: float | None  # seconds until an hourly cap lets a call through; None for one of the session, or none
    lag_tokens: int  # in present segments without a summary of their own
    least_useful_budget: int  # what system rows and tools of the last request take, and 4,000 tokens
    token_counter: str  # its name
    store: str  # path of the file, or :memory:
    last_error: str | None  # of a call, else of the background work, else of an activation; without message text
    last_error_at: str | None = None  # when making summaries failed last, also in an earlier process; ISO 8601, UTC


class FollowReport(NamedTuple):
    """What `follow` found, in messages; a given system prompt counts as the first of them."""

    appended: int  # messages that stand behind those that were kept
    kept: int
    replaced_from: int | None  # the first message of the log that the host rewrote or took back; None where none was


@dataclass(eq=False)
class Session:
    """A log and what is shown of it. All methods belong to the event loop in which it was opened."""

    views: Viewer
    worker: Worker
    learner: Any  # the `MemoryExtractor` where memories are learnt, else None
    intake: Intake
    announce: Callable[[dict[str, Any]], Awaitable[None]] | None  # returns when hooks have acted

    def __post_init__(self) -> None:
        work = self.worker
        self.settings, self.log, self.summaries, self.ledger = work.settings, work.log, work.summaries, work.ledger
        self.store, self.clock, self.notify, self.read_only = work.store, work.clock, work.notify, work.read_only
        self.counter, self.in_thread = self.intake.counter, self.intake.in_thread  # which runs what takes long
        self.id = self.settings.session_id
        self.views.only_looks = self.read_only
        self.foreground = self.log.foreground
        # activations and replacements of the log, one at a time; a plain view does not yield to other tasks
        self.changing = asyncio.Lock()
        self.closed = False
        self.loop = running_loop()
        self.key, self.budget = "", int(self.settings.max_tokens)  # of the last request
        self.requested_at = self.clock.now()  # when the last view was asked for
        self.cache_lifetime = UNKNOWN_CACHE.seconds()  # of that request
        self.activations: Counter[str] = Counter()
        self.last_error: str | None = None
        self._appending = 0  # calls whose messages the store has not committed
        self._checkpoint_looked_for = 0  # messages when it was last looked whether one is due
        self._kept_closings: set[int] = set()  # what the store knows of where views have ended segments
        self.worker.before_call, self.worker.start_tokens = self._keep_closings, self._start_tokens
        self._segments_seen = 0
        self._following = anyio.Lock(fast_acquire=True)  # one history after the other
        self._followed: tuple[list[str], object] = [], None  # keys of the newest, and the log that held just that
        self._announcing = anyio.Lock()  # one request at a time; it is handed over at once to the next
        self._announced: object | None = None  # what hooks act on now

    async def load(self) -> None:
        """Bring back the log, the summaries and the activation states of the session."""
        log = self.log
        if not self.read_only:
            await self.store.claim(self.id, project=self.settings.project)
        stored = await self.store.load(self.id)
        if stored is None:
            raise StoreError(f"{self.store.name} holds no session {self.id!r}; see `summarizing-context sessions list`")
        closings, cuts = states.cuts_of(data for _, data in stored.activations)
        log.begin(closings, cuts if self.read_only and cuts else log.cuts)  # who only looks, sees it as it was cut
        self._kept_closings = set(log.closings)
        entries, derived = await self.in_thread(partial(self._decoded, stored.entries, base.WATCHED.get()))
        await self._keep_derived(derived)
        await self.in_thread(partial(log.fill, entries))
        if self.learner is not None:
            self.learner.before = len(log), stored.updated_at
        log.version, log.loaded = stored.log_version, len(log)
        self.views.reopened = bool(stored.entries)
        self.views.system_rows.brought = stored.fixed_tokens
        self._take_up(stored.pins, stored.activations)
        self.worker.failure = stored.failure
        self.views.load_records(stored.history)
        await self.worker.recall()
        if (latest := self.views.latest) is not None and latest.provider:  # a provider asked, in an earlier process
            budget, most = latest.state.room + self.views.system_rows.tokens, self.budget
            self.key, self.budget = latest.provider, min(budget, most) if self.settings.max_tokens_is_set else budget

    def _take_up(self, pins: str, activations: base.Activations, *, resumes: bool = False) -> None:
        """Show what is pinned, and each provider its view, as the store has kept them, or `resumes` a checkpoint."""
        log = self.log
        pinned = msgspec.json.decode(pins or "{}", type=PinList)
        log.pinned = pinned.held_by(log.entries) if log.entries else pinned  # texts, before the first message
        for key, data in activations:
            state = states.usable_state(log, data)
            if state is not None and (state.serial or resumes):  # else it was kept for its closings
                log.take_interruptions(state.interruptions)
                self.views.restore(key, state, resumes=resumes)
                self.summaries.seen.update(log.hashes[: state.leaves])  # it may be of an earlier process
        # the view of then comes first, before any for a cold cache
        self.requested_at, self._checkpoint_looked_for = self.clock.now(), len(log)

    def _decoded(
        self, stored: Sequence[base.StoredEntry], told: Callable[..., object]
    ) -> tuple[list[Entry], list[tuple[int, base.StoredEntry]]]:
        """Return entries as the log holds them, and what is known now that was not stored."""
        entries, derived = list[Entry](), list[tuple[int, base.StoredEntry]]()
        told("", 0, len(stored))
        for one in stored:
            if len(entries) % 500 == 499:
                told("", 500)
            try:
                entry, is_new = self.intake.decoded(one)
            except errors.StoreCorruptError as error:
                raise errors.DamagedMessageError(self.id, len(entries), self.store.name) from error
            if is_new and (kept := self.intake.stored(entry)) != one:
                derived.append((len(entries), kept))
            entries.append(entry)
        return entries, derived

    async def _keep_derived(self, derived: Sequence[tuple[int, base.StoredEntry]]) -> None:
        warning = "what was derived from messages could not be kept; it is derived again at the next opening"
        if derived:
            await self.keep(partial(self.store.save_facts, self.id, derived), warning)

    async def save_state(self, key: str, state: states.ActivationState, made: base.NewActivation | None = None) -> None:
        warning, data = "an activation could not be kept; after a restart it is made again", states.encode_state(state)
        await self.keep(partial(self.store.save_activation, self.id, key, data, made), warning)

    async def _keep_closings(self) -> None:
        """Keep where a view has ended a segment ahead of its activation, before a summary is paid for."""
        if not self.log.closings <= self._kept_closings:
            async with self.changing:
                if (latest := self.views.latest) is not None:
                    self._kept_closings = set(self.log.closings)
                    await self.save_state(latest.key, latest.state.on(self.log))

    async def keep(self, save: Callable[[], Awaitable[object]], warning: str) -> None:
        """Write what a call can do without: where the store fails, it is warned of."""
        if self.read_only:
            return
        try:
            with self.foreground:
                await save()
        except StoreError as error:
            if self.last_error != str(error):  # as with a session that was lost: once is enough
                logger.warning("%s: %s", warning, error)
            self.last_error = str(error)

    async def recall(self, recalled: Recalled) -> None:
        """Show a page behind the newest message, also when the session is opened again."""
        self.log.recall(recalled)
        rows = [(len(self.log) - 1, self.intake.stored(self.log.entries[-1]))]
        warning = "a page of the past could not be kept; views show it until the session is closed"
        await self.keep(partial(self.store.save_facts, self.id, rows), warning)

    @property
    def first_request(self) -> Entry | None:
        """The first message that a person wrote."""
        return self.log.entries[self.log.humans[0]] if self.log.humans else None

    def title(self) -> str | None:
        """Return the beginning of what a person wrote first; None where nothing is known of it."""
        first = self.first_request
        typed = "" if first is None else shown(" ".join(first.read(0).reading.typed).strip()[:1_000])
        if len(typed) <= 60:
            return typed or None
        end = typed.rfind(" ", 30, 60)  # none in a long address, or where words stand without gaps
        return typed[: end if end > 0 else 59] + GONE

    @property
    def idle(self) -> states.Reason | None:
        """The reason `idle` where the provider's prompt cache is taken for cold."""
        after = self.settings.idle_after or self.cache_lifetime
        return "idle" if after != "never" and self.clock.now() - self.requested_at > after else None

    def check(self, *, writes: bool = False) -> Session:
        """Return the session. Raise where it may not be used, here and now."""
        if self.closed:
            raise errors.ContextClosedError(f"the context of session {self.id!r} is closed; open it again")
        other = "this context was opened in another event loop; open one for each loop"
        with suppress(RuntimeError):  # of a plain function called outside of any loop
            if asyncio.get_running_loop() is not self.loop:
                raise errors.WrongEventLoopError(other)
        if writes and self.read_only:
            raise errors.StoreReadOnlyError("this context was opened with read_only=True; open it without, to write")
        return self

    async def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end of the log, all of them or none: to the store, and once that has committed them, in
        memory, also where this call was cancelled. Calls at the same time are added in their order."""
        stored = [self.intake.stored(entry) for entry in entries if not entry.facts.rare.ephemeral]
        fill = partial(self.foreground.change, partial(self.log.fill, entries))  # behind a thread that reads it
        with self.foreground:
            if stored or self._appending:
                self._appending += 1
                try:
                    await self.store.append(self.id, stored, fill)
                finally:
                    self._appending -= 1
            else:
                fill()
        await self.foreground.thawed()
        if len(self.log.segments) != self._segments_seen:
            self._segments_seen = len(self.log.segments)
            self.wake()
        await self.checkpoint_if_due()

    async def replace(self, log: list[Entry]) -> None:
        """Make `log` the whole log; the present one is made a checkpoint first if anything of it would be lost."""
        present, store = self.log, self.store
        async with self.changing:
            places = [place for place, entry in enumerate(log) if not entry.facts.rare.ephemeral]
            durable, keep = [log[place] for place in places], present.common_prefix(log)
            if keep == len(present) == len(durable) and present.messages == keep and len(durable) == len(log):
                return
            for at, before in enumerate(present.entries[keep : len(durable)], keep):
                # hosts change what they put around a person's words, such as reminders; then its page stays, where what
                # it cites stays
                if (page := before.recalled) is not None:
                    typed, then = (one.read(0).reading.typed for one in (durable[at], before))
                    stays = typed == then and max(page.cited, default=0) < keep
                    durable[at] = msgspec.structs.replace(durable[at], recalled=page if stays else None)
                    log[places[at]] = durable[at]
            pinned, filled = present.pinned, await self.in_thread(partial(present.beside(log).fill, log))

            async def commit() -> None:
                # once committed it waits until no thread reads the session
                keep, committed = -1, partial(self.foreground.change, partial(self._replaced, filled))
                while keep != present.common_prefix(log):  # again where it was added to meanwhile
                    keep = present.common_prefix(log)
                    rest = [self.intake.stored(entry) async for entry in in_turns(durable[keep:])]
                name = f"before the log was {'replaced' if keep or rest else 'cleared'}"
                now = None if keep == len(present) else self.present(name)
                await store.replace(self.id, keep, rest, committed, now)
                if present.pinned != pinned:
                    kept, lost = msgspec.json.encode(present.pinned).decode(), "what is pinned could not be kept"
                    await self.keep(partial(store.save_pins, self.id, kept, lambda: None), lost)
                covering = [one for one in self.views.provider_views.values() if one.state.stop > present.leading_count]
                for one in covering:  # the store has forgotten all of them
                    await self.save_state(one.key, one.state)
                self._kept_closings = set(self.log.closings) if covering else set()

            with self.foreground:
                await finish_despite_cancellation(commit())
            await self.worker.recall()

    async def follow(self, messages: object, keys: object, prompt: object) -> FollowReport:
        """Bring the log in step with a host that hands over its whole history each time.

        Raises `MessageError` and `SettingsError`; then nothing is changed."""
        # as they are now, both: a host may go on with its lists while this waits for its turn
        history, followed = listed(messages), None
        if keys is not None:
            if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
                raise SettingsError(f"keys is {briefly(keys)}; it is a list of strings, one for each message")
            followed = list(keys)
        if followed is not None and len(followed) != len(history):
            raise SettingsError(f"keys has {len(followed)} of them for {len(history)} messages; give one for each")
        for at, key in enumerate(followed or ()):
            if type(key) is not str:
                raise SettingsError(f"keys[{at}] is {briefly(key)}; a key is a string")
        if prompt is not None:
            leading = check_message({"role": "system", "content": prompt})
            history = [leading, *history]
            followed = None if followed is None else [canonical_json(leading), *followed]
        log = self.log
        async with self._following:
            name: object = None
            while name != log.name:  # again where another call has changed the log meanwhile
                name, kept = log.name, 0

                # how many messages from the first on the host has left as they are: by keys, else by content
                known = self._followed
                if followed is not None and known[1] == name:
                    kept = common_prefix(followed, known[0])
                else:
                    async for message, entry in in_turns(zip(history, log.in_order(), strict=False), 1_000):
                        if not _is_same(message, entry, kept):
                            break
                        kept += 1

                # what is new
                new = []
                async for message in in_turns(history[kept:]):
                    try:
                        new.append(await self.intake.one(message))
                    except MessageError as error:
                        raise MessageError(f"message {kept + len(new)}: {error}") from error

            self._followed = [], None
            lost = log.messages > kept
            if lost:
                await finish_despite_cancellation(self.replace([*log.in_order()[:kept], *new]))
            elif new:
                await finish_despite_cancellation(self.append(new))
            if followed is not None and log.messages == kept + len(new):
                self._followed = followed, log.name
        await self.checkpoint_if_due()
        return FollowReport(len(new), kept, kept if lost else None)

    def present(self, name: str | None) -> base.Present:
        """Return what a checkpoint of this name keeps beside the log: what each provider is shown."""
        marked, shown = msgspec.structs.replace, self.views.provider_views.values()
        kept = [(one.key, states.encode_state(marked(one.state, marks=one.marks))) for one in shown]
        return base.Present(self.log.version, len(self.log), name, kept)

    def _replaced(self, filled: MessageLog, *, is_back: bool = False) -> None:
        """Go on from a new log that is committed."""
        old, same = copy(self.log), self.log.common_prefix(filled.entries)
        self.ledger.keep(self.log.replace(filled, () if is_back else self.log.closings))
        self._checkpoint_looked_for = min(self._checkpoint_looked_for, len(self.log))
        self.summaries.reset()
        if self.learner is not None:
            self.learner.forget()
        self.views.replaced(old, same)
        self._segments_seen = len(self.log.segments)
        self.wake()

    def _go_back(self, filled: MessageLog, there: base.StoredCheckpoint) -> None:
        """Take the log in memory, the pins and the views back to a checkpoint, where the store is already."""
        self._replaced(filled, is_back=True)
        self.views.reset()
        self.log.interruptions = []  # those of then come with the states
        self._take_up(there.pins, there.activations, resumes=True)

    async def save_checkpoint(self, name: str | None = None) -> base.Checkpoint:
        is_text = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= 200
        if name is not None and (not is_text or base.CHECKPOINT_ID.fullmatch(name)):
            said = f"a checkpoint name is 1-200 printable characters, but no id, or None; not {briefly(name, 60)}"
            raise SettingsError(said)
        async with self.changing:
            made = await self.store.save_checkpoint(self.id, self.present(name))
            if self.learner is not None:
                self.learner.read_to_end()
            return made

    @property
    def checkpoint_is_due(self) -> bool:
        """Return whether a multiple of `checkpoint_interval_messages` was reached since the last one."""
        every, noted = self.settings.checkpoint_interval_messages, self._checkpoint_looked_for
        return every is not None and len(self.log) // every > noted // every

    async def checkpoint_if_due(self) -> None:
        """Make the automatic checkpoint. A message is in the log in any case: where the store fails, it is told."""
        if self.checkpoint_is_due and not self.changing.locked():  # else the next message will see to it
            self._checkpoint_looked_for = len(self.log)
            await self.keep(self.save_checkpoint, "an automatic checkpoint could not be kept")

    async def restore(self, id: str) -> base.Checkpoint:
        """Go back to a checkpoint, and return the one of the present that is made before."""
        async with self.changing:
            there = await self.store.load_checkpoint(self.id, id)
            entries, derived = await self.in_thread(partial(self._decoded, there.entries, base.WATCHED.get()))
            closings, _ = states.cuts_of(data for _, data in there.activations)
            filled = await self.in_thread(partial(self.log.beside(entries, closings).fill, entries))
            back = partial(self.foreground.change, partial(self._go_back, filled, there))
            now = self.present(f"before restoring {there.checkpoint.id}")
            made = await finish_despite_cancellation(self.store.restore(self.id, there.checkpoint.id, back, now))
            await self.worker.recall()
            await self._keep_derived(derived)
        return made

    async def keep_pins(self, changed: PinList) -> None:
        """Commit pins first, then show them: with the next view, whose prefix ends before the first that changes."""

        def committed() -> None:
            self.log.pinned = changed
            self.views.refresh_pins()

        if changed != self.log.pinned:
            kept = msgspec.json.encode(changed).decode()
            await self.store.save_pins(self.id, kept, partial(self.foreground.change, committed))

    def wake(self) -> None:
        """Have the background look for work, from the size of the log on from which a view may soon show summaries."""
        if not self.foreground.is_frozen:
            self.summaries.is_near = self.views.look_ahead()
            self.worker.wake()
        if self.learner is not None and not self.closed:
            self.learner.wake()

    def _start_tokens(self) -> float:
        """Return the tokens of the log beyond which its summaries are made; below 0 where views show some already."""
        return -1.0 if self.views.covers else self.settings.start_at * self.views.high_water()

    def would_compact(self, memories: Sequence[str]) -> bool:
        if self.foreground.is_frozen:  # a thread decides about it
            used, high = self.views.tokens(self.key, self.budget, as_shown=True)
            return used > high
        return self.views.would_compact(self.key, self.budget, states.ActivationRequest(self.idle, memories=memories))

    async def activate(
        self,
        key: str,
        budget: int,
        request: states.ActivationRequest,
        *,
        begin: Callable[[], None] = lambda: None,
    ) -> states.ActivationReport | None:
        """Plan and commit an activation; a cancellation is deferred until the commit ends.

        `begin` runs before each decision, in one step with it. After waiting for summaries or hooks it is decided
        again.
        """
        decide = partial(self.views.change, key, budget, request)
        until, began = self.loop.time() + self.settings.max_wait, self.clock.now()
        acting = _acted_on.get()
        is_announced = self.announce is None or (acting is not None and acting is self._announced)  # a hook asks for it
        is_next = False  # to announce: from when its turn has come
        try:
            while True:
                async with self.changing:
                    begin()
                    change = await self._decided(decide, self.views.takes_long(key, budget, request))
                    if change is None:
                        return None
                    waits = self.loop.time() < until and stand_ins(change.state.nodes) > 0
                    if waits:  # for summaries in the place of the stand-ins, where any is being made
                        self.views.request(change.state)
                        self.wake()
                        waits = not self.worker.is_idle
                    if not waits and is_announced:
                        return await finish_despite_cancellation(self._make(change, decide, began))
                if waits:
                    with anyio.move_on_after(until - self.loop.time()):
                        await self.worker.wait_idle()
                    continue
                if not is_next:
                    is_behind = self._announcing.locked()
                    await self._announcing.acquire()
                    is_next = True
                    if is_behind:  # another request has announced and activated: decide again
                        continue

                # have the hooks act; what they ask for meanwhile is announced by that, too
                assert self.announce is not None
                self._announced = object()
                token = _acted_on.set(self._announced)
                try:
                    await self.announce({"messages": len(self.log), "tokens": change.report.tokens_before})
                finally:
                    self._announced = None
                    _acted_on.reset(token)
                is_announced = True
        finally:
            if is_next:
                self._announcing.release()

    async def _make(
        self, change: states.Change | None, decide: Callable[[], states.Change | None], began: float
    ) -> states.ActivationReport | None:
        """Commit and show; decide again where the view has changed in between."""
        while change is not None:
            if self.announce is None:
                self.notify("pre_compact", {"messages": len(self.log), "tokens": change.report.tokens_before})
            made = self.views.record(change)
            form = made.stored(states.encode_state(change.before))
            await self.save_state(change.provider_view.key, change.state, form)
            if self._show(change, made, began):
                return change.report
            change = await self._decided(decide, True)
        return None

    def used_tokens(self) -> int:
        """Return the tokens of the view if nothing more is covered."""
        try:
            return self.views.tokens(self.key, self.budget, as_shown=self.foreground.is_frozen)[0]
        except errors.BudgetError as error:  # the system rows alone leave no room
            return error.required_tokens

    async def undo(self, *, only_looks: bool = False) -> states.ActivationRecord:
        """Take back the last activation and return the record of that; where it `only_looks`, change nothing.

        Raises `UndoError`, and `StoreError`, and then nothing is changed."""
        views = self.views
        async with self.changing:
            began = self.clock.now()
            latest = views.latest
            own = [one for one in views.records if latest is not None and one.provider == latest.key]
            undone = states.last_to_undo(own or views.records, self.log.version)
            data = await self.store.state_before(self.id, undone.number)
            there = None if data is None else states.usable_state(self.log, data)
            if there is None:
                raise UndoError("the previous view is no longer kept, or the log is cut differently now")
            key, budget = undone.provider, self.budget
            if latest is None or (latest.key, latest.provider) != (key, self.key):
                state = views.provider_views[key].state if key in views.provider_views else there
                budget = state.room + views.system_rows.tokens
            change = await self._decided(partial(views.undo, key, there, budget), True)
            if change is None:
                raise UndoError(
                    f"the previous view with the messages since does not fit in {budget:,} tokens; give a larger "
                    "budget (`undo SESSION --budget N`), and the program too"
                )
            made = views.record(change, undone.number)

            async def commit() -> None:
                form, state = made.stored(states.encode_state(change.before)), states.encode_state(change.state)
                await self.store.save_activation(self.id, change.provider_view.key, state, form)
                if not self._show(change, made, began):
                    raise UndoError("the view has changed meanwhile; look at activations() again")
                if self.log.pinned.pins:
                    views.refresh_pins()  # what was pinned since

            if not only_looks:
                await finish_despite_cancellation(commit())
            return made

    def _show(self, change: states.Change, made: states.ActivationRecord, began: float) -> bool:
        """An activation is committed: the next view shows it. False if the view has changed in between."""
        figures = self.views.apply(change, made)
        if figures is None:
            return False
        self.activations[change.report.reason] += 1
        duration = self.clock.now() - began
        self.notify("activation", {**change.report._asdict(), **figures, "duration": duration})
        for message in change.state.after:  # what the view includes now that is no part of the log
            if (held := memories_in(message)) and message not in change.before.after:
                self.notify("include", {"source": "memory", "content": f"{held} memories"})
        return True

    async def _decided(self, decide: Callable[[], states.Change | None], takes_long: bool) -> states.Change | None:
        """Decide; in a thread if it takes long, and then nothing of the session changes meanwhile."""
        if not takes_long:
            with self.foreground:
                return decide()
        with self.foreground.frozen():
            return cast(states.Change | None, await self.in_thread(decide))


def _is_same(message: object, entry: Entry, at: int) -> bool:
    """Return whether a host's message is what the log holds, but for what `_plain` leaves out.

    What is written alike is not checked again. Raises `MessageError`.
    """
    with suppress(TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):  # of what is checked now
        if type(message) is dict and msgspec.json.encode(message) == entry.data:
            return True
    try:
        checked = check_message(message)
    except MessageError as error:
        raise MessageError(f"message {at}: {error}") from error
    return canonical_json(_plain(checked)) == canonical_json(_plain(entry.message()))


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without cache marks, a single block of nothing but text written as a string."""

    def unmarked(value: dict[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in value.items() if name != "cache_control"}

    plain = unmarked(message)
    if isinstance(blocks := plain.get("content"), list):
        blocks = [unmarked(block) if isinstance(block, dict) else block for block in blocks]
        is_text = len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}
        plain["content"] = blocks[0]["text"] if is_text and blocks[0]["type"] == "text" else blocks
    return plain
