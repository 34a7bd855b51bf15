"""The activation planner: whether a provider's next view begins differently, and how; and where a piece of work ends.

Pure. `NextView` tells how the present view stands, where it may be cut, and what it would show then; asking for a plan
changes no view. `plan_activation` decides. The viewer notes what the decision says, and carries it out. Ends of work
are read off what has come since the newest step of the agent, and never searched for in the past.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

import msgspec

from summarizing_context.log.entries import Cut, cut_at
from summarizing_context.log.message_log import Ledger, MessageLog
from summarizing_context.settings import HIGH_WATER
from summarizing_context.views.header import Sources, choose_staying, memories_in, write_head
from summarizing_context.views.view import (
    BARE,
    MESSAGE_SHARE,
    TIGHT,
    WHOLE_GROUPS,
    ActivationRequest,
    ActivationState,
    Mark,
    ProviderView,
    Reason,
    Room,
    Tail,
    TailItem,
    Whole,
    water_level,
)
from summarizing_context.worker.side_calls import NativeBlocks
from summarizing_context.worker.summary_cache import notes, stand_ins

BAND = 0.5  # of the high water, from which on an activation may come at an end
CACHED = 0.1  # price of a token that is read from a prompt cache, over an uncached one; providers ask about that
WAITED = 2.5  # times the usual distance of ends up to the high water: with more, another is waited for
KEPT = 0.3  # of the room, that an activation at an end leaves raw: it comes early
FREED = 0.25  # of the room, that an activation at an end frees at least: the next one comes late, too
TOLERATED = 0.6  # of what an activation costs, that one at an end may cost more


def is_natural_end(log: MessageLog, ledger: Ledger | None) -> bool:
    """Return whether the newest messages end a piece of work: a person asks for something, the last item of a plan is
    done, a commit was made, or tests pass that have failed."""
    if not log.steps:
        return False
    step = log.steps[-1]
    if (log.humans and log.humans[-1] > step) or log.kept_texts.done_at >= step:
        return True
    if ledger is not None:
        ledger.catch_up(20_000)  # tokens that it may read now; more is read ahead in the background
    return ledger is not None and ledger.end >= step


def moment(sources: Sources, state: ActivationState, room: Room, tokens: int) -> tuple[int | None, bool]:
    """Return up to which entry the agent has called its task done, unless that is covered or other messages of its own
    followed; and whether the newest messages are a natural end, in the band of tokens where the room takes ends."""
    log = sources.log
    ended = log.kept_texts.ended_at
    if log.steps and ended >= log.steps[-1] and (start := log.group_start(ended)) > state.stop:
        return start, False
    in_band = room.takes_ends and tokens >= BAND * room.high
    return None, in_band and is_natural_end(log, sources.ledger)


class Plan(NamedTuple):
    """A view's prefix and tail as an activation would make them."""

    state: ActivationState  # without its serial, its reason, and the name of the system prompt
    tail: Tail
    pins: tuple[TailItem, ...] = ()  # chosen for it
    reason: Reason | None = None  # of a view that only begins differently: it covers the same past
    whole: int = 0  # tokens that are shown of the newest group beyond what long messages may take
    cut_short: int = 0  # tokens that the newest group lacks

    @property
    def tokens(self) -> int:
        """Cost of the view beside its system rows."""
        return self.state.head_tokens + self.tail.tokens


@dataclass
class NextView:
    """The next view of one provider: how the present one stands, what is asked for, and plans of other ones. Tokens are
    those beside the system rows; places are indexes of log entries."""

    sources: Sources
    provider_view: ProviderView
    room: Room  # for the next view
    request: ActivationRequest
    system: str  # names the system prompt that leads
    only_looks: bool = False
    native: NativeBlocks | None = None

    def __post_init__(self) -> None:
        self.log, settings, room = self.sources.log, self.sources.settings, self.room
        self.state, self.tail = state, tail = self.provider_view.state, self.provider_view.tail
        self.tokens = state.head_tokens + tail.tokens
        self.task_ended, self.is_natural_end = moment(self.sources, state, room, self.tokens)
        self.reason = "explicit" if self.task_ended is not None else self.request.reason
        self.says_what_stays = self.request.keep_messages is not None or self.request.keep_from is not None
        self._has_begun = False  # to make plans

        # what a decision says beside its plan: an activation was tried, with or without success; this plan waits for
        # a model's summaries, up to the next message
        self.is_attempt = False
        self.to_summarize: Plan | None = None
        self.takes_end = False  # the plan is for the end of a piece of work

        # what the newest group lacks though an activation would make room for it, which it may have by now
        held, lacks = (0, 0) if self.only_looks else tail.lacking(self.log.newest_group[0])
        for_newest = max(room.newest_share, room.tokens - state.head_tokens)
        self.cut_short = lacks if held + lacks <= for_newest else 0
        self.is_widened = room.tokens > tail.room.tokens and (tail.room.is_bare or self.cut_short > 0)

        # the view cannot be sent, or shows less than there is room for only because it could not before; it is above
        # its high water, or would be if it showed the newest message whole
        self.overflows = self.tokens > room.tokens or self.is_widened
        self.is_high = self.tokens + self.cut_short > room.high

        # blocks of the provider, the one that covers most last; whether it shows one that may not be sent any longer
        native, shown, provider = self.native, state.native, self.provider_view.provider
        self.blocks = [] if native is None else native.ready(provider)
        recipe = None if native is None else native.recipe_for(provider)
        self.loses_native = shown is not None and shown.recipe != recipe and not self.only_looks
        if shown is not None and not self.loses_native and all(block.stop < shown.stop for block in self.blocks):
            self.blocks.append(shown)

        # more messages than it should have, half at least for the tail; how many an activation for that leaves raw
        self.keep_recent = settings.keep_recent or 0  # messages that stay raw where they fit
        self.has_too_many = False
        if (most := settings.max_messages) is not None:
            head = max(self.log.leading_count, bool(state.system)) + len(state.head)
            self.has_too_many = len(tail.items) > max(most - head, most // 2, self.keep_recent or 1)
            low = int(most * settings.low_water / (settings.high_water or HIGH_WATER))
            self.fewest_messages = max(low, self.keep_recent, 1)

    def leaving_about(self, low: float) -> list[Cut]:
        """Return where the tail may be cut, best first: at the segment boundary nearest to so many tokens, then at the
        group boundary nearest to it. Never below a quarter of them; not below `keep_recent` messages where that can be
        met. First of all the cut of the view that was shown in a smaller room, where that covers less."""
        tail, keep = self.tail, self.keep_recent
        last, end = tail.marks[-1], tail.tokens

        def nearest(marks: Sequence[Mark]) -> list[int]:
            fair = [mark for mark in marks if end - mark.tokens >= low / 4]
            kept = [mark for mark in fair if last.items - mark.items >= keep]
            return [mark.stop for mark in sorted(kept or fair, key=lambda mark: abs(end - mark.tokens - low))[:1]]

        leaf = nearest([mark for mark in tail.marks if mark.stop in self.segment_ends])
        group = nearest([mark for mark in tail.marks if mark.stop > max([self.state.stop, *leaf])])
        ended = [mark for mark in tail.marks if mark.stop == self.task_ended and last.items - mark.items >= keep]
        stops = [*(mark.stop for mark in ended), *leaf, *group]
        if (beside := self.provider_view.beside) is not None and all(beside.stop < stop for stop in stops):
            stops = [stop for stop in (beside.stop,) if max(tail.start, self.state.stop) < stop <= last.stop] + stops
        return self.cuts(stops)

    @cached_property
    def cuts_of_summaries(self) -> list[Cut]:
        """The cuts that leave about the low water; where a model summarizes, first the last that covers only what has
        summaries."""
        cuts, log, summaries = self.leaving_about(self.room.low), self.log, self.sources.summaries
        if not summaries.by_model or self.sources.truncates or self.task_ended is not None:
            return cuts
        missing = summaries.without_summary(self.state.leaves)
        ends = {stop for stop in self.segment_ends if not missing or stop <= log.segments[missing[0]].start}
        last = max((cut.stop for cut in cuts), default=0)
        stop = max((mark.stop for mark in self.tail.marks if mark.stop in ends and mark.stop <= last), default=0)
        return cuts if not stop or any(cut.stop == stop for cut in cuts[:1]) else [*self.cuts([stop]), *cuts]

    def lacks_summaries(self, plan: Plan) -> bool:
        return self.sources.summaries.by_model and stand_ins(plan.state.nodes, but=self.state.nodes) > 0

    @cached_property
    def segment_ends(self) -> set[int]:
        """Where segments end that the view does not cover."""
        return {segment.stop for segment in self.log.segments[self.state.leaves :] if segment.part + 1 == segment.parts}

    def cuts(self, stops: Iterable[int]) -> list[Cut]:
        """Return the cuts at these ends of groups but the present one."""
        return [self.cut(stop) for stop in stops if stop != self.state.stop]

    def cut(self, stop: int) -> Cut:
        return Cut(0, 0, stop) if self.sources.truncates else cut_at(self.log.segments, stop)  # the first has none

    def leaving(self, messages: int, ends: Container[int] | None = None) -> list[Cut]:
        """Return the cut that leaves so many messages raw, if there is one; where `ends` are given, at one of these."""
        stop = self.tail.stop_leaving(messages, self.state.stop, ends)
        return [] if stop is None else self.cuts([stop])

    def covered(self) -> list[Cut]:
        """Return the present cut where anything is covered; with segments closed since, once all are ready."""
        present = self.state.cut
        if present.stop <= self.log.leading_count:
            return []
        later, missing = self.cut(present.stop), self.sources.summaries.without_summary(present.leaves)
        return [present if missing and missing[0] < later.leaves else later]

    def wanted(self) -> list[Cut]:
        """Return where to cut, best first. A number of messages to leave raw is met, or nothing is done."""
        state, request, tail, low = self.state, self.request, self.tail, self.room.low
        cuts = self.leaving_about(low)
        if self.reason == "explicit" and self.task_ended is None and not (self.overflows or self.is_high):
            # Only what brings the tail nearer to the low water, so that asking twice does what asking once does: where
            # nothing was said since the view was cut at the end of a segment, another group is no reason to cut again.
            cuts = [cut for cut in cuts if abs(tail.after(cut.stop) - low) < abs(tail.tokens - low)]
            is_known = state.bounds.rewritten == len(self.log) and state.room == self.room.tokens
            at_end = state.stop == state.leaves_stop > self.log.leading_count
            if is_known and at_end and all(cut.stop > cut.leaves_stop for cut in cuts):
                cuts = []
        if not self.says_what_stays and (request.topic is None or cuts or self.covered()):
            return cuts
        keep = request.keep_messages if self.says_what_stays else 10  # a note needs something covered
        to_keep = self.leaving(max(keep or 1, self.keep_recent))
        return [*to_keep, *cuts] if self.overflows or keep is None else to_keep

    def plan(self, cut: Cut, squeeze: int = 0, since: int = WHOLE_GROUPS, *, gives_way: bool = False) -> Plan:
        """Return what an activation would make at a cut: with nothing squeezed, a header that gives way to messages, or
        everything shrunk (`TIGHT`); of the group behind the cut what came from entry `since` on."""
        log, sources, state, request = self.log, self.sources, self.state, self.request
        if not self._has_begun:
            sources.summaries.begin()
        self._has_begun = True
        if request.keep_from is not None:
            state = msgspec.structs.replace(state, keep_from=request.keep_from)
        room = Room(self.room.tokens, sources.settings, squeeze, gives_way=gives_way)
        staying = None
        if not room.is_bare:
            staying = choose_staying(sources, cut.stop, replace(room, squeeze=0) if squeeze else room, self.system)
            room = replace(room, staying=staying.aside)
        if since != WHOLE_GROUPS:  # each of few messages
            room = replace(room, cap=int(MESSAGE_SHARE * room.shared))

        # whole stay the newest groups in a third of the room, or the newest one in its share, or in what the header
        # leaves of the room; none where it is tight
        stop, length = cut.stop, len(log)
        group = max(stop, log.newest_group[0])  # where the newest one begins
        whole, newest, beyond = Whole(length, length), length, 0
        if not squeeze and length > stop:
            first = bisect_left(log.tokens, log.tokens[length] - 1 / 3 * room.shared, lo=stop, hi=length)
            if first < length and (begun := log.group_start(first)) < first:
                first = log.group_stop(begun)
            newest = group
            if newest < first and log.tokens[length] - log.tokens[newest] <= room.newest_share:
                first = newest
            whole = Whole(first, length)
        while True:
            tail = Tail(stop, room, sources.price, log.bounds(), since=since, whole=whole)
            # where it is tight, ephemeral messages give way, those before the first group or all; but never the newest
            if squeeze:
                most = len(log.ephemeral) - any(at == length and not entry.is_page for at, entry in log.ephemeral[-1:])
                before = bisect_right(log.ephemeral, stop, key=lambda one: one[0])
                tail.ephemeral_count = most if room.is_bare or since != WHOLE_GROUPS else min(most, before)
            tail.extend(log, room.tokens)
            made, pins = ActivationState(focus=state.focus), tuple[TailItem, ...]()
            if staying is not None and tail.tokens <= room.tokens:
                fair = () if squeeze or gives_way else reversed(self.blocks)
                native = next((block for block in fair if block.stop <= cut.stop), None)
                made, pins = write_head(
                    sources, state, cut, tail, staying, request.memories, topic=request.topic, native=native
                )
            if newest < whole.first and (lacks := tail.lacking(newest))[1]:
                before, rest = tail.tokens, made.head_tokens + tail.tokens - lacks[0]
                left, over = sum(lacks), rest + sum(lacks) - room.tokens
                costs = [log.cost(at) for at in range(newest, length)]
                for _ in range(3):
                    left -= over + room.reserve  # of many messages the first take their share, which may be more
                    whole = Whole(newest, length, cap=max(1, int(water_level(costs, left))) if over > 0 else 0)
                    tail = Tail(stop, room, sources.price, log.bounds(), since=since, whole=whole)
                    tail.extend(log, room.tokens)
                    if (over := made.head_tokens + tail.tokens - room.tokens) <= 0:
                        break
                newest, beyond = length, tail.tokens - before
            if room.squeeze != TIGHT or since != WHOLE_GROUPS or made.head_tokens + tail.tokens <= room.tokens:
                break
            stays = log.staying(stop, length)  # all are cut to the same length
            costs = [log.cost(at) for at in range(stop, length) if at not in stays]
            level = water_level([*costs, inf], room.shared / 2)  # and one more fits; pins and the header take less
            room = replace(room, squeeze=room.squeeze + 2, cap=max(4, int(level)))
        most = max(0, int(room.tokens - made.head_tokens))
        tail.whole = tail.whole._replace(tokens=most, cut=max(0, most - room.reserve))
        shape = {"squeeze": room.squeeze, "cap": room.cap, "staying": room.staying, **cut._asdict(), "held_at": 0}
        shown = {"since": tail.since, "bounds": tail.bounds, "whole": tail.whole}
        known = {field: getattr(state, field) for field in ("keep_from", "interruptions", "counter")}
        made = msgspec.structs.replace(made, room=room.tokens, **shape, **shown, **known)
        return Plan(made, tail, pins, whole=beyond, cut_short=tail.lacking(group)[1])


def plan_activation(now: NextView) -> Plan | None:
    """Return the first acceptable plan of the first case that holds; on a cold cache a refreshed header at least; else
    other pins or memories; None for a view that goes on as it is. What else the decision says is noted in `now`."""
    view, state, room, log, tokens = now.provider_view, now.state, now.room, now.log, now.tokens
    settings, by_model = now.sources.settings, now.sources.summaries.by_model

    def first(cuts: Iterable[Cut], serves: Callable[[Plan], object]) -> Plan | None:
        # not too full: below the high water, or no larger than the view is
        most = min(max(room.high, tokens), room.tokens)
        return next((made for made in map(now.plan, cuts) if made.tokens <= most and serves(made)), None)

    def differs(plan: Plan) -> bool:  # as a reader of the view would see it
        shown = [(one.stop, one.native, one.after, notes(one.nodes)) for one in (plan.state, state)]
        return shown[0] != shown[1] or stand_ins(plan.state.nodes) < stand_ins(state.nodes)

    # An activation is tried where it is needed, or where a cold cache makes a large one cheap, which is no attempt; for
    # what is no overflow once for every `min_free` new tokens, or for half of `max_messages` new ones.
    is_needed = now.overflows or now.is_high or now.has_too_many or now.reason == "explicit"
    is_due = is_needed or (now.reason is not None and now.tail.tokens >= room.low + settings.segment_target)
    # where a model summarizes ahead, the number of messages is met at the last end of a segment
    ahead = now.leaving(now.fewest_messages, now.segment_ends) if now.has_too_many and by_model else []
    if is_due and not (now.overflows or now.reason == "explicit" or ahead):
        attempted, length = view.attempted or (-inf, 0)
        has_grown = now.has_too_many and 2 * (len(log) - length) >= (settings.max_messages or 0)
        is_due = has_grown or log.history_tokens - attempted >= room.min_free
    now.is_attempt = is_due and is_needed
    plan: Plan | None = None
    if is_due and now.overflows:
        plan = _overflow(now)
        is_bare, asked = now.tail.room.is_bare, now.reason is not None or now.has_too_many
        if plan is not None and plan.cut_short and tokens <= room.tokens and not (is_bare or asked):
            plan = None  # the room is larger, but not enough for the newest messages
    elif is_due and now.request.topic is not None:
        plan = first(
            [*now.wanted(), *now.covered()],
            lambda plan: differs(plan) and (notes(plan.state.nodes) or plan.tokens < tokens),
        )
    elif is_due and not now.says_what_stays and now.has_too_many and not now.is_high:
        plan = first([*ahead, *now.leaving(now.fewest_messages)], lambda _: True)
    elif is_due and (now.says_what_stays or (now.reason == "explicit" and not now.is_high)):
        # the first plan that differs and is not larger; else the present cut again
        keeps = now.request.keep_from is not None
        plan = first(now.wanted(), lambda plan: plan.tokens <= tokens and differs(plan))
        plan = plan or first(now.covered(), lambda plan: differs(plan) and (plan.tokens <= tokens or not keeps))
    elif is_due:
        # of plans that free `min_free`, or show the newest message whole, the first that leaves the view well below the
        # high water, or the smallest
        for made in map(now.plan, now.cuts_of_summaries):
            lacks = made.cut_short if now.cut_short else 0
            is_whole = now.cut_short > 0 == lacks
            frees = tokens + now.cut_short - made.tokens - lacks
            is_full = tokens > room.high or now.has_too_many or now.reason is not None
            if (is_whole or (is_full and frees >= room.min_free)) and made.tokens <= room.tokens:
                plan = made if plan is None or made.tokens < plan.tokens else plan
                if is_whole or made.tokens <= room.high - room.min_free:
                    plan = made
                    break
        if plan is not None and now.reason is None and now.lacks_summaries(plan):
            # there is room above the high water to wait in for what a model has not summarized
            now.to_summarize, plan = plan, None
    elif now.is_natural_end and not is_needed:
        # At the end of a piece of work, ahead of the high water, where that is expected to cost little more than there.
        # It reads the new view uncached, which is lost in part as it comes sooner, and whole where the session ends
        # before: one that was so long goes on for so much with the chance long / (long + more). What it saves is that
        # requests until then read a smaller view from the cache.
        more, past, ledger = max(0.0, room.high - tokens), log.history_tokens, now.sources.ledger
        ends = more / (past + more)

        def costs_little(plan: Plan) -> bool:
            after = plan.tokens
            lost = after * (ends + (1 - ends) * more / max(1.0, room.high - after))
            saved = CACHED * (tokens - after) * (more * len(log.steps) / max(1, past)) * (1 - ends / 2)
            return tokens - after >= FREED * room.tokens and lost - saved <= TOLERATED * after

        # it is doubtful that another end comes until then, as often as they came so far
        came = len(log.humans) + log.kept_texts.done + (0 if ledger is None else ledger.ends)
        if (room.high - tokens) * came <= WAITED * past:
            plan = first(now.leaving_about(KEPT * room.shared), costs_little)
        now.takes_end = plan is not None
    if plan is None and now.reason == "idle" and (shown := stand_ins(state.nodes)):
        plan = first(now.covered(), lambda plan: stand_ins(plan.state.nodes) < shown)
    if plan is None and now.loses_native:
        plan = first(now.covered(), lambda _: True) or _overflow(now)
    if plan is not None or tokens > room.tokens:
        return plan

    # nothing more is covered; but pins as they would be chosen now, and memories, with the first view since the context
    # was opened, where it shows none
    head, pins, reason, tail = state, tuple[TailItem, ...](), view.pending, now.tail
    is_repinned = view.pins_changed and len(log) > log.leading_count
    is_first = not view.last and view.resumed is None and not any(map(memories_in, state.after))
    if is_repinned or (is_first and now.request.memories):
        staying = choose_staying(now.sources, state.stop, Room(tail.room.tokens, settings), now.system)
        memories = now.request.memories
        other, chosen = write_head(now.sources, state, state.cut, tail, staying, memories, keeps_header=True)
        most = room.tokens if is_repinned else room.high
        if other != state and tokens + other.pin_tokens - state.pin_tokens <= most:
            head, pins = other, chosen  # else the next activation will see to it
            reason = reason or ("explicit" if is_repinned else "restored")
    if reason is None:
        return None
    bounds = state.bounds
    is_other = head is not state or state.system != now.system or reason in ("budget_lowered", "budget_raised")
    if is_other or (view.resumed is None and view.has_turn_ended(log)):
        bounds = log.bounds()

    # the tail without what the bounds make void; the present one, where that shows the same
    if bounds != tail.bounds or tail.is_stale:
        tail = Tail(tail.start, tail.room, now.sources.price, bounds, since=tail.since, whole=tail.whole)
        tail.extend(log)
    plan = Plan(msgspec.structs.replace(head, bounds=bounds), tail, pins, reason)
    return _overflow(now) if plan.tokens > room.tokens else plan  # it shows something again


def _overflow(now: NextView) -> Plan | None:
    """The gentlest of four rungs that brings the view well into its room, or else the smallest plan that fits: nothing
    squeezed; a header that gives way; everything shrunk; the newest message alone."""
    log, room, cuts = now.log, now.room, now.wanted()
    for plan in map(now.plan, now.cuts_of_summaries if now.sources.summaries.by_model else ()):
        if plan.tokens <= room.high and not now.lacks_summaries(plan):
            return plan
    if now.tail.start == now.state.stop:
        cuts = [*cuts, now.state.cut]
    last = now.cuts(mark.stop for mark in now.tail.marks[-2:] if mark.stop > now.state.stop)
    cuts = [*cuts, *(last if len(log) > log.group_ends[-1] else last[:-1])]
    best: Plan | None = None
    loose: Plan | None = None  # as little squeezed, but with long newest messages cut, or too full with them
    is_long = log.tokens[len(log)] - log.tokens[log.newest_group[0]] > room.message_share
    for squeeze, gives_way in ((0, False), (0, True), (TIGHT, False)):
        if squeeze and loose is not None:
            return loose
        for cut in cuts:
            plan = now.plan(cut, squeeze, gives_way=gives_way)
            if gives_way and plan.state.nodes and plan.state.nodes[0].form == "line":
                continue  # the past would be left out
            is_well = plan.tokens - plan.whole <= plan.tail.room.high - room.min_free and plan.tokens <= room.tokens
            if is_well and (squeeze or not plan.cut_short):
                return plan
            if is_well or (is_long and not (squeeze or plan.cut_short) and plan.tokens <= room.tokens):
                loose = plan if loose is None or loose.cut_short > plan.cut_short == 0 else loose
            if plan.tokens <= room.tokens and (best is None or plan.tokens < best.tokens):
                best = plan
    if best is not None:
        return best

    # the newest message without its group, at last without anything else
    start, stop = log.newest_group
    alone = [(BARE, WHOLE_GROUPS)] if stop - start < 2 else [] if start < now.state.stop else [(TIGHT, stop - 1)]
    made = (now.plan(now.cut(start), squeeze, since) for squeeze, since in (*alone, (BARE, stop - 1)))
    return next((plan for plan in made if plan.tokens <= room.tokens), None)
