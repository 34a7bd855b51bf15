"""Views of a session for each provider: what leads them, what is shown now, and what changes in it.

In memory. What changes is decided in `planner`; committing a change is the session's work.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import msgspec

from summarizing_context.errors import BudgetError, MessageError, SettingsError
from summarizing_context.log.entries import Role, cut_at, output_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.messages.reading import Message, canonical_json, check_message, encodable
from summarizing_context.messages.tokens import Price
from summarizing_context.stores.base import StoredActivation
from summarizing_context.summarizers.native import NativeRequest
from summarizing_context.views.header import Sources, native_instructions
from summarizing_context.views.planner import NextView, moment, plan_activation
from summarizing_context.views.view import (
    ROOM_MARK,
    ActivationRecord,
    ActivationReport,
    ActivationRequest,
    ActivationState,
    Change,
    ProviderView,
    Reason,
    Room,
    Tail,
    TailItem,
    Whole,
    kept_state,
)
from summarizing_context.worker.side_calls import NativeBlocks, Target
from summarizing_context.worker.summary_cache import FRAME, HeaderPlace, Node, stand_ins

logger = logging.getLogger(__name__)

Prompt = str | Sequence[Mapping[str, Any]]  # a text, or blocks

LEAST_ROOM = 40  # tokens beside the system rows without which no view is worth sending
# An activation is near where one more step, as large as the largest between so many marks, would lead to it.
STEPS, STEP_SHARE = 6, 0.3  # of the room, at most

MOST_VIEWS = 4  # of a session, in memory as in the store

_OTHER_ROOM = 1.5  # times a room may be larger or smaller than a view's: further away a request is shown another view

_NEW_FOR_BLOCK = 0.25  # of the room, that a provider's next block has to cover beyond the last one


class SystemRows:
    """What leads the next view, and the tools sent with it: the log's own system and developer rows, or a system prompt
    brought by the request. A prompt that the host makes for each request is no part of the log. It stands in the place
    of the log's plain leading system rows; developer rows and rows of hooks stay behind it. Tools stand in no view,
    they only cost."""

    def __init__(self, log: MessageLog, price: Price) -> None:
        self._log, self._price = log, price
        self._prompt: Any = None  # text or blocks; None where the log's own rows lead
        self._row: list[tuple[Message, int]] = []  # the prompt as a message, with its tokens; none for an empty one
        self._rows: list[tuple[Message, int]] = []  # this, and those of the log that are shown
        self._rows_of: object = None  # the log for which these are
        self.tools: list[Any] = []  # of the request; to be read only
        self.name = ""  # of the prompt; empty where the log's own rows lead
        self.tool_tokens = 0
        self.brought = 0  # tokens of the prompt and tools of the last request, where an earlier process had it

    def set_request(self, prompt: Prompt | None, tools: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Set the prompt and the tools of the request to come; None for none. An empty prompt leads with no row.
        Raise `SettingsError`, and then nothing has changed."""
        is_new, said, self.brought = prompt != self._prompt, prompt, 0
        if is_new:
            is_list = prompt is not None and not isinstance(prompt, str)
            said = encodable(_checked_list("system", prompt) if is_list else prompt)
        if (tools or []) != self.tools:
            self.tools = _checked_list("tools", tools) if tools else []
            self.tool_tokens = sum(self._price.count(canonical_json(definition)) for definition in self.tools)
        if is_new:
            row: Message = {"role": "system", "content": said}
            self._prompt, self._row = said, [(row, self._price.message(row))] if said else []
            self.name = "" if said is None else output_hash(said if isinstance(said, str) else canonical_json(said))
            self._rows_of = None

    @property
    def fixed_tokens(self) -> int:
        """Cost of what the request has brought: prompt and tools."""
        return sum(tokens for _, tokens in self._row) + self.tool_tokens + self.brought

    @property
    def tokens(self) -> int:
        """Cost of all leading rows, and of the tools."""
        return sum([tokens for _, tokens in self.rows]) + self.tool_tokens + self.brought

    @property
    def rows(self) -> list[tuple[Message, int]]:
        """The leading rows, each with its tokens. To be read only: later views show the same."""
        log, alone = self._log, self._prompt is None
        if self._rows_of != (name := (log.version, log.leading_count)):
            self._rows, self._rows_of = [*self._row], name
            for at, one in enumerate(log.entries[: log.leading_count]):
                if alone or one.facts.role != Role.SYSTEM or one.facts.rare.hook:
                    self._rows.append((encodable(one.message()), log.cost(at)))
        return self._rows


def _checked_list(name: str, value: object) -> list[Any]:
    """Return the JSON objects of a list, as copies."""
    what = {"system": "the text of the system prompt, its blocks", "tools": "a list of definitions of tools"}[name]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingsError(f"{name} is {type(value).__name__}; it is {what}, or None")
    for at, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise SettingsError(f"{name}[{at}] is {type(item).__name__}; {name} is {what}, or None; each is an object")
    try:
        checked: list[Any] = check_message({"role": "user", name: [dict(item) for item in value]})[name]
    except MessageError as error:
        raise SettingsError(f"{name} cannot be sent: {error}") from error
    return checked


def common_prefix(before: Sequence[object], after: Sequence[object]) -> int:
    if before == after[: len(before)]:
        return len(before)
    both = enumerate(zip(before, after, strict=False))
    return next((at for at, (was, now) in both if was != now), len(after))  # of one that goes on, the shorter


def merged(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with neighbouring user rows as one, for back ends that want roles to alternate."""

    def blocks(message: Message) -> list[Any] | None:  # of a plain user row
        content = message.get("content")
        if message["role"] != "user" or message.get("tool_calls") or "tool_call_id" in message:
            return None
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        return content if isinstance(content, list) else None

    joined: list[Message] = []
    for message in messages:
        if joined and (said := blocks(message)) is not None and (before := blocks(joined[-1])) is not None:
            joined[-1] = {**joined[-1], "content": before + said}
        else:
            joined.append(message)
    return joined


@dataclass(frozen=True, slots=True)
class View:
    """The messages of one request, and what it cost to make room for them.

    `stable_prefix_messages` are the leading messages that the view before, for the same provider, had already,
    byte for byte: a cache breakpoint after them reads that cache, one at the end writes the next. `tokens` are those of
    the messages, without a system prompt that the request has brought: that and its tools are the `fixed_tokens`. Both
    together stay within the budget.

    With `rewritten_prefix` the beginning is not, or was not always, the one under which the model thought: some models
    of Anthropic refuse thinking that they signed under another one, unless the request has
    `thinking.block_binding.prefix_mismatch_behavior = "drop_block"`.
    """

    shared: Sequence[Message]  # to be read only: later views show the same ones
    tokens: int
    stable_prefix_messages: int
    activation: ActivationReport | None = None
    fixed_tokens: int = 0
    rewritten_prefix: bool = False

    @property
    def messages(self) -> list[Message]:
        """The messages, as fresh copies."""
        copies: list[Message] = msgspec.to_builtins(self.shared)
        return copies


class Viewer:
    """Makes the views of one session. Plain functions: nothing here waits."""

    def __init__(self, sources: Sources, counter: str, native: NativeBlocks | None) -> None:
        self._sources, self._counter, self._native = sources, counter, native
        if native is not None:
            native.target, native.request = self._native_target, self._native_request
        self._log, self._summaries, self._price = sources.log, sources.summaries, sources.price
        self._settings = sources.settings
        self.system_rows = SystemRows(self._log, self._price)
        self.provider_views: OrderedDict[str, ProviderView] = OrderedDict()  # by their keys
        self.repairs = Counter[str]()  # of messages that were shown, by kind; each of a message once
        self.left_out = 0  # tokens that shrinking has left out of them
        self._repaired = Counter[tuple[int, str]]()  # log entries and repairs
        self.stand_ins_shown = 0
        self.records: list[ActivationRecord] = []  # of the session's activations, oldest first
        self._recorded = 0  # the number of the last one
        self.latest: ProviderView | None = None
        self.only_looks = False  # what was shown last is looked at, in whatever room
        self.reopened = False  # views of this log were shown that are not here any more, as by an earlier process

    @property
    def covers(self) -> bool:
        """Whether any view shows summaries in place of messages."""
        shown = list(self.provider_views.values())  # a thread may add one
        return any(one.state.stop > self._log.leading_count for one in shown)

    def _count_repairs(self, items: Sequence[TailItem]) -> None:
        """Count those of these items that have not been counted."""
        found = [(item.seq, kind) for item in items for kind in item.repairs]
        if found and (new := Counter[tuple[int, str]](found) - self._repaired):
            self.repairs.update(kind for _, kind in new.elements())
            self.left_out += sum(item.left_out for item in items if (item.seq, "shrunk") in new)
            self._repaired |= Counter(found)

    def refresh_pins(self) -> None:
        """What is pinned by calls has changed: the next view of each provider shows it, if that fits."""
        for provider_view in self.provider_views.values():
            provider_view.pins_changed = True

    def reset(self) -> None:
        """The log is another one: nothing of it has been shown by this viewer."""
        self.provider_views.clear()
        self._repaired.clear()
        self.latest, self.reopened = None, True
        self._keep_shown()

    def restore(self, key: str, state: ActivationState, *, resumes: bool) -> None:
        """Take up a committed state; where it `resumes` a checkpoint, with its marks, which the next view tells."""
        marks = state.marks if resumes else None
        state = self._priced(msgspec.structs.replace(state, marks=None))
        provider_view = ProviderView(key, state, self._tail_behind(state), pending="restored" if marks else None)
        if state.held_at:
            provider_view.attempted = self._log.tokens[state.held_at], state.held_at
        if marks:
            provider_view.attempted, provider_view.resumed = marks
        self.provider_views[key] = self.latest = provider_view
        self.stand_ins_shown += stand_ins(state.nodes)
        self._keep_shown()

    def undo(self, key: str, there: ActivationState, budget: int) -> Change | None:
        """The change that takes a provider's view back to an earlier state; None where that view would not fit now."""
        log, there = self._log, self._priced(there)
        provider_view = self.provider_views.get(key) or ProviderView(key, there, self._tail_behind(there))
        present, now = provider_view.state, log.bounds()
        state = msgspec.structs.replace(
            there,
            serial=present.serial + 1,
            reason="restored",
            room=budget - self.system_rows.tokens,  # which may be larger, so that it fits
            system=present.system,
            # as they are now, if messages were added under another beginning since then
            bounds=there.bounds if present.bounds.rewritten == now.rewritten else now,
            held_at=now.rewritten,
            interruptions=log.interruptions_behind(there.stop),
        ).on(log)
        tail = self._tail_behind(state)
        above = self.system_rows.tokens + state.head_tokens
        tail.extend(log, budget - above)
        before, after = self.tokens(key, budget)[0], above + tail.tokens
        if after > budget:
            return None
        report = ActivationReport(True, "restored", before, after, before - after)
        return Change(provider_view, present, state, tail, report, (log.history_tokens, len(log)))

    def replaced(self, old: MessageLog, same: int) -> None:
        """The `old` log was replaced behind its first `same` entries: a view that covers no change goes on, the others
        start over with an activation."""
        self._repaired = Counter({name: n for name, n in self._repaired.items() if name[0] < same})
        for view in self.provider_views.values():
            kept = kept_state(view.state, old, same, self._log)
            view.state = kept or self._first_state(view.state.room)
            view.tail = self._tail_behind(view.state)
            if kept is None:
                view.pending, view.pins_changed = "log_replaced", bool(self._log.pinned.texts)
                view.attempted = None
            elif view.attempted is not None:
                tokens, messages = view.attempted
                view.attempted = min(self._log.history_tokens, tokens), min(len(self._log), messages)
        self._keep_shown()

    def change(self, key: str, budget: int, request: ActivationRequest, *, is_asked_for: bool = True) -> Change | None:
        """Bring a provider's tail up to date and decide whether its next view activates.

        Until a change is applied, the next decision is the same. One that is not `is_asked_for` requests no summaries.
        Raises `BudgetError` when the system rows leave no room, or the newest open group does not fit.
        """
        log, left = self._log, self._left(budget)
        view, system_tokens = self._view_at(key, left), budget - left
        is_kept = self.only_looks and self.system_rows.brought > 0  # the last request's, of which the tokens are known
        system, room = view.state.system if is_kept else self.system_rows.name, self._room_of(view, left)

        # what has come about since the last view: another system prompt, calls given up, the end of a turn
        if view.state.system != system:
            if view.last or view.state.serial:
                view.pending, request = view.pending or "system_changed", request._replace(reason="system_changed")
                view.pins_changed |= bool(log.pinned.indexes)  # these may be rows that lead no more, or again
            else:
                view.state = msgspec.structs.replace(view.state, system=system)
        if request.is_due:
            log.interrupt()
        given_up = log.interruptions_behind(view.state.stop)
        if given_up != view.state.interruptions:
            view.state, view.is_unsaved = msgspec.structs.replace(view.state, interruptions=given_up), True
        if view.tail.bound and view.has_turn_ended(log):
            view.pending = view.pending or view.state.reason

        # decide
        self._feed(view)
        if view.tail.is_stale:
            view.pending = view.pending or "restored"
        now = NextView(self._sources, view, room, request, system, self.only_looks, self._native)
        reason = now.reason
        if now.loses_native:
            view.pending = view.pending or "provider_changed"
        plan, before, tokens = plan_activation(now), view.state, now.tokens
        if plan is None:
            if now.is_attempt:
                waits = now.to_summarize is not None  # it is looked at again behind the next message
                again = max(0, int(room.min_free) - 1) if waits else 0
                view.attempted = log.history_tokens - again, len(log)
            if is_asked_for and now.to_summarize is not None:
                self.request(now.to_summarize.state)
            if tokens > room.tokens:
                rows = [(item.seq, item.tokens) for item in view.tail.items[-5:]]
                raise BudgetError(system_tokens + tokens, budget, rows, "newest messages")
            view.pins_changed &= len(log) == log.leading_count  # they were looked at
            return None

        # why: the view only begins differently, or it covers more, or shows what it covers in another way
        state, counts, because = plan.state, (0, 0), plan.reason
        if because is None:
            is_told = state.header is not None and state.native is None
            if not is_told and not self._sources.truncates:  # what is covered is not told by us: read it still
                self._summaries.blocks(Node.leaves(before.leaves, state.leaves))
            goes_before = ("budget_lowered", "budget_raised", "restored")
            is_asked = reason == "explicit" and view.pending in goes_before
            because = reason if is_asked else view.pending or reason or ("task_end" if now.takes_end else None)
            because = because or ("budget_raised" if now.is_widened else None)
            if because is None:
                shown = view.beside or before
                was = Room(shown.room, self._settings, staying=shown.staying)
                because = "budget_lowered" if room.tokens < was.tokens and tokens <= was.high else "high_water"
            counts = len(plan.tail.items), sum(item.seq >= 0 for item in plan.pins)
        state = msgspec.structs.replace(state, serial=before.serial + 1, reason=because, system=system).on(log)
        sizes = system_tokens + tokens, system_tokens + plan.tokens, tokens - plan.tokens
        report = ActivationReport(True, because, *sizes, *counts)
        attempted = (log.history_tokens, len(log)) if now.is_attempt else None
        return Change(view, before, state, plan.tail, report, attempted, plan.pins)

    def would_compact(self, key: str, budget: int, request: ActivationRequest) -> bool:
        """Whether the next view would activate, for whatever reason. Changes nothing; raises as `change` does."""
        provider_views, reopened = self.provider_views, self.reopened
        self.provider_views = OrderedDict((name, replace(one)) for name, one in provider_views.items())
        try:
            return self.change(key, budget, request, is_asked_for=False) is not None
        finally:
            self.provider_views, self.reopened = provider_views, reopened

    def record(self, change: Change, undoes: int | None = None) -> ActivationRecord:
        """Return the record of a change that is about to be committed."""
        self._recorded += 1  # used once, also where the store fails
        before, state, report, items = change.before, change.state, change.report, change.tail.items
        head, now_shown = state.head, (state.stop, state.since, state.nodes)

        # tokens with which the last view and this one begin alike, tools and the lines of a message included
        last, rows, price = change.provider_view.last, self.system_rows.rows, self._price
        now = [*[row for row, _ in rows], *head, *[item.message for item in items]]
        kept = common_prefix(last, now)
        told = map(price.message, head[: max(0, kept - len(rows))])
        costs = [*[tokens for _, tokens in rows], *told, *[item.tokens for item in items]]
        alike = sum(costs[:kept]) + self.system_rows.tool_tokens * (kept >= len(rows))
        if kept < min(len(last), len(now)) and last[kept]["role"] == now[kept]["role"]:
            contents = [row.get("content") for row in (last[kept], now[kept])]
            blocks = [content if isinstance(content, list) else [{"text": content}] for content in contents]
            texts = [[one.get("text") if isinstance(one, dict) else "" for one in each] for each in blocks]
            said, says = ("".join(one for one in each if isinstance(one, str)).splitlines(True) for each in texts)
            alike += price.count("".join(says[: common_prefix(said, says)]))
        return ActivationRecord(
            number=self._recorded,
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
            provider=change.provider_view.key,
            reason=report.reason,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            covered_from=before.stop,
            covered_to=state.stop,
            messages=len(self._log),
            blocks=len(state.nodes),
            stand_ins=stand_ins(state.nodes),
            prefix_kept=alike,
            budget=state.room + self.system_rows.tokens,
            log_version=self._log.version,
            undoes=undoes,
            # an activation that only begins the view differently cannot be undone
            can_undo=undoes is None and (before.stop, before.since, before.nodes) != now_shown,
            ends_turn=report.freed > 0 == report.raw
            and (before.stop, before.head, before.reason) == (state.stop, state.head, report.reason),
        )

    def load_records(self, rows: Iterable[StoredActivation]) -> None:
        """Bring back the records that the store has kept; what another version wrote in another way is passed over."""
        for row in rows:
            try:
                figures = msgspec.json.decode(row.figures, type=dict[str, Any])
                figures |= {"number": row.number, "provider": row.provider_key, "log_version": row.log_version}
                can_undo = bool(row.has_before) and figures.get("undoes") is None
                figures |= {"is_undone": bool(row.is_undone), "can_undo": can_undo}
                self.records.append(msgspec.convert(list(ActivationRecord(**figures)), ActivationRecord))
            except (msgspec.MsgspecError, TypeError) as error:
                logger.warning("an activation's record is not readable", extra={"cause": type(error).__name__})
        self._recorded = max((record.number for record in self.records), default=0)

    def apply(self, change: Change, made: ActivationRecord) -> dict[str, int] | None:
        """Show what a committed activation decided; return its figures, None if the log was replaced meanwhile."""
        provider_view, nodes = change.provider_view, change.state.nodes
        if provider_view.state is not change.before:
            return None
        if not self.only_looks:
            if made.undoes is not None:
                at = next(at for at, one in enumerate(self.records) if one.number == made.undoes)
                self.records[at] = self.records[at]._replace(is_undone=True)
                self.provider_views[provider_view.key] = provider_view
            self.records.append(made)
        provider_view.state, provider_view.tail, provider_view.pending = change.state, change.tail, None
        provider_view.is_unsaved = provider_view.pins_changed = False
        self._count_repairs(change.pins)
        self._log.close_segment(change.state.stop)
        self.latest = provider_view
        self.stand_ins_shown += stand_ins(nodes, but=change.before.nodes)
        provider_view.attempted = change.attempted or provider_view.attempted
        self._keep_shown()
        return {
            "messages": len(self.system_rows.rows) + len(change.state.head) + len(change.tail.items),
            "header_blocks": len(nodes),
            "header_tokens": sum(node.tokens for node in nodes),
            "stand_ins": made.stand_ins,
        }

    def takes_long(self, key: str, budget: int, request: ActivationRequest) -> bool:
        """Whether to decide about the next view in a thread, which starts late: much of it is new; or it may activate
        behind much that is not covered, with many rules, or without a model or with a note about a topic, and then the
        past is read again."""
        log, left, much = self._log, self._left(budget), 20_000
        if (view := self._view_for(key, left)) is None:
            return log.tokens[-1] > much
        state, room = view.state, self._room_of(view, left)
        unread = log.tokens[-1] - log.tokens[view.tail.next]
        used = state.head_tokens + view.tail.tokens + unread
        if request.reason is not None or used > room.high or any(moment(self._sources, state, room, used)):
            is_kept = self._summaries.by_model or self._sources.truncates
            again = state.leaves_stop if is_kept and request.topic is None and state.focus is None else 0
            unread += max(log.tokens[-1] - log.tokens[again], 20 * len(log.humans))  # tokens read as quickly as rules
        return unread > much

    def view(self, key: str, budget: int, activation: ActivationReport | None) -> View:
        """The view as `change` has left it: what came since then is for the next one."""
        left, rows = self._left(budget), self.system_rows
        self.latest = shown = self._view_at(key, left)
        self.provider_views.move_to_end(shown.key)
        state, items = shown.state, shown.tail.items
        self._count_repairs(items)
        messages = [*[row for row, _ in rows.rows], *state.head, *[item.message for item in items]]
        before = shown.last if shown.resumed is None else messages[: shown.resumed]
        stable = common_prefix(before, messages)
        shown.last, shown.resumed, shown.beside = messages, None, None
        fixed = rows.fixed_tokens
        tokens = budget - left - fixed + state.head_tokens + shown.tail.tokens
        if self._settings.merge_user_rows:
            messages = merged(messages)
            stable = common_prefix(merged(before), messages)
            kept = {id(row) for row in shown.last} & {id(row) for row in messages}
            tokens -= sum(self._price.message(row) for row in shown.last if id(row) not in kept)
            tokens += sum(self._price.message(row) for row in messages if id(row) not in kept)
        return View(messages, tokens, stable, activation, fixed, rewritten_prefix=bool(self.records or self.repairs))

    def tokens(self, key: str, budget: int, *, as_shown: bool = False) -> tuple[int, float]:
        """What the whole view costs, and its high water; without what is new where it is told `as_shown`."""
        left = self._left(budget)
        provider_view = self._view_for(key, left) or self._new_view(key, left)
        if not as_shown:
            self._feed(provider_view)
        shown, system = provider_view.state.head_tokens + provider_view.tail.tokens, budget - left
        return system + shown, system + self._room_of(provider_view, left).high

    def raw_messages(self, key: str, budget: int, request: ActivationRequest) -> int:
        """Return how many messages have to stay raw; 0 where more could be covered for a request, at a price."""
        if (view := self._view_for(key, self._left(budget))) is None:
            return 0
        least, stop = request.keep_messages, view.state.stop
        can_cover = request.keep_from is not None if least is None else view.tail.stop_leaving(least, stop) is not None
        return 0 if can_cover else len(view.tail.items)

    def high_water(self) -> float:
        """Tokens at which the newest view would activate; before the first view, for a budget of `max_tokens`."""
        left = int(self._settings.max_tokens) - self.system_rows.tokens
        return Room(max(0, left), self._settings).high if self.latest is None else self._room_of(self.latest).high

    def look_ahead(self) -> bool:
        """Close the open segment where the next activation of the newest view will want it; whether that is near, or,
        where messages are counted, may be at any time. It ends a little ahead, so that a model has summarized it by
        then: at the last end of a group a little below the high water, unless closed segments free enough. The log, the
        view and the settings alone say where."""
        if (latest := self.latest) is None:
            return False
        state, tail, room = latest.state, latest.tail, self._room_of(latest)
        log, summaries = self._log, self._summaries
        steps = (mark.tokens - last.tokens for last, mark in pairwise(tail.marks[-STEPS:]))
        step = min(max(steps, default=0), STEP_SHARE * room.shared)
        if state.head_tokens + tail.tokens + max(room.min_free, step) <= room.high:
            return self._settings.max_messages is not None
        before = room.high - max(1.25 * room.low, step) - state.head_tokens
        if not summaries.by_model or self._sources.truncates or tail.start != state.stop or tail.tokens <= before:
            return True
        at = bisect_right(tail.marks, before + tail.marks[0].tokens, key=lambda mark: mark.tokens) - 1
        stop = tail.marks[max(0, at)].stop
        if stop > max(log.covered_by_segments, state.stop):
            # what covering the closed segments frees, and what covering the open one up to there; by the cap of
            # summaries, for where segments end must not depend on what is ready
            cut, each = cut_at(log.segments, stop), FRAME + summaries.leaf_tokens
            added = each * (cut.leaves - state.leaves)
            whole = tail.tokens - tail.after(cut.leaves_stop) - added if cut.leaves_stop > state.stop else 0
            if whole < room.min_free <= tail.tokens - tail.after(stop) - added - each:
                log.close_segment(stop)
        return True

    def _native_target(self) -> Target | None:
        """The closed segments of the newest view, once an activation is near, much has come since the last block, and
        their summaries are there, or cannot be had."""
        latest, log, native = self.latest, self._log, self._native
        if latest is None or native is None or native.recipe_for(latest.provider) is None:
            return None
        state, cut = latest.state, cut_at(log.segments, latest.tail.next)
        fits = not state.squeeze and state.head_tokens + latest.tail.tokens <= state.room
        is_near = self._summaries.is_near and not self.only_looks
        if not (fits and is_near) or cut.leaves_stop <= max(state.stop, latest.tail.start):
            return None
        known = native.ready(latest.provider)
        since = max([log.leading_count, *(one.stop for one in (*known, state.native) if one is not None)])
        if log.tokens[cut.leaves_stop] - log.tokens[since] < _NEW_FOR_BLOCK * state.room:
            return None
        # a block is kept for good, so its request waits for them; it covers no less meanwhile: the log alone says what
        is_known = all(self._summaries.merged_text(Node(at, at + 1)) for at in range(state.leaves, cut.leaves))
        return Target(latest.provider, cut.leaves, cut.leaves_stop) if is_known else None

    def _native_request(self, target: Target, model: str) -> NativeRequest:
        """What the newest view has sent, up to the end of what a block has to cover."""
        assert self.latest is not None
        state, tail = self.latest.state, self.latest.tail
        mark = tail.mark(target.stop)
        return NativeRequest(
            model=model,
            system=[row for row, _ in self.system_rows.rows],
            head=state.head,
            messages=[item.message for item in tail.items[: mark.items]],
            tools=self.system_rows.tools,
            instructions=native_instructions(self._sources, state.leaves, target.leaves, target.stop),
            tokens=self.system_rows.tokens + state.head_tokens + mark.tokens,
        )

    def request(self, state: ActivationState) -> None:
        """Have a model summarize what a view with that state would show."""
        self._log.close_segment(state.stop)
        self._summaries.request(state.nodes)

    def _left(self, budget: int) -> int:
        """The tokens that the system rows leave. Raises `BudgetError` where they leave no room."""
        rows = self.system_rows
        room = budget - rows.tokens
        if room < LEAST_ROOM:
            costs = [(at, tokens) for at, (_, tokens) in enumerate(rows.rows)]
            what = "leading system rows" if costs else "no leading system rows"
            what = f"{rows.tool_tokens} tokens of tools, and {what}" if rows.tool_tokens else what
            what = f"{rows.brought} tokens of system prompt and tools, and {what}" if rows.brought else what
            raise BudgetError(rows.tokens + LEAST_ROOM, budget, costs, what)
        return room

    def _room_of(self, view: ProviderView, tokens: int = 0) -> Room:
        """The room of a view, or one of so many tokens, with what that sets aside, and nothing squeezed."""
        state, room = view.state, view.tail.room
        if (room.tokens, room.squeeze, room.cap, room.gives_way) == (tokens or state.room, 0, 0, False):
            return room
        return Room(tokens or state.room, self._settings, staying=state.staying)

    def _view_for(self, key: str, room: int) -> ProviderView | None:
        """Of the views of a provider that whose room is nearest to this one; None where each is far from it. A view
        follows a budget that moves a little, as one does that is learnt from what a provider counts."""

        def ratio(other: int) -> float:
            return max(other, room) / max(1, min(other, room))

        own = [one for one in reversed(self.provider_views.values()) if one.provider == key]
        if own and own[0].state.room == room:
            return own[0]
        nearest = min(own, key=lambda one: ratio(one.state.room), default=None)
        if nearest is None or self.only_looks:
            return nearest
        return nearest if ratio(nearest.state.room) < _OTHER_ROOM else None

    def _view_at(self, key: str, room: int) -> ProviderView:
        """The same, or a new one, which is kept."""
        if (view := self._view_for(key, room)) is None:
            view = self._new_view(key, room)
            self.provider_views[view.key] = view
            while len(self.provider_views) > MOST_VIEWS:
                self.provider_views.popitem(last=False)
                self.reopened = True  # what its provider is shown next does not go on from what it was shown
            self._keep_shown()
        return view

    def _new_view(self, key: str, room: int) -> ProviderView:
        """Return a view for a new room: a smaller one goes on from what the latest of its provider shows, others start
        with the whole log. Its first activation has a reason if other views were shown before."""
        pending: Reason | None = "provider_changed" if self.provider_views else "restored" if self.reopened else None
        latest = next((one for one in reversed(self.provider_views.values()) if one.provider == key), None)
        name, state, was = key, self._first_state(room), None if latest is None else latest.state
        if latest is not None and was is not None:
            names = (f"{key}{ROOM_MARK}{tokens}" for tokens in count(room))
            name = next(name for name in names if name not in self.provider_views)
            if room < was.room:
                staying = self._room_of(latest, room).staying
                state = msgspec.structs.replace(was, room=room, staying=staying, whole=Whole())
            else:
                state = msgspec.structs.replace(state, focus=was.focus, keep_from=was.keep_from)
            # no reason where the latest view shows messages only, and each of them whole
            is_plain = not was.head and not any(item.left_out for item in latest.tail.items)
            has_changed = latest.pending or not is_plain or self.reopened
            pending = None if not has_changed else "budget_lowered" if room < was.room else "budget_raised"
        pinned = bool(self._log.pinned.texts)
        return ProviderView(name, state, self._tail_behind(state), pending=pending, pins_changed=pinned, beside=was)

    def _keep_shown(self) -> None:
        """Tell what has to be made because views show it."""
        views, places = self.provider_views.values(), list[HeaderPlace]()
        for view in views:
            tree = view.state.tree
            merges = tuple(node for node in tree if node.stop - node.start > 1)
            start = merges[-1].stop if merges else tree[0].start if tree else 0
            places.append(HeaderPlace(merges, start, self._room_of(view).header_target))
        self._summaries.keep(places, max((view.state.room for view in views), default=0))

    def _feed(self, provider_view: ProviderView) -> None:
        if provider_view.state.stop < self._log.leading_count:  # leading rows came after an empty view
            provider_view.state = msgspec.structs.replace(provider_view.state, stop=self._log.leading_count)
            if provider_view.tail.items:  # ephemeral messages, which the new rows come before
                provider_view.pending = provider_view.pending or "system_changed"
            provider_view.tail = self._tail_behind(provider_view.state)
        provider_view.tail.extend(self._log)

    def _first_state(self, room: int) -> ActivationState:
        system = self.system_rows.name
        return ActivationState(room=room, stop=self._log.leading_count, counter=self._counter, system=system)

    def _priced(self, state: ActivationState) -> ActivationState:
        """A state that an earlier process may have made, with tokens by this one's counter."""
        price = self._price.message
        tokens = state.head_tokens if state.counter == self._counter else sum(map(price, state.head))
        pins = sum(map(price, (*state.before, *state.after)))
        return msgspec.structs.replace(state, head_tokens=tokens, counter=self._counter, pin_tokens=pins)

    def _tail_behind(self, state: ActivationState) -> Tail:
        """The tail behind a state, which shows nothing yet."""
        room = Room(state.room, self._settings, state.squeeze, state.staying, cap=state.cap)
        is_plain = state.stop == self._log.leading_count and state.whole == Whole()
        whole = Whole(tokens=int(room.high), cut=int(room.high) - room.reserve) if is_plain else state.whole
        return Tail(state.stop, room, self._price, state.bounds, since=state.since, whole=whole)
