"""The activation planner: whether a provider's next view begins differently, and how.

Pure. `NextView` tells how the present view stands, where it may be cut, and what it would show then; asking for a draft
changes no view. `plan_activation` decides, by the table `CASES`. The viewer notes
what the decision says, and carries it out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Segment
from summarizing_context.log.tree import FRAME, Cut, Node, cut_at, notes, stand_ins
from summarizing_context.views.activation import ActivationPlan, ActivationRequest, Reason, ViewRequest
from summarizing_context.views.blocks import is_memory_block
from summarizing_context.views.budget import BARE, TIGHT, Room
from summarizing_context.views.header import NO_HEADER
from summarizing_context.views.pins import NO_PINS, Pins, Staying, choose_staying
from summarizing_context.views.sections import Draft, Section, Sources, memories
from summarizing_context.views.tail import WHOLE_GROUPS, Mark, Tail, TailItem, tail_at
from summarizing_context.views.view import ActivationState, ProviderView, with_pins

_SUMMARY = 0.4  # of its source, that a model's summary takes, about

_KEEP_BESIDE_NOTE = 10  # messages that a note leaves raw where nothing was covered before and nothing has to be

_AHEAD = 1.25  # times `low_water` below `high_water`, from where on a cut inside a segment is foreseen


@dataclass(frozen=True)
class NextView:
    """The next view of one provider: how the present one stands, what is asked for, and drafts of other ones.

    Tokens are those beside the system rows; places are indexes of log entries.
    """

    sources: Sources
    sections: Sequence[Section]
    provider_view: ProviderView
    tail: Tail  # of the present view, or one that starts late in a long backlog
    room: Room  # for the next view
    asked: ViewRequest
    system: str  # names the system prompt that leads
    skipped: int = 0  # tokens of the log between the view's beginning and a tail that starts late
    only_looks: bool = False
    was_attempt: bool = False  # to activate, just now
    _plans: dict[tuple[Cut, int, bool], ActivationPlan] = field(default_factory=dict, init=False)

    @property
    def log(self) -> MessageLog:
        """The log as it stands."""
        return self.sources.log

    @property
    def state(self) -> ActivationState:
        """What the present view shows before its tail."""
        return self.provider_view.state

    @property
    def tokens(self) -> int:
        """What the view costs, without what is skipped."""
        return self.state.head_tokens + self.tail.tokens

    @property
    def overflows(self) -> bool:
        """The view cannot be sent, or shows less than there is room for only because it could not before."""
        return self.skipped > 0 or self.tokens > self.room.tokens or self.is_widened

    @property
    def is_widened(self) -> bool:
        """The newest message had no room when the view began, and has it now."""
        shown_room = self.provider_view.tail.room
        if self.room.tokens <= shown_room.tokens:
            return False
        return shown_room.is_bare or self.cut_short > 0

    @property
    def is_high(self) -> bool:
        """The view is above its high water, or would be if it showed the newest message whole."""
        return self.tokens + self.cut_short > self.room.high

    @property
    def cut_short(self) -> int:
        """What the newest message lacks though an activation would make room for it."""
        newest = self.tail.items[-1] if self.tail.items and not self.only_looks else None
        fits = newest is not None and newest.tokens + newest.left_out <= self.room.newest_share
        return newest.left_out if newest is not None and fits else 0

    @property
    def has_too_many(self) -> bool:
        """More messages than the view should have; half of them at least are the tail's."""
        most = self.sources.settings.max_messages
        if most is None:
            return False
        head = max(self.log.leading_count, bool(self.state.system)) + len(self.state.head)
        return len(self.tail.items) > max(most - head, most // 2, self.keep_recent or 1)

    @property
    def keep_recent(self) -> int:
        """How many messages stay raw where they fit."""
        return self.sources.settings.keep_recent or 0

    @property
    def is_needed(self) -> bool:
        """Whether this counts as an attempt: what could be done on a cold cache alone may soon have to be."""
        return self.overflows or self.is_high or self.has_too_many or self.asked.reason == "explicit"

    @property
    def may_attempt(self) -> bool:
        """At most one attempt for every `min_free` new tokens, or for half of `max_messages` new ones."""
        at, length = self.provider_view.attempted_at, self.provider_view.attempted_length
        new_messages = 0 if self.was_attempt else len(self.log) - length
        if self.has_too_many and 2 * new_messages >= (self.sources.settings.max_messages or 0):
            return True
        return not self.was_attempt and (at is None or self.log.history_tokens - at >= self.room.min_free)

    @property
    def is_first(self) -> bool:
        """No view was handed out since the context was opened."""
        return not self.provider_view.last and self.provider_view.resumed is None

    @property
    def messages_to_keep(self) -> int:
        """How many messages a request leaves raw, or a note where nothing else is covered for it."""
        request = self.asked.activation
        wanted = _KEEP_BESIDE_NOTE if request is None else request.keep_messages or 1
        return max(wanted, self.keep_recent)

    @property
    def fewest_messages(self) -> int:
        """How many messages an activation for their number leaves raw, at least."""
        shares = self.room.shares
        left = (self.sources.settings.max_messages or 0) * shares.low_water / shares.high_water
        return max(int(left), self.keep_recent, 1)

    @cached_property
    def low_water(self) -> list[Cut]:
        """Cuts near the low water, best first."""
        cuts = cuts_to_low_water(self.tail, self.room, self.state.cut, self.log.segments, self.keep_recent)
        return self._allowed([*self._shown_beside(cuts), *cuts])

    def leaving(self, messages: int, ends: Container[int] | None = None) -> list[Cut]:
        """Return the cut that leaves so many messages raw, if there is one; where `ends` are given, at one of these."""
        return self._allowed(cuts_leaving(self.tail, self.state.cut, self.log.segments, messages, ends))

    def last(self) -> list[Cut]:
        """Return the cuts before the newest closed group, and behind it."""
        stops = [mark.stop for mark in self.tail.marks[-2:] if mark.stop > self.state.stop]
        return self._allowed([cut_at(self.log.segments, stop) for stop in stops])

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
        anew = present if self.sources.truncates else cut_at(self.log.segments, present.stop)
        leaves = range(present.leaves, anew.leaves)
        is_ready = all(self.sources.summaries.is_ready(Node.leaf(leaf)) for leaf in leaves)
        return [anew if is_ready else present]

    def plan(self, cut: Cut, squeeze: int = 0, *, gives_way: bool = False) -> ActivationPlan:
        """Return what an activation would make at a cut: with nothing squeezed, with a header that gives way to the
        messages behind it, or with everything shrunk (`TIGHT`)."""
        name = cut, squeeze, gives_way
        if name not in self._plans:
            self._plans[name] = self._plan(cut, squeeze, WHOLE_GROUPS, gives_way)
        return self._plans[name]

    def newest_alone(self) -> list[ActivationPlan]:
        """Return plans that show the newest message without its group, at last without anything else."""
        log = self.log
        start, stop = log.newest_group
        cut = Cut(0, 0, start) if self.sources.truncates else cut_at(log.segments, start)
        is_covered = start < self.state.stop
        plans = [] if is_covered or stop - start < 2 else [self._plan(cut, TIGHT, stop - 1)]
        plans += [self._plan(cut, BARE, WHOLE_GROUPS)] if stop - start < 2 else []
        return [*plans, self._plan(cut, BARE, stop - 1)]

    def is_newest_open(self) -> bool:
        """Tell whether calls of the newest group may still be answered."""
        return len(self.log) > self.log.closed_groups_stop

    def pins(self) -> Pins:
        """Return the pins of the present view as they would be chosen now, for what it covers."""
        state, tail = self.state, self.provider_view.tail
        staying, _ = self._staying_of(state.cut, Room(tail.room.tokens, tail.room.shares))
        header = state.head_tokens - state.pin_tokens
        return self._draft(state.cut, tail.room, tail.tokens, staying, present_header=header).pins

    def memories(self) -> TailItem | None:
        """Return the memories that fit into the room, as one message."""
        return next(iter(memories(self._draft(self.state.cut, self.room, self.tail.tokens, Staying()))), None)

    def has_turn_ended(self) -> bool:
        """Tell whether what was signed in a turn has to go with its end; a view that goes back to another shows it."""
        return self.provider_view.resumed is None and self.provider_view.has_turn_ended(self.log)

    def log_tokens(self, start: int, stop: int) -> int:
        """Return what these log entries cost."""
        return self.log.tokens[stop] - self.log.tokens[start]

    def _plan(self, cut: Cut, squeeze: int, since: int, gives_way: bool = False) -> ActivationPlan:
        log, room = self.log, Room(self.room.tokens, self.room.shares, squeeze, gives_way=gives_way)
        staying, aside = self._staying_of(cut, room._replace(squeeze=0)) if not room.is_bare else (Staying(), 0)
        room = room.setting_aside(aside)
        if since != WHOLE_GROUPS:  # each of few messages
            room = room._replace(cap=int(room.shares.message_share * room.shared))
        plan = self._composed(cut, room, since, staying)
        if squeeze == TIGHT and since == WHOLE_GROUPS and plan.tokens > room.tokens:
            stays = log.staying(cut.stop, len(log))
            room = room.holding([log.cost(at) for at in range(cut.stop, len(log)) if at not in stays])
            plan = self._composed(cut, room, since, staying)
        return plan

    def _composed(self, cut: Cut, room: Room, since: int, staying: Staying) -> ActivationPlan:
        sources, state, request = self.sources, self.state, self.asked.activation
        tail = tail_at(sources.log, sources.price, self.tail, cut.stop, room, since)
        keep_from = state.keep_from if request is None or request.keep_from is None else request.keep_from
        if room.is_bare or tail.tokens > room.tokens:
            return ActivationPlan(cut, room, NO_HEADER, NO_PINS, tail, state.focus, keep_from)
        draft = self._draft(cut, room, tail.tokens, staying, keep_from=keep_from, topic=self.asked.focus)
        return ActivationPlan(cut, room, draft.header, draft.pins, tail, draft.focus, keep_from)

    def _staying_of(self, cut: Cut, room: Room) -> tuple[Staying, int]:
        """What must stay of the past before a cut, with the tokens to set aside for it and for such rows behind."""
        log = self.log
        behind = log.staying(cut.stop, len(log))
        raw = sum(cost for cost in map(log.cost, behind) if cost <= room.staying_cap)
        staying = choose_staying(log.candidates(cut.stop), log, room, raw, self.sources.price)
        return staying, raw + staying.tokens

    def _draft(self, cut: Cut, room: Room, tail_tokens: int, staying: Staying, **more: Any) -> Draft:
        more = {"memories": self.asked.memories, "keep_from": self.state.keep_from, **more}
        return Draft(self.sources, self.sections, self.state, cut, room, staying, tail_tokens, **more)

    def _shown_beside(self, cuts: Sequence[Cut]) -> list[Cut]:
        """The cut of the view that was shown in a smaller room, where it covers less than these do."""
        beside, tail = self.provider_view.beside, self.tail
        if beside is None or not max(tail.start, self.state.stop) < beside.stop <= tail.marks[-1].stop:
            return []
        return [] if any(cut.stop <= beside.stop for cut in cuts) else [cut_at(self.log.segments, beside.stop)]

    def _allowed(self, cuts: Sequence[Cut]) -> list[Cut]:
        """Without summaries there are no segments to cover, only messages to leave out."""
        cuts = [cut for cut in cuts if cut.stop != self.state.stop]
        return [Cut(0, 0, cut.stop) for cut in cuts] if self.sources.truncates else cuts


class Reshape(NamedTuple):
    """The same past covered, and the view told to begin differently."""

    reason: Reason
    pins: Pins | None = None  # chosen anew; None to leave them
    rebinds: bool = False  # show the tail without what the log has made void since
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
    made = Decision()
    if _is_due(now):
        case = next(case for case in CASES if case.holds(now))
        made = case.plan(now)._replace(is_attempt=now.is_needed)
    if made.change is None and now.asked.reason == "idle":
        made = made._replace(change=_refreshed(now))
    if made.change is None and not now.skipped and now.tokens <= now.room.tokens:
        return _reshaped(now, made)
    return made


def _is_due(now: NextView) -> bool:
    """Whether an activation is tried: where it is needed, or a cold cache makes a large one cheap; not too often."""
    worth_it = now.asked.reason is not None and now.tail.tokens >= now.room.low + now.sources.settings.segment_target
    if not (now.is_needed or worth_it):
        return False
    return now.overflows or now.asked.reason == "explicit" or bool(now.ahead) or now.may_attempt


class Case(NamedTuple):
    """Something that may ask for an activation, and the plan that serves it."""

    name: str
    holds: Callable[[NextView], bool]
    plan: Callable[[NextView], Decision]


def _overflow(now: NextView) -> Decision:
    """The gentlest of four rungs that brings the view well into its room, or else the smallest plan that fits: nothing
    squeezed; a header that gives way; everything shrunk; the newest message alone."""
    room, cuts = now.room, _cuts(now)
    if now.tail.start == now.state.stop:
        cuts = [*cuts, now.state.cut]
    cuts = [*cuts, *(now.last() if now.is_newest_open() else now.last()[:-1])]
    best: ActivationPlan | None = None
    for squeeze, gives_way in ((0, False), (0, True), (TIGHT, False)):
        for cut in cuts:
            plan = now.plan(cut, squeeze, gives_way=gives_way)
            if gives_way and plan.header.nodes and plan.header.nodes[0].form == "line":
                continue  # the past would be left out
            if plan.tokens <= plan.room.high - room.min_free:
                return Decision(plan)
            if plan.tokens <= room.tokens and (best is None or plan.tokens < best.tokens):
                best = plan
    return Decision(best or next((plan for plan in now.newest_alone() if plan.tokens <= room.tokens), None))


def _topic_note(now: NextView) -> Decision:
    """The first plan that differs, and has a note or is smaller."""

    def serves(plan: ActivationPlan) -> bool:
        return (bool(plan.header.notes) or plan.tokens < now.tokens) and _differs(now, plan) and _has_room(now, plan)

    cuts = _cuts(now)
    return Decision(_first(now, [*cuts, *now.covered()], serves))


def _requested(now: NextView) -> Decision:
    """The first plan that differs and is not larger; else the present cut anew."""

    def serves(plan: ActivationPlan) -> bool:
        return plan.tokens <= now.tokens and _differs(now, plan) and _has_room(now, plan)

    request = now.asked.activation or ActivationRequest()
    cuts = _cuts(now)
    made = _first(now, cuts, serves)
    if made is not None:
        return Decision(made)
    refused = now.plan(cuts[0]) if cuts and request.keep_messages is not None else None
    helps = refused is not None and _could_shrink(now, refused)
    again = serves if request.keep_from is not None else partial(_differs_and_has_room, now)
    made = _first(now, now.covered(), again)
    return Decision(made, to_summarize=refused if helps else None)


def _high_water(now: NextView) -> Decision:
    """Of plans that free `min_free`, the first that leaves the view well below the high water, or the smallest."""
    best: ActivationPlan | None = None
    for cut in now.low_water:
        plan = now.plan(cut)
        if now.tokens + now.cut_short - plan.tokens < now.room.min_free or plan.tokens > now.room.tokens:
            continue
        if plan.tokens <= now.room.high - now.room.min_free:
            return Decision(plan)
        if best is None or plan.tokens < best.tokens:
            best = plan
    return Decision(best)


def _too_many_messages(now: NextView) -> Decision:
    """The first plan that is not too full, though it frees no tokens; where a model summarizes ahead, at an end of
    what it was asked for."""
    cuts = [*now.ahead, *now.leaving(now.fewest_messages)]
    return Decision(_first(now, cuts, partial(_has_room, now)))


def _explicit(now: NextView) -> Decision:
    """The first plan that frees anything; else the present cut, if it does or anybody would see a difference."""

    def frees(plan: ActivationPlan) -> bool:
        return plan.tokens < now.tokens and plan.tokens <= now.room.tokens

    made = _first(now, _cuts(now), frees)
    if made is not None:
        return Decision(made)
    return Decision(_first(now, now.covered(), lambda plan: frees(plan) or _differs_and_has_room(now, plan)))


CASES = (  # the first that holds decides
    Case("overflow", lambda now: now.overflows, _overflow),
    Case("topic note", lambda now: now.asked.focus is not None, _topic_note),
    Case("request", lambda now: now.asked.activation is not None, _requested),
    Case("high water", lambda now: now.is_high, _high_water),
    Case("too many messages", lambda now: now.has_too_many, _too_many_messages),
    Case("explicit", lambda now: now.asked.reason == "explicit", _explicit),
    Case("cold cache", lambda now: now.asked.reason is not None, _high_water),
)


def _refreshed(now: NextView) -> ActivationPlan | None:
    """The same view with summaries that have become ready in the place of stand-ins."""
    shown = stand_ins(now.state.nodes)
    if not shown:
        return None

    def serves(plan: ActivationPlan) -> bool:
        return stand_ins(plan.header.nodes) < shown and _has_room(now, plan)

    return _first(now, now.covered(), serves)


def _reshaped(now: NextView, made: Decision) -> Decision:
    """Nothing more is covered: what else the next view has to begin with."""
    looks = now.provider_view.pins_changed and len(now.log) > now.log.leading_count
    pins = now.pins() if looks else None
    if pins is not None and not _has_room_for(now, pins):
        pins = None  # the next activation will see to it
    shape: Reshape | None = None
    if pins is not None or now.provider_view.pending is not None:
        other = now.state.system != now.system or now.provider_view.pending in ("budget_lowered", "budget_raised")
        rebinds = pins is not None or other or now.has_turn_ended()
        shape = Reshape(now.provider_view.pending or "explicit", pins, rebinds)
    if (block := _memories(now, pins)) is not None:
        shape = Reshape(now.provider_view.pending or "restored", pins, shape is not None and shape.rebinds, block)
    return made._replace(change=shape, pins_seen=looks)


def _memories(now: NextView, pins: Pins | None) -> TailItem | None:
    """The block that the first view since the context was opened takes up, where it shows none and has room."""
    if not now.is_first:
        return None
    after, grown = now.state.after, 0
    if pins is not None:
        after, grown = tuple(pin.message for pin in pins.after), pins.tokens - now.state.pin_tokens
    block = None if any(map(is_memory_block, after)) else now.memories()
    return None if block is None or now.tokens + grown + block.tokens > now.room.high else block


def _has_room_for(now: NextView, pins: Pins) -> bool:
    """Whether these pins are others than those of the view, and fit."""
    grown = pins.tokens - now.state.pin_tokens
    return with_pins(now.state, pins) != now.state and now.tokens + grown <= now.room.tokens


def _first(now: NextView, cuts: Iterable[Cut], serves: Callable[[ActivationPlan], bool]) -> ActivationPlan | None:
    return next((made for made in map(now.plan, cuts) if serves(made)), None)


def _cuts(now: NextView) -> list[Cut]:
    """Where to cut, best first. A number of messages that a request leaves raw is met, or nothing is done."""
    cuts = now.low_water
    if now.asked.reason == "explicit" and not (now.overflows or now.is_high):
        cuts = _worthwhile(now)
    if now.asked.activation is None and (now.asked.focus is None or cuts or now.covered()):
        return cuts
    request = now.asked.activation
    keep = request.keep_messages if request else _KEEP_BESIDE_NOTE  # a note needs something covered
    to_keep = now.leaving(now.messages_to_keep)
    return [*to_keep, *cuts] if now.overflows or keep is None else to_keep


def _worthwhile(now: NextView) -> list[Cut]:
    """The cuts that bring the tail nearer to the low water, so that asking twice does what asking once does: where
    nothing was said since the view was cut at the end of a segment, another group is no reason to cut again."""
    state, low = now.state, now.room.low
    cuts = [cut for cut in now.low_water if abs(now.tail.after(cut.stop) - low) < abs(now.tail.tokens - low)]
    is_known = state.bounds.rewritten == len(now.log) and state.room == now.room.tokens
    at_end = state.stop == state.leaves_stop > now.log.leading_count
    return [] if is_known and at_end and all(cut.stop > cut.leaves_stop for cut in cuts) else cuts


def _has_room(now: NextView, plan: ActivationPlan) -> bool:
    """Whether the plan is not too full: below the high water, or no larger than the view is."""
    most = max(now.room.high, now.tokens)
    return plan.tokens <= min(most, now.room.tokens)


def _differs(now: NextView, plan: ActivationPlan) -> bool:
    """Whether anybody would see a difference to the present view."""
    state = now.state
    after = tuple(pin.message for pin in plan.pins.after)
    fewer = stand_ins(plan.header.nodes) < stand_ins(state.nodes)
    same = plan.cut.stop == state.stop and after == state.after and plan.header.notes == notes(state.nodes)
    return fewer or not same


def _differs_and_has_room(now: NextView, plan: ActivationPlan) -> bool:
    return _differs(now, plan) and _has_room(now, plan)


def _could_shrink(now: NextView, refused: ActivationPlan) -> bool:
    """Whether a plan that is refused for its size may be smaller once a model has summarized what it covers."""
    least = refused.tokens
    for node in refused.header.nodes:
        if stand_ins([node]):
            least -= max(0, node.tokens - int(_SUMMARY * now.log_tokens(node.start, node.stop)))
    return least < min(now.tokens, refused.tokens)


def cuts_to_low_water(tail: Tail, room: Room, present: Cut, segments: Sequence[Segment], keep: int = 0) -> list[Cut]:
    """Return where the tail may be cut, best first: at the segment boundary nearest to the low water, then at the group
    boundary nearest to it. Never below a quarter of the low water; not below `keep` messages where that can be met."""
    last = tail.marks[-1]
    end = last.tokens + tail.after(last.stop)

    def nearest(marks: Sequence[Mark]) -> int | None:
        fair = [mark for mark in marks if end - mark.tokens >= room.low / 4]
        kept = [mark for mark in fair if last.items - mark.items >= keep] if keep else fair
        best = min(kept or fair, key=lambda mark: abs(end - mark.tokens - room.low), default=None)
        return None if best is None else best.stop

    ends = {segment.stop for segment in segments[present.leaves :] if segment.last_part}
    leaf = nearest([mark for mark in tail.marks if mark.stop in ends])
    group = nearest([mark for mark in tail.marks if mark.stop > (leaf or present.stop)])
    return [cut_at(segments, stop) for stop in (leaf, group) if stop is not None]


def cuts_leaving(
    tail: Tail, present: Cut, segments: Sequence[Segment], messages: int, ends: Container[int] | None = None
) -> list[Cut]:
    """Return the cut that leaves about `messages` messages, and no fewer if a group boundary allows. Where `ends` are
    given it is one of these."""
    stops = [mark.stop for mark in tail.marks if mark.stop > present.stop and (ends is None or mark.stop in ends)]
    enough = [stop for stop in stops if messages_after(tail, stop) >= messages]
    return [cut_at(segments, enough[-1])] if enough else []


def messages_after(tail: Tail, stop: int) -> int:
    """Return how many messages a tail shows behind the group that ends at `stop`."""
    return tail.marks[-1].items - tail.mark(stop).items


def is_near(state: ActivationState, tail: Tail, room: Room) -> bool:
    """Tell whether a view is so large that its next activation is near."""
    return state.head_tokens + tail.tokens > room.high - room.min_free


def segment_to_close(sources: Sources, state: ActivationState, tail: Tail, room: Room) -> int | None:
    """Return where the open segment has to end for the next activation of a view; None while that is far, or where
    closed segments free enough.

    It ends a little ahead, so that a model has summarized it by then: at the last end of a group that the view had room
    for, a little below its high water. The log, the view and the settings alone say where.
    """
    summaries, segments = sources.summaries, sources.log.segments
    before = room.high - _AHEAD * room.low - state.head_tokens
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
