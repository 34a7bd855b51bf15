"""Views of a session for each provider: what is shown now, and what changes in it.

In memory. What changes is decided in `planner`; committing a change is the session's work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import msgspec

from summarizing_context.errors import BudgetError
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import HeaderNode, HeaderPlace, Node, stand_ins
from summarizing_context.settings.values import Settings
from summarizing_context.views.activation import (
    ActivationPlan,
    ActivationReport,
    ActivationRequest,
    Reason,
    ViewRequest,
)
from summarizing_context.views.budget import LEAST_ROOM, Room, Shares
from summarizing_context.views.header import Style
from summarizing_context.views.planner import (
    NextView,
    Reshape,
    cuts_leaving,
    is_near,
    plan_activation,
    segment_to_close,
)
from summarizing_context.views.sections import SECTIONS, Section, Sources
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.system_prompt import SystemRows
from summarizing_context.views.tail import WHOLE_GROUPS, Tail, Whole, extend_tail, late_start
from summarizing_context.views.view import (
    ROOM_MARK,
    ActivationState,
    Change,
    CoveredHistory,
    ProviderView,
    RepairCounts,
    Replaced,
    View,
    ViewMarks,
    activated,
    common_prefix,
    covered_history_of,
    gone_back,
    kept_state,
    merged,
    priced,
    with_pins,
)
from summarizing_context.worker.summary_cache import Focus, SummaryCache

MAX_KEYS = 4  # views whose state is kept

_OTHER_ROOM = 1.5  # times the rooms of a view's state and latest request, from where on a request is shown another view

_AT_ONCE = 20_000  # tokens to be read, up to which a view is decided about at once: a thread starts later than that

_FAR_ROOM = 3.0  # times the room of a view's state, from where on so is one that came there by small steps


class Viewer:
    """Makes the views of one session. Plain functions: nothing here waits."""

    def __init__(
        self,
        log: MessageLog,
        summaries: SummaryCache,
        settings: Settings,
        price: Price,
        counter: str,
        *,
        ledger: SessionLedger | None = None,
        sections: Sequence[Section] = SECTIONS,
    ) -> None:
        self._log = log
        self._summaries = summaries
        self._settings = settings
        self._shares = Shares(settings.high_water, settings.low_water)
        self._price = price
        style = Style(price.count, settings.header_role, settings.strategy == "summarize")
        self._sources = Sources(log, summaries, ledger, settings, price, style)
        self._sections = sections
        self._counter = counter
        self.system_rows = SystemRows(log, price)
        self._provider_views: OrderedDict[str, ProviderView] = OrderedDict()
        self._dropped: set[str] = set()  # providers of which a view was dropped that may be asked for again
        self.repairs = RepairCounts()
        self.stand_ins_shown = 0
        self.latest: ProviderView | None = None
        self.only_looks = False  # what was shown last is looked at, in whatever room
        self.reopened = False  # an earlier process has shown views of this log

    @property
    def provider_views(self) -> list[ProviderView]:
        """What each provider is shown, the latest last."""
        return list(self._provider_views.values())

    @property
    def covers(self) -> bool:
        """Whether any view shows summaries in place of messages."""
        return any(one.state.stop > self._log.leading_count for one in self._provider_views.values())

    def refresh_pins(self) -> None:
        """What is pinned by calls has changed: the next view of each provider shows it, if that fits."""
        for provider_view in self._provider_views.values():
            provider_view.pins_changed = True

    def reset(self) -> None:
        """The log is another one: nothing of it has been shown by this viewer."""
        self._provider_views.clear()
        self._dropped.clear()
        self.latest, self.reopened = None, True
        self._keep_shown()

    def restore(self, key: str, state: ActivationState, marks: ViewMarks | None = None) -> None:
        """Take up a committed state; with `marks` that of a checkpoint, which is told with the next view."""
        state = priced(state, self._price, self._counter)
        tail = self._tail_behind(state)
        provider_view = ProviderView(key, state, tail, pending=None if marks is None else "restored")
        if state.held_at:
            provider_view.attempted_at, provider_view.attempted_length = self._log.tokens[state.held_at], state.held_at
        if marks is not None:
            provider_view.attempted_at, provider_view.attempted_length = marks.attempted_at, marks.attempted_length
            provider_view.resumed = marks.shown
        self._provider_views[key] = self.latest = provider_view
        self.stand_ins_shown += stand_ins(state.nodes)
        self._keep_shown()

    def undo(self, key: str, there: ActivationState, budget: int) -> Change | None:
        """The change that takes a provider's view back to an earlier state; None where that view would not fit now."""
        if (provider_view := self._provider_views.get(key)) is None:
            provider_view = self._kept(self._first_view(key, Room(there.room, self._shares)))
        there = priced(there, self._price, self._counter)
        state = gone_back(there, provider_view.state, self._log.bounds()).on(self._log)
        tail = self._tail_behind(state)
        above = self.system_rows.tokens + state.head_tokens
        extend_tail(self._log, tail, budget - above)
        before, after = self.tokens(key, budget)[0], above + tail.tokens
        if after > budget:
            return None
        report = ActivationReport(True, "restored", before, after, before - after)
        return Change(provider_view, provider_view.state, state, tail, (), report, self._log_size)

    def prefix_kept(self, change: Change) -> int:
        """Tokens with which the view handed out last and the changed one begin alike, tools included."""
        rows, last = self.system_rows, change.provider_view.last
        leading = rows.messages()
        head = [*leading, *change.state.head]
        kept = common_prefix(last, head)
        tokens = rows.tokens if kept >= len(leading) else 0
        tokens += sum(map(self._price.message, head[len(leading) : kept]))
        if kept == len(head):
            same = common_prefix(last[kept:], [item.message for item in change.tail.items])
            tokens += sum(item.tokens for item in change.tail.items[:same])
        return tokens

    def covered_histories(self) -> list[CoveredHistory]:
        """What the log tells of what each provider's view covers, before the log is replaced."""
        return [covered_history_of(provider_view.state, self._log) for provider_view in self._provider_views.values()]

    def replaced(self, old: Replaced, covered_histories: Sequence[CoveredHistory]) -> None:
        """The log was replaced: a provider whose view covers nothing that has changed goes on with it; the others start
        over, and their next view is an activation."""
        for provider_view, history in zip(self._provider_views.values(), covered_histories, strict=True):
            kept = kept_state(provider_view.state, history, old, self._log)
            state = kept or self._first_state(provider_view.state)
            tail = self._tail_behind(state)
            shown, provider_view.state, provider_view.tail = provider_view.tail, state, tail
            if kept is None:
                provider_view.pending, provider_view.pins_changed = "log_replaced", bool(self._log.pinned.texts)
                provider_view.attempted_at, provider_view.counted = None, 0
                continue
            provider_view.counted = sum(item.seq < old.same for item in shown.items[: provider_view.counted])
            if provider_view.attempted_at is not None:
                tokens, length = self._log_size
                provider_view.attempted_at = min(provider_view.attempted_at, tokens)
                provider_view.attempted_length = min(provider_view.attempted_length, length)
        self._keep_shown()

    def change(
        self,
        key: str,
        budget: int,
        reason: Reason | None = None,
        *,
        focus: str | None = None,
        request: ActivationRequest | None = None,
        memories: Sequence[str] = (),
        for_request: bool = False,
    ) -> Change | None:
        """Bring a provider's tail up to date and decide whether its next view activates.

        `reason` says why to activate although there is no need: `explicit`, `idle`, `provider_changed`. With a `focus`
        its header gets a note about that topic; a `request` says what else is asked for. `memories` are what it shows
        of earlier sessions, the most relevant first. Where the view is `for_request`, calls that it cannot wait for are
        given up. Until a change is applied, the next decision is the same.
        Raises `BudgetError` when the system rows leave no room, or the newest open group does not fit.
        """
        room = Room(self._room_tokens(budget), self._shares)
        provider_view = self._provider_view(key, room)
        if staying := provider_view.state.staying:
            room = room.setting_aside(staying)

        # what has come about since the last view: another system prompt, calls given up, the end of a turn
        if provider_view.state.system != self.system_rows.name:
            if provider_view.last or provider_view.state.serial:
                provider_view.pending = provider_view.pending or "system_changed"
                reason = "system_changed"
            else:
                provider_view.state = msgspec.structs.replace(provider_view.state, system=self.system_rows.name)
        if for_request:
            self._log.interrupt()
        given_up = tuple(place for place in self._log.interruptions if place > provider_view.state.stop)
        if given_up != provider_view.state.interruptions:
            provider_view.state = msgspec.structs.replace(provider_view.state, interruptions=given_up)
        if provider_view.tail.bound and provider_view.has_turn_ended(self._log):
            provider_view.pending = provider_view.pending or provider_view.state.reason

        # decide
        self._summaries.begin()
        tail, skipped = self._fed(provider_view, room)
        if provider_view.tail.is_stale:
            provider_view.pending = provider_view.pending or "restored"
        asked = ViewRequest(reason, focus, request, tuple(memories))
        system, looks = self.system_rows.name, self.only_looks
        now = NextView(self._sources, self._sections, provider_view, tail, room, asked, system, skipped, looks)
        told = provider_view.pending or reason or ("budget_raised" if now.is_widened else None)
        if reason == "explicit" and told in ("budget_lowered", "budget_raised"):
            told = "explicit"  # what was asked for comes before what the room alone would do
        decision = plan_activation(now)
        is_attempt = decision.is_attempt
        if decision.change is None and skipped:  # it has to be looked at whole after all
            extend_tail(self._log, provider_view.tail)
            now = replace(now, tail=provider_view.tail, skipped=0, was_attempt=is_attempt)
            decision = plan_activation(now)
            is_attempt = is_attempt or decision.is_attempt

        # carry it out; at last, for what pauses before is decided again
        tokens = now.tokens + now.skipped
        if isinstance(decision.change, ActivationPlan):
            change = self._covered(provider_view, decision.change, told, tokens, room)
        elif decision.change is not None and tokens <= room.tokens:
            change = self._reshaped(provider_view, decision.change, tokens)
        else:
            if is_attempt:
                provider_view.attempted_at, provider_view.attempted_length = self._log_size
            if decision.pins_seen:
                provider_view.pins_changed = False
            if (refused := decision.to_summarize) is not None:
                self.request(refused.cut.stop, refused.header.nodes, None)
            if tokens > room.tokens:
                rows = [(item.seq, item.tokens) for item in provider_view.tail.items[-5:]]
                raise BudgetError(self.system_rows.tokens + tokens, budget, rows, "newest messages")
            return None
        return change._replace(attempted=self._log_size) if is_attempt else change

    @property
    def _log_size(self) -> tuple[int, int]:
        """Tokens and messages of the present log."""
        return self._log.history_tokens, len(self._log)

    def _covered(
        self, provider_view: ProviderView, plan: ActivationPlan, reason: Reason | None, tokens: int, room: Room
    ) -> Change:
        """The change to a view of `tokens` tokens that covers what is planned."""
        before = provider_view.state
        if plan.header.message is None and not self._sources.truncates:  # no room to say what is covered: read it still
            covered = range(before.leaves, plan.cut.leaves)
            for leaf in covered:
                self._summaries.text_of(Node.leaf(leaf))
        if reason is None:
            was = self._room_of(provider_view.beside or before)
            reason = "budget_lowered" if room.tokens < was.tokens and tokens <= was.high else "high_water"
        system = self.system_rows.tokens
        sizes = system + tokens, system + plan.tokens, tokens - plan.tokens
        report = ActivationReport(True, reason, *sizes, *plan.word_for_word)
        state = activated(before, plan, reason, self._counter, self.system_rows.name).on(self._log)
        return Change(provider_view, before, state, plan.tail, (*plan.pins.before, *plan.pins.after), report)

    def _reshaped(self, provider_view: ProviderView, shape: Reshape, tokens: int) -> Change:
        """The change to a view that begins differently, and covers nothing more."""
        before, pins = provider_view.state, shape.pins
        state = before if pins is None else with_pins(before, pins)
        if (block := shape.memories) is not None:
            state = msgspec.structs.replace(
                state,
                after=(*state.after, block.message),
                head_tokens=state.head_tokens + block.tokens,
                pin_tokens=state.pin_tokens + block.tokens,
            )
        bounds = self._log.bounds() if shape.rebinds else before.bounds
        tail = provider_view.tail
        if bounds != tail.bounds or tail.is_stale:  # shown anew within them
            was, room = tail, tail.room
            tail = Tail(was.start, room, self._price, bounds, since=was.since, whole=was.whole)
            extend_tail(self._log, tail)
        total, after = self.system_rows.tokens + tokens, self.system_rows.tokens + state.head_tokens + tail.tokens
        report = ActivationReport(True, shape.reason, total, after, total - after)
        state = msgspec.structs.replace(
            state, serial=before.serial + 1, reason=shape.reason, system=self.system_rows.name, bounds=bounds
        )
        return Change(provider_view, before, state, tail, () if pins is None else (*pins.before, *pins.after), report)

    def would_compact(self, key: str, budget: int, reason: Reason | None = None, memories: Sequence[str] = ()) -> bool:
        """Whether the next view would activate, for whatever reason. Changes nothing.

        Raises `BudgetError` as `change` does.
        """
        provider_views = self._provider_views
        self._provider_views = OrderedDict((name, replace(one)) for name, one in provider_views.items())
        try:
            return self.change(key, budget, reason, memories=memories) is not None
        finally:
            self._provider_views = provider_views

    def apply(self, change: Change) -> bool:
        """An activation is committed: show what it decided. False if the log was replaced in between."""
        provider_view = change.provider_view
        if provider_view.state is not change.before:
            return False
        old, new = provider_view.tail, change.tail
        uncounted = len(old.items) - provider_view.counted
        same = (old.room, old.next) == (new.room, new.next) and new.since in (WHOLE_GROUPS, old.since)
        provider_view.counted = max(0, len(new.items) - uncounted) if same else 0
        self.repairs.note([pin for pin in change.pins if pin.message not in provider_view.state.head])
        self.repairs.note_changed(old.items, new.items[: provider_view.counted])
        provider_view.state, provider_view.tail, provider_view.pending = change.state, change.tail, None
        self._log.close_segment(change.state.stop)
        self.latest = provider_view
        provider_view.pins_changed = False
        self.stand_ins_shown += stand_ins(change.state.nodes, but=change.before.nodes)
        if change.attempted is not None:
            provider_view.attempted_at, provider_view.attempted_length = change.attempted
        self._keep_shown()
        return True

    def takes_long(self, key: str, budget: int) -> bool:
        """Whether to decide about the next view in a thread: much of it is new, or has no summary yet."""
        log, provider_view = self._log, self._view_for(key, Room(self._room_tokens(budget), self._shares))
        next_entry, leaves = (0, 0) if provider_view is None else (provider_view.tail.next, provider_view.state.leaves)
        unread = log.tokens[-1] - log.tokens[next_entry]
        for leaf in range(len(log.segments) - 1, leaves - 1, -1):
            if unread > _AT_ONCE:
                break
            if not self._summaries.is_ready(Node.leaf(leaf)):
                unread += log.segments[leaf].size // log.segments[leaf].parts
        return unread > _AT_ONCE

    def view(self, key: str, budget: int, activation: ActivationReport | None, *, has_activated: bool) -> View:
        """The view as `change` has left it: what came since then is for the next one."""
        self.latest = provider_view = self.shown(key, budget)
        self._provider_views.move_to_end(provider_view.key)
        stable = provider_view.show(self.system_rows.messages(), self.repairs)
        messages = provider_view.last
        tokens = self.system_rows.log_rows().tokens + provider_view.state.head_tokens + provider_view.tail.tokens
        if self._settings.merge_user_rows:
            messages = merged(messages)
            stable = common_prefix(provider_view.merged, messages)
            provider_view.merged = messages
            tokens += self._price.of_merging(provider_view.last, messages)
        is_rewritten = has_activated or bool(self.repairs.kinds)
        return View(messages, tokens, stable, activation, self.system_rows.fixed_tokens, is_rewritten)

    def shown(self, key: str, budget: int) -> ProviderView:
        """What a provider is shown at about this budget."""
        room = Room(self._room_tokens(budget), self._shares)
        provider_view = self._provider_view(key, room)
        provider_view.asked_room = room.tokens
        return provider_view

    def tokens(self, key: str, budget: int, *, as_shown: bool = False) -> tuple[int, float]:
        """What the whole view costs, and its high water; without what is new where it is told `as_shown`."""
        room = Room(self._room_tokens(budget), self._shares)
        provider_view = self._view_for(key, room) or self._new_view(key, room)
        room = room.setting_aside(provider_view.state.staying)
        tail, skipped = (provider_view.tail, 0) if as_shown else self._fed(provider_view, room)
        system = self.system_rows.tokens
        return system + provider_view.state.head_tokens + tail.tokens + skipped, system + room.high

    def raw_messages(self, key: str, budget: int, request: ActivationRequest | None) -> int:
        """How many messages of a provider's view stay raw because they were to stay so; 0 where more could be covered
        for a request, at a price."""
        provider_view = self._view_for(key, Room(self._room_tokens(budget), self._shares))
        if provider_view is None:
            return 0
        least = 1 if request is None else request.keep_messages
        tail, present = provider_view.tail, provider_view.state.cut
        is_met = least is not None and not (request and cuts_leaving(tail, present, self._log.segments, least))
        return len(tail.items) if is_met else 0

    def high_water(self, max_tokens: int) -> float:
        """Tokens at which the newest view would activate; before the first view, for a budget of `max_tokens`."""
        if self.latest is None:
            return Room(max(0, max_tokens - self.system_rows.tokens), self._shares).high
        return self._room_of(self.latest.state).high

    def look_ahead(self) -> bool:
        """Close the open segment where the next activation of the newest view will want it; whether that is near, or,
        where messages are counted, may be at any time."""
        if (latest := self.latest) is None:
            return False
        room = self._room_of(latest.state)
        if not is_near(latest.state, latest.tail, room):
            return self._settings.max_messages is not None
        if (stop := segment_to_close(self._sources, latest.state, latest.tail, room)) is not None:
            self._log.close_segment(stop)
        return True

    def request(self, stop: int, nodes: Sequence[HeaderNode], focus: Focus | None) -> None:
        """Have a model summarize what a view that covers the log up to `stop` would show."""
        self._log.close_segment(stop)
        self._summaries.request(nodes, focus)

    def _room_of(self, state: ActivationState) -> Room:
        return Room(state.room, self._shares).setting_aside(state.staying)

    def _room_tokens(self, budget: int) -> int:
        room = budget - self.system_rows.tokens
        if room < LEAST_ROOM:
            rows = self.system_rows
            raise BudgetError(rows.tokens + LEAST_ROOM, budget, rows.costs(), rows.what)
        return room

    def _provider_view(self, key: str, room: Room) -> ProviderView:
        """What a provider is shown in about this room."""
        return self._view_for(key, room) or self._kept(self._new_view(key, room))

    def _view_for(self, key: str, room: Room) -> ProviderView | None:
        """Of the views of a provider that whose room is nearest to this one; None where each is far from it. A view
        follows a budget that moves by small steps, as one does that is learnt from what a provider counts."""

        def ratio(other: int) -> float:
            return max(other, room.tokens) / max(1, min(other, room.tokens))

        def distance(one: ProviderView) -> float:
            return min(ratio(one.state.room), ratio(one.asked_room or one.state.room))

        nearest = min(self._views_of(key), key=distance, default=None)
        if nearest is None or self.only_looks:
            return nearest
        return nearest if distance(nearest) < _OTHER_ROOM and ratio(nearest.state.room) < _FAR_ROOM else None

    def _views_of(self, key: str) -> list[ProviderView]:
        """The views of a provider, the latest first."""
        return [one for one in reversed(self._provider_views.values()) if one.provider == key]

    def _kept(self, provider_view: ProviderView) -> ProviderView:
        self._provider_views[provider_view.key] = provider_view
        while len(self._provider_views) > MAX_KEYS:
            self._dropped.add(self._provider_views.popitem(last=False)[1].provider)
        self._keep_shown()
        return provider_view

    def _new_view(self, key: str, room: Room) -> ProviderView:
        """A view for a room in which the provider was shown none. One in a smaller room goes on from what the latest
        shows; one in a larger room starts with the whole log."""
        latest = next(iter(self._views_of(key)), None)
        if latest is None:
            return self._first_view(key, room)
        names = (f"{key}{ROOM_MARK}{tokens}" for tokens in count(room.tokens))
        name = next(name for name in names if name not in self._provider_views)
        made, was = self._first_view(name, room), latest.state
        if room.tokens < was.room:
            staying = room.setting_aside(was.staying).staying
            made.state = msgspec.structs.replace(was, room=room.tokens, staying=staying, whole=Whole())
        else:
            made.state = msgspec.structs.replace(made.state, focus=was.focus, keep_from=was.keep_from)
        made.tail = self._tail_behind(made.state)
        made.beside, made.pending = was, None
        if latest.pending or not latest.is_plain or key in self._dropped:
            made.pending = "budget_lowered" if room.tokens < was.room else "budget_raised"
        return made

    def _first_view(self, key: str, room: Room) -> ProviderView:
        """A view that starts with the whole log. It is told if others were shown."""
        state = self._first_state(ActivationState(room=room.tokens), self.system_rows.name)
        pending: Reason | None = "provider_changed" if self._provider_views else "restored" if self.reopened else None
        tail = self._tail_behind(state)
        return ProviderView(key, state, tail, pending=pending, pins_changed=bool(self._log.pinned.texts))

    def _keep_shown(self) -> None:
        """Tell what has to be made because views show it."""
        states = [provider_view.state for provider_view in self._provider_views.values()]
        places = []
        for state in states:
            merges = tuple(node for node, _ in state.tree_nodes if node.width > 1)
            start = merges[-1].stop if merges else next((node.start for node, _ in state.tree_nodes), 0)
            places.append(HeaderPlace(merges, start, self._room_of(state).header_target))
        room = max((state.room for state in states), default=0)
        self._summaries.keep(places, [state.focus for state in states], room)

    def _fed(self, provider_view: ProviderView, room: Room) -> tuple[Tail, int]:
        """The tail with what is new. A backlog far larger than the room is not shown first only to be covered then:
        another tail, which starts late in it, stands in, and the tokens before it are told."""
        tokens = self._log.tokens
        if provider_view.state.stop < self._log.leading_count:  # leading rows came after an empty view
            provider_view.state = msgspec.structs.replace(provider_view.state, stop=self._log.leading_count)
            if provider_view.tail.items:  # ephemeral messages, which the new rows come before
                provider_view.pending = provider_view.pending or "system_changed"
            provider_view.tail = self._tail_behind(provider_view.state)
        tail, late, skipped = provider_view.tail, None, 0
        backlog = tokens[-1] - tokens[tail.next]
        if backlog > 3 * room.tokens and (start := late_start(self._log, tail.next, room)) > tail.next:
            late = Tail(start, room, self._price, tail.bounds)
            skipped = tail.tokens + tokens[start] - tokens[tail.next]
        extend_tail(self._log, late or tail)
        return late or tail, skipped

    def _first_state(self, before: ActivationState, system: str = "") -> ActivationState:
        """The state of a view that shows the whole log, in the room of the state before."""
        serial, stop, counter = before.serial, self._log.leading_count, self._counter
        return ActivationState(serial=serial, room=before.room, stop=stop, counter=counter, system=system)

    def _tail_behind(self, state: ActivationState) -> Tail:
        """The tail behind a state, which shows nothing yet."""
        room = Room(state.room, self._shares, state.squeeze, state.staying, cap=state.cap)
        is_plain = state.stop == self._log.leading_count and state.whole == Whole()
        whole = Whole(tokens=int(room.high)) if is_plain else state.whole
        return Tail(state.stop, room, self._price, state.bounds, since=state.since, whole=whole)
