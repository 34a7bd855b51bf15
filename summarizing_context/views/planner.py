"""The activation planner: whether a provider's next view begins differently, and how.

Pure. `NextView` tells how the present view stands, where it may be cut, and what it would show then; asking for a plan
changes no view. `plan_activation` decides. The viewer notes what the decision says, and carries it out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from summarizing_context.log.entries import Bounds
from summarizing_context.log.tree import FRAME, Cut, cut_at, notes, stand_ins
from summarizing_context.views.budget import BARE, TIGHT, Room
from summarizing_context.views.header import NO_HEADER, Header
from summarizing_context.views.pins import Staying, choose_staying
from summarizing_context.views.sections import (
    Sources,
    is_memory_block,
    memory_block,
    write_head,
)
from summarizing_context.views.tail import WHOLE_GROUPS, Mark, Tail, TailItem, extend_tail, tail_at
from summarizing_context.views.view import (
    NO_PINS,
    ActivationRequest,
    ActivationState,
    Pins,
    ProviderView,
    Reason,
    with_pins,
)
from summarizing_context.worker.summary_cache import Focus


class ActivationPlan(NamedTuple):
    """A view's prefix and tail as an activation would make them."""

    cut: Cut
    room: Room
    header: Header
    pins: Pins
    tail: Tail
    focus: Focus | None = None  # the topic of the note in the header
    keep_from: float | None = None  # a threshold of importance that a call has set

    @property
    def tokens(self) -> int:
        """Cost of the view beside its system rows."""
        return self.header.tokens + self.pins.tokens + self.tail.tokens


@dataclass
class NextView:
    """The next view of one provider: how the present one stands, what is asked for, and plans of other ones.

    Tokens are those beside the system rows; places are indexes of log entries.
    """

    sources: Sources
    provider_view: ProviderView
    room: Room  # for the next view
    reason: Reason | None  # why to activate although there is no need
    topic: str | None  # of which the header has to keep a note
    request: ActivationRequest | None
    memories: tuple[str, ...]  # of earlier sessions, the most relevant first
    system: str  # names the system prompt that leads
    only_looks: bool = False

    def __post_init__(self) -> None:
        self.log, settings, room = self.sources.log, self.sources.settings, self.room
        self.state, self.tail = state, tail = self.provider_view.state, self.provider_view.tail
        self.tokens = state.head_tokens + tail.tokens
        self.keep_recent = settings.keep_recent or 0  # messages that stay raw where they fit
        self._plans: dict[tuple[Cut, int, bool], ActivationPlan] = {}

        # what the newest message lacks though an activation would make room for it; whether it had no room when the
        # view began, and has it now
        newest = tail.items[-1] if tail.items and not self.only_looks else None
        fits_whole = newest is not None and newest.tokens + newest.left_out <= room.newest_share
        self.cut_short = newest.left_out if newest is not None and fits_whole else 0
        self.is_widened = room.tokens > tail.room.tokens and (tail.room.is_bare or self.cut_short > 0)

        # the view cannot be sent, or shows less than there is room for only because it could not before; it is above
        # its high water, or would be if it showed the newest message whole
        self.overflows = self.tokens > room.tokens or self.is_widened
        self.is_high = self.tokens + self.cut_short > room.high

        # more messages than the view should have; half of them at least are the tail's
        self.has_too_many = False
        if (most := settings.max_messages) is not None:
            head = max(self.log.leading_count, bool(state.system)) + len(state.head)
            self.has_too_many = len(tail.items) > max(most - head, most // 2, self.keep_recent or 1)

        # whether this counts as an attempt: what could be done on a cold cache alone may soon have to be
        self.is_needed = self.overflows or self.is_high or self.has_too_many or self.reason == "explicit"

    @property
    def fewest_messages(self) -> int:
        """How many messages an activation for their number leaves raw, at least."""
        shares = self.room.shares
        left = (self.sources.settings.max_messages or 0) * shares.low_water / shares.high_water
        return max(int(left), self.keep_recent, 1)

    @cached_property
    def low_water(self) -> list[Cut]:
        """Where the tail may be cut, best first: at the segment boundary nearest to the low water, then at the group
        boundary nearest to it. Never below a quarter of the low water; not below `keep_recent` messages where that can
        be met. First of all the cut of the view that was shown in a smaller room, where that covers less."""
        tail, log, low, keep = self.tail, self.log, self.room.low, self.keep_recent
        last, end = tail.marks[-1], tail.tokens

        def nearest(marks: Sequence[Mark]) -> int | None:
            fair = [mark for mark in marks if end - mark.tokens >= low / 4]
            kept = [mark for mark in fair if last.items - mark.items >= keep] if keep else fair
            best = min(kept or fair, key=lambda mark: abs(end - mark.tokens - low), default=None)
            return None if best is None else best.stop

        ends = {segment.stop for segment in log.segments[self.state.leaves :] if segment.last_part}
        leaf = nearest([mark for mark in tail.marks if mark.stop in ends])
        group = nearest([mark for mark in tail.marks if mark.stop > (leaf or self.state.stop)])
        stops = [stop for stop in (leaf, group) if stop is not None]
        beside = self.provider_view.beside
        if beside is not None and max(tail.start, self.state.stop) < beside.stop <= last.stop:
            stops = stops if any(stop <= beside.stop for stop in stops) else [beside.stop, *stops]
        return self.cuts(stops)

    def cuts(self, stops: Iterable[int]) -> list[Cut]:
        """Return the cuts at these ends of groups, but for the present one. Without summaries there are no segments to
        cover, only messages to leave out."""
        segments, truncates = self.log.segments, self.sources.truncates
        stops = [stop for stop in stops if stop != self.state.stop]
        return [Cut(0, 0, stop) if truncates else cut_at(segments, stop) for stop in stops]

    def leaving(self, messages: int, ends: Container[int] | None = None) -> list[Cut]:
        """Return the cut that leaves so many messages raw, if there is one; where `ends` are given, at one of these."""
        stop = stop_leaving(self.tail, self.state.stop, messages, ends)
        return [] if stop is None else self.cuts([stop])

    @cached_property
    def ahead(self) -> list[Cut]:
        """The cut to make for the number of messages where a model summarizes: at the end of a segment. None where no
        more of them has ended."""
        if not self.has_too_many or not self.sources.summaries.by_model:
            return []
        ends = {segment.stop for segment in self.log.segments[self.state.leaves :] if segment.last_part}
        return self.leaving(self.fewest_messages, ends)

    def covered(self) -> list[Cut]:
        """Return the present cut, where anything is covered; with the segments that have closed since, once all are
        ready."""
        present = self.state.cut
        if present.stop <= self.log.leading_count:
            return []
        later = present if self.sources.truncates else cut_at(self.log.segments, present.stop)
        missing = self.sources.summaries.without_summary(present.leaves)
        return [present if missing and missing[0] < later.leaves else later]

    def plan(self, cut: Cut, squeeze: int = 0, *, gives_way: bool = False) -> ActivationPlan:
        """Return what an activation would make at a cut: with nothing squeezed, with a header that gives way to the
        messages behind it, or with everything shrunk (`TIGHT`)."""
        name = cut, squeeze, gives_way
        if name not in self._plans:
            self._plans[name] = self.composed(cut, squeeze, gives_way=gives_way)
        return self._plans[name]

    def composed(self, cut: Cut, squeeze: int, since: int = WHOLE_GROUPS, *, gives_way: bool = False) -> ActivationPlan:
        """Return such a plan, made now; of the group behind the cut it shows what came from entry `since` on."""
        log, sources, state = self.log, self.sources, self.state
        keep_from = state.keep_from
        if self.request is not None and self.request.keep_from is not None:
            keep_from = self.request.keep_from
        room = Room(self.room.tokens, self.room.shares, squeeze, gives_way=gives_way)
        staying = Staying()
        if not room.is_bare:
            staying, aside = self.staying(cut, Room(room.tokens, room.shares, gives_way=gives_way))
            room = room.setting_aside(aside)
        if since != WHOLE_GROUPS:  # each of few messages
            room = replace(room, cap=int(room.shares.message_share * room.shared))
        while True:
            tail = tail_at(log, sources.price, self.tail, cut.stop, room, since)
            plan = ActivationPlan(cut, room, NO_HEADER, NO_PINS, tail, state.focus, keep_from)
            if not room.is_bare and tail.tokens <= room.tokens:
                header, pins, focus = write_head(
                    sources,
                    state,
                    cut,
                    room,
                    staying,
                    tail.tokens,
                    memories=self.memories,
                    keep_from=keep_from,
                    topic=self.topic,
                )
                plan = plan._replace(header=header or NO_HEADER, pins=pins, focus=focus)
            if room.squeeze != TIGHT or since != WHOLE_GROUPS or plan.tokens <= room.tokens:
                return plan
            stays = log.staying(cut.stop, len(log))  # all are cut to the same length
            room = room.holding([log.cost(at) for at in range(cut.stop, len(log)) if at not in stays])

    def tail_within(self, bounds: Bounds) -> Tail:
        """Return the tail without what `bounds` make void; the present one, where that shows the same."""
        shown = self.tail
        if bounds == shown.bounds and not shown.is_stale:
            return shown
        tail = Tail(shown.start, shown.room, self.sources.price, bounds, since=shown.since, whole=shown.whole)
        extend_tail(self.log, tail)
        return tail

    def tokens_of(self, shape: Reshape) -> int:
        """Return the cost of the view in that shape."""
        pins = 0 if shape.pins is None else shape.pins.tokens - self.state.pin_tokens
        memories = 0 if shape.memories is None else shape.memories.tokens
        return self.state.head_tokens + pins + memories + shape.tail.tokens

    def staying(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        """What must stay of the past before a cut, with the tokens to set aside for it and for such rows behind."""
        log = self.log
        behind = log.staying(cut.stop, len(log))
        raw = sum(cost for cost in map(log.cost, behind) if cost <= room.staying_cap)
        staying = choose_staying(log.candidates(cut.stop), log, room, raw, self.sources.price)
        return staying, raw + sum(item.tokens for item in staying.items)


class Reshape(NamedTuple):
    """The same past covered, and the view told to begin differently."""

    reason: Reason
    tail: Tail
    pins: Pins | None = None  # chosen again; None to leave them
    memories: TailItem | None = None  # to be shown behind the pins


class Decision(NamedTuple):
    """What to do, and what to note; `change` is None for a view that goes on as it is."""

    change: ActivationPlan | Reshape | None = None
    is_attempt: bool = False  # an activation was tried, with or without success
    to_summarize: ActivationPlan | None = None  # too large now, and small enough once a model has summarized it
    pins_seen: bool = False  # changed pins were looked at


def plan_activation(now: NextView) -> Decision:
    """Decide what changes in a provider's next view.

    Args:
        now: the view and what is asked for; it works out plans on demand.

    Returns:
        The first acceptable plan of the first case that holds; on a cold cache a refreshed header at least; else
        other pins or memories, if the view has room for them.
    """
    plan, refused, is_attempt = None, None, False
    if _is_due(now):
        is_attempt = now.is_needed
        if now.overflows:
            plan = _overflow(now)
        elif now.topic is not None:
            plan = _first(
                now,
                [*_cuts(now), *now.covered()],
                lambda plan: _differs(now, plan) and (notes(plan.header.nodes) or plan.tokens < now.tokens),
            )
        elif now.request is not None:
            plan, refused = _requested(now, now.request)
        elif now.is_high:
            plan = _high_water(now)
        elif now.has_too_many:  # where a model summarizes ahead, at an end of what it was asked for
            plan = _first(now, [*now.ahead, *now.leaving(now.fewest_messages)], lambda _: True)
        elif now.reason == "explicit":
            plan = _first(now, _cuts(now), lambda plan: plan.tokens < now.tokens)
            if plan is None:
                plan = _first(now, now.covered(), lambda plan: plan.tokens < now.tokens or _differs(now, plan))
        else:  # the cache is cold
            plan = _high_water(now)
    if plan is None and now.reason == "idle" and (shown := stand_ins(now.state.nodes)):
        plan = _first(now, now.covered(), lambda plan: stand_ins(plan.header.nodes) < shown)
    if plan is not None or now.tokens > now.room.tokens:
        return Decision(plan, is_attempt, refused)
    shape, pins_seen = _reshaped(now)
    if shape is not None and now.tokens_of(shape) > now.room.tokens:  # what is shown again takes more
        return Decision(_overflow(now), is_attempt, refused)
    return Decision(shape, is_attempt, refused, pins_seen)


def _is_due(now: NextView) -> bool:
    """Whether an activation is tried: where it is needed, or a cold cache makes a large one cheap. Otherwise at most
    one attempt for every `min_free` new tokens, or for half of `max_messages` new ones."""
    settings, view = now.sources.settings, now.provider_view
    worth_it = now.reason is not None and now.tail.tokens >= now.room.low + settings.segment_target
    if not (now.is_needed or worth_it):
        return False
    if now.overflows or now.reason == "explicit" or now.ahead:
        return True
    if now.has_too_many and 2 * (len(now.log) - view.attempted_length) >= (settings.max_messages or 0):
        return True
    return view.attempted_at is None or now.log.history_tokens - view.attempted_at >= now.room.min_free


def _overflow(now: NextView) -> ActivationPlan | None:
    """The gentlest of four rungs that brings the view well into its room, or else the smallest plan that fits: nothing
    squeezed; a header that gives way; everything shrunk; the newest message alone."""
    log, room, cuts = now.log, now.room, _cuts(now)
    if now.tail.start == now.state.stop:
        cuts = [*cuts, now.state.cut]
    last = now.cuts(mark.stop for mark in now.tail.marks[-2:] if mark.stop > now.state.stop)
    cuts = [*cuts, *(last if len(log) > log.closed_groups_stop else last[:-1])]
    best: ActivationPlan | None = None
    for squeeze, gives_way in ((0, False), (0, True), (TIGHT, False)):
        for cut in cuts:
            plan = now.plan(cut, squeeze, gives_way=gives_way)
            if gives_way and plan.header.nodes and plan.header.nodes[0].form == "line":
                continue  # the past would be left out
            if plan.tokens <= plan.room.high - room.min_free:
                return plan
            if plan.tokens <= room.tokens and (best is None or plan.tokens < best.tokens):
                best = plan
    if best is not None:
        return best

    # the newest message without its group, at last without anything else
    start, stop = log.newest_group
    cut = Cut(0, 0, start) if now.sources.truncates else cut_at(log.segments, start)
    alone = [(BARE, WHOLE_GROUPS)] if stop - start < 2 else [] if start < now.state.stop else [(TIGHT, stop - 1)]
    made = (now.composed(cut, squeeze, since) for squeeze, since in (*alone, (BARE, stop - 1)))
    return next((plan for plan in made if plan.tokens <= room.tokens), None)


def _requested(now: NextView, request: ActivationRequest) -> tuple[ActivationPlan | None, ActivationPlan | None]:
    """The first plan that differs and is not larger; else the present cut again. With it, where none was, a plan that
    is refused for its size and may be smaller once a model has summarized what it covers."""

    def serves(plan: ActivationPlan) -> bool:
        return plan.tokens <= now.tokens and _differs(now, plan)

    cuts = _cuts(now)
    if (made := _first(now, cuts, serves)) is not None:
        return made, None
    refused = now.plan(cuts[0]) if cuts and request.keep_messages is not None else None
    if refused is not None:
        least, tokens = refused.tokens, now.log.tokens
        for node in refused.header.nodes:
            if stand_ins([node]):
                least -= max(
                    0, node.tokens - int(0.4 * (tokens[node.stop] - tokens[node.start]))
                )  # about what it takes
        refused = refused if least < min(now.tokens, refused.tokens) else None
    again = serves if request.keep_from is not None else lambda plan: _differs(now, plan)
    return _first(now, now.covered(), again), refused


def _high_water(now: NextView) -> ActivationPlan | None:
    """Of plans that free `min_free`, the first that leaves the view well below the high water, or the smallest."""
    best: ActivationPlan | None = None
    for cut in now.low_water:
        plan = now.plan(cut)
        if now.tokens + now.cut_short - plan.tokens < now.room.min_free or plan.tokens > now.room.tokens:
            continue
        if plan.tokens <= now.room.high - now.room.min_free:
            return plan
        if best is None or plan.tokens < best.tokens:
            best = plan
    return best


def _reshaped(now: NextView) -> tuple[Reshape | None, bool]:
    """What else the next view has to begin with where nothing more is covered, and whether changed pins were looked
    at."""
    view, state, sources, tail, log = now.provider_view, now.state, now.sources, now.tail, now.log
    pins: Pins | None = None
    if looks := view.pins_changed and len(log) > log.leading_count:  # pins as they would be chosen now
        staying, _ = now.staying(state.cut, Room(tail.room.tokens, tail.room.shares))
        header = state.head_tokens - state.pin_tokens
        _, pins, _ = write_head(
            sources,
            state,
            state.cut,
            tail.room,
            staying,
            tail.tokens,
            memories=now.memories,
            keep_from=state.keep_from,
            header_tokens=header,
        )
        if with_pins(state, pins) == state or now.tokens + pins.tokens - state.pin_tokens > now.room.tokens:
            pins = None  # the next activation will see to it
    shape: Reshape | None = None
    if pins is not None or view.pending is not None:
        other = state.system != now.system or view.pending in ("budget_lowered", "budget_raised")
        rebinds = pins is not None or other or (view.resumed is None and view.has_turn_ended(log))
        shape = Reshape(view.pending or "explicit", now.tail_within(log.bounds() if rebinds else state.bounds), pins)

    # memories, with the first view since the context was opened, where it shows none and has room
    if not view.last and view.resumed is None:
        after = state.after if pins is None else tuple(pin.message for pin in pins.after)
        grown = 0 if pins is None else pins.tokens - state.pin_tokens
        block = None if any(map(is_memory_block, after)) else memory_block(now.memories, now.room, sources.price)
        if block is not None and now.tokens + grown + block.tokens <= now.room.high:
            shape = shape or Reshape(view.pending or "restored", now.tail_within(state.bounds))
            shape = shape._replace(memories=block)
    return shape, looks


def _first(now: NextView, cuts: Iterable[Cut], serves: Callable[[ActivationPlan], object]) -> ActivationPlan | None:
    """The first plan that serves and is not too full: below the high water, or no larger than the view is."""
    most = min(max(now.room.high, now.tokens), now.room.tokens)
    return next((made for made in map(now.plan, cuts) if made.tokens <= most and serves(made)), None)


def _differs(now: NextView, plan: ActivationPlan) -> bool:
    """Whether a reader would see a difference to the present view."""
    state, header = now.state, plan.header
    if stand_ins(header.nodes) < stand_ins(state.nodes) or plan.cut.stop != state.stop:
        return True
    return tuple(pin.message for pin in plan.pins.after) != state.after or notes(header.nodes) != notes(state.nodes)


def _cuts(now: NextView) -> list[Cut]:
    """Where to cut, best first. A number of messages that a request leaves raw is met, or nothing is done."""
    cuts, state, request = now.low_water, now.state, now.request
    if now.reason == "explicit" and not (now.overflows or now.is_high):
        # Only what brings the tail nearer to the low water, so that asking twice does what asking once does: where
        # nothing was said since the view was cut at the end of a segment, another group is no reason to cut again.
        tail, low = now.tail, now.room.low
        cuts = [cut for cut in cuts if abs(tail.after(cut.stop) - low) < abs(tail.tokens - low)]
        is_known = state.bounds.rewritten == len(now.log) and state.room == now.room.tokens
        at_end = state.stop == state.leaves_stop > now.log.leading_count
        if is_known and at_end and all(cut.stop > cut.leaves_stop for cut in cuts):
            cuts = []
    if request is None and (now.topic is None or cuts or now.covered()):
        return cuts
    keep = request.keep_messages if request else 10  # a note needs something covered
    to_keep = now.leaving(max(keep or 1, now.keep_recent))
    return [*to_keep, *cuts] if now.overflows or keep is None else to_keep


def stop_leaving(tail: Tail, present: int, messages: int, ends: Container[int] | None = None) -> int | None:
    """Return the last cut behind the `present` one that leaves so many messages, if there is one. Where `ends` are
    given it is one of these."""
    shown = tail.marks[-1].items
    stops = (mark.stop for mark in reversed(tail.marks) if mark.stop > present and shown - mark.items >= messages)
    return next((stop for stop in stops if ends is None or stop in ends), None)


def segment_to_close(sources: Sources, state: ActivationState, tail: Tail, room: Room) -> int | None:
    """Return where the open segment has to end for the next activation of a view; None while that is far, or where
    closed segments free enough.

    It ends a little ahead, so that a model has summarized it by then: at the last end of a group that the view had room
    for, a little below its high water. The log, the view and the settings alone say where.
    """
    summaries, segments = sources.summaries, sources.log.segments
    before = room.high - 1.25 * room.low - state.head_tokens
    if not summaries.by_model or sources.truncates or tail.start != state.stop or tail.tokens <= before:
        return None
    at = bisect_right(tail.marks, before + tail.marks[0].tokens, key=lambda mark: mark.tokens) - 1
    stop = tail.marks[max(0, at)].stop
    cut = cut_at(segments, stop)
    if stop <= max(sources.log.covered_by_segments, state.stop):
        return None

    # what covering the closed segments frees, and what covering the open one up to there; by the cap of summaries,
    # for where segments end must not depend on what is ready
    each = FRAME + summaries.sizes.leaf
    added = each * (cut.leaves - state.leaves)
    whole = tail.tokens - tail.after(cut.leaves_stop) - added if cut.leaves_stop > state.stop else 0
    freed = tail.tokens - tail.after(stop) - added - each
    return stop if whole < room.min_free <= freed else None
