"""The activation planner: whether a provider's next view begins differently, and how.

Pure. `plan_activation` decides, by the table `CASES`, and changes nothing. Drafts of views are worked out when a case
asks for them, are kept until it is decided, and may pause the decision (`concurrency.Pause`). The builder gathers the
situation, notes what the decision says, and carries it out. How a view that overflows is brought into its room is in
`overflow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from summarizing_context.log.tree import Cut, notes, stand_ins
from summarizing_context.views.activation import ActivationPlan, ActivationRequest, Build, Reason
from summarizing_context.views.budget import Room
from summarizing_context.views.memory_section import is_memory_block
from summarizing_context.views.overflow import Newest, fit
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail_items import TailItem
from summarizing_context.views.view import ActivationState, ViewPolicy, with_pins

_KEEP_BESIDE_NOTE = 10  # messages that a note leaves raw where nothing was covered before and nothing has to be

_SUMMARY = 0.4  # of its source, that a model's summary takes, about


class Situation(NamedTuple):
    """A provider's view as it stands, and what is asked for. Tokens are those beside the system rows; places are
    indexes of log entries."""

    state: ActivationState  # what the view shows before its tail
    policy: ViewPolicy
    room: Room  # for the next view
    shown_room: Room  # for which the tail is shown
    tail_start: int
    tail_tokens: int
    tail_messages: int
    skipped: int = 0  # tokens of the log between the view's beginning and a tail that starts late
    reason: Reason | None = None  # why to activate although there is no need
    focus: str | None = None  # a topic of which the header has to keep a note
    request: ActivationRequest | None = None
    memories: tuple[str, ...] = ()  # of earlier sessions, the most relevant first
    pending: Reason | None = None  # why the next view begins differently in any case
    leading_count: int = 0  # system rows that lead the log
    log_length: int = 0  # messages
    new_tokens: float = inf  # of the log since the last attempt to activate; inf where none was made
    new_messages: int = 0  # since then
    ahead: tuple[Cut, ...] = ()  # cuts at the end of what a model summarizes ahead; where there are too many messages
    hides_newest: bool = False  # the newest message answers calls that the view folds
    is_first: bool = False  # no view was handed out since the context was opened
    pins_changed: bool = False  # by a call, since they were chosen
    system_changed: bool = False  # another system prompt leads
    newest_whole: float = inf  # what the newest message costs, where the view shows it cut

    @property
    def tokens(self) -> int:
        """What the view costs, without what is skipped."""
        return self.state.head_tokens + self.tail_tokens

    @property
    def overflows(self) -> bool:
        """The view cannot be sent, or shows less than there is room for only because it could not before."""
        return self.skipped > 0 or self.tokens > self.room.tokens or self.is_widened or self.hides_newest

    @property
    def is_widened(self) -> bool:
        """The newest message had no room when the view began, and has it now."""
        fits = self.shown_room.is_bare or self.newest_whole <= self.room.message_cap(0)
        return self.room.tokens > self.shown_room.tokens and fits

    @property
    def is_high(self) -> bool:
        return self.tokens > self.room.high

    @property
    def has_too_many(self) -> bool:
        """More messages than the view should have; half of them at least are the tail's."""
        most = self.policy.max_messages
        if most is None:
            return False
        head = max(self.leading_count, bool(self.state.system)) + len(self.state.head)
        return self.tail_messages > max(most - head, most // 2, self.policy.keep_recent or 1)

    @property
    def is_needed(self) -> bool:
        """Whether this counts as an attempt: what could be done on a cold cache alone may soon have to be."""
        return self.overflows or self.is_high or self.has_too_many or self.reason == "explicit"

    @property
    def may_attempt(self) -> bool:
        """At most one attempt for every `min_free` new tokens, or for half of `max_messages` new ones."""
        many = self.has_too_many and 2 * self.new_messages >= (self.policy.max_messages or 0)
        return many or self.new_tokens >= self.room.min_free

    @property
    def messages_to_keep(self) -> int:
        """How many messages a request leaves raw, or a note where nothing else is covered for it."""
        wanted = _KEEP_BESIDE_NOTE if self.request is None else self.request.keep_messages or 1
        return max(wanted, self.policy.keep_recent or 0)

    @property
    def fewest_messages(self) -> int:
        """How many messages an activation for their number leaves raw, at least."""
        left = (self.policy.max_messages or 0) * self.room.shares.low_water / self.room.shares.high_water
        return max(int(left), self.policy.keep_recent or 0, 1)


class Candidates(NamedTuple):
    """Where the view may be cut; each kind best first, and none where the view is cut already."""

    low_water: Sequence[Cut]  # near the low water
    raw_tokens: Sequence[int]  # what each of these leaves of the tail
    to_keep: Sequence[Cut]  # leaving `messages_to_keep`
    fewest: Sequence[Cut]  # leaving `fewest_messages`
    last: Sequence[Cut]  # before the newest closed group, and behind it


class Drafts(Protocol):
    """What only some cases need, worked out when it is asked for. Asking for one changes no view."""

    def candidates(self) -> Candidates: ...

    def covered(self) -> list[Cut]:
        """The present cut, with segments that are ready since; none where nothing is covered."""
        ...

    def newest(self) -> Newest: ...

    def plan(self, cut: Cut, room: Room, folded: tuple[int, ...] = ()) -> ActivationPlan: ...

    def pins(self) -> Pins:
        """The pins of the present view as they would be chosen now."""
        ...

    def memories(self) -> TailItem | None:
        """The block of memories that the room holds."""
        ...

    def has_turn_ended(self) -> bool:
        """Whether the tail shows what has to go with the end of its turn."""
        ...

    def log_tokens(self, start: int, stop: int) -> int: ...


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


def plan_activation(now: Situation, drafts: Drafts) -> Decision:
    """Decide what changes in a provider's next view.

    Args:
        now: the view and what is asked for.
        drafts: candidate cuts and plans, worked out on demand.

    Returns:
        The first acceptable plan of the first case that holds; on a cold cache a refreshed header at least; else
        other pins or memories, if the view has room for them.
    """
    made = Decision()
    if _is_due(now):
        case = next(case for case in CASES if case.holds(now))
        made = case.plan(now, drafts)._replace(is_attempt=now.is_needed)
    if made.change is None and now.reason == "idle":
        made = made._replace(change=_refreshed(now, drafts))
    if made.change is None and not now.skipped and now.tokens <= now.room.tokens:
        return _reshaped(now, drafts, made)
    return made


def _is_due(now: Situation) -> bool:
    """Whether an activation is tried: where it is needed, or a cold cache makes a large one cheap; not too often."""
    if not now.is_needed and (now.reason is None or now.tail_tokens < now.room.low + now.policy.leaf):
        return False
    return now.overflows or now.reason == "explicit" or bool(now.ahead) or now.may_attempt


class Case(NamedTuple):
    """Something that may ask for an activation, and the plan that serves it."""

    name: str
    holds: Callable[[Situation], bool]
    plan: Callable[[Situation, Drafts], Decision]


def _overflow(now: Situation, drafts: Drafts) -> Decision:
    """The gentlest step of the ladder that fits."""
    candidates = drafts.candidates()
    cuts = _cuts(now, candidates, drafts)
    if now.tail_start == now.state.stop:
        cuts = [*cuts, now.state.cut]
    return Decision(fit(now.room, cuts, candidates.last, drafts.newest(), drafts.plan))


def _topic_note(now: Situation, drafts: Drafts) -> Decision:
    """The first plan that differs, and has a note or is smaller."""

    def serves(plan: ActivationPlan) -> bool:
        return (bool(plan.header.notes) or plan.tokens < now.tokens) and _differs(now, plan) and _has_room(now, plan)

    cuts = _cuts(now, drafts.candidates(), drafts)
    return Decision(_first(drafts.plan, now.room, [*cuts, *drafts.covered()], serves))


def _requested(now: Situation, drafts: Drafts) -> Decision:
    """The first plan that differs and is not larger; else the present cut anew."""

    def serves(plan: ActivationPlan) -> bool:
        return plan.tokens <= now.tokens and _differs(now, plan) and _has_room(now, plan)

    request = now.request or ActivationRequest()
    cuts = _cuts(now, drafts.candidates(), drafts)
    made = _first(drafts.plan, now.room, cuts, serves)
    if made is not None:
        return Decision(made)
    refused = drafts.plan(cuts[0], now.room) if cuts and request.keep_messages is not None else None
    helps = refused is not None and _could_shrink(refused, now.tokens, drafts)
    again = serves if request.keep_from is not None else partial(_differs_and_has_room, now)
    made = _first(drafts.plan, now.room, drafts.covered(), again)
    return Decision(made, to_summarize=refused if helps else None)


def _high_water(now: Situation, drafts: Drafts) -> Decision:
    """Of plans that free `min_free`, the first that leaves the view well below the high water, or the smallest."""
    best: ActivationPlan | None = None
    for cut in drafts.candidates().low_water:
        plan = drafts.plan(cut, now.room)
        if now.tokens - plan.tokens < now.room.min_free:
            continue
        if plan.tokens <= now.room.high - now.room.min_free:
            return Decision(plan)
        if best is None or plan.tokens < best.tokens:
            best = plan
    return Decision(best)


def _too_many_messages(now: Situation, drafts: Drafts) -> Decision:
    """The first plan that is not too full, though it frees no tokens; where a model summarizes ahead, at an end of
    what it was asked for."""
    cuts = [*now.ahead, *drafts.candidates().fewest]
    return Decision(_first(drafts.plan, now.room, cuts, partial(_has_room, now)))


def _explicit(now: Situation, drafts: Drafts) -> Decision:
    """The first plan that frees anything; else the present cut, if it does or anybody would see a difference."""

    def frees(plan: ActivationPlan) -> bool:
        return plan.tokens < now.tokens and plan.tokens <= now.room.tokens

    made = _first(drafts.plan, now.room, _cuts(now, drafts.candidates(), drafts), frees)
    if made is not None:
        return Decision(made)
    return Decision(
        _first(drafts.plan, now.room, drafts.covered(), lambda plan: frees(plan) or _differs_and_has_room(now, plan))
    )


CASES = (  # the first that holds decides
    Case("overflow", lambda now: now.overflows, _overflow),
    Case("topic note", lambda now: now.focus is not None, _topic_note),
    Case("request", lambda now: now.request is not None, _requested),
    Case("high water", lambda now: now.is_high, _high_water),
    Case("too many messages", lambda now: now.has_too_many, _too_many_messages),
    Case("explicit", lambda now: now.reason == "explicit", _explicit),
    Case("cold cache", lambda now: now.reason is not None, _high_water),
)


def _refreshed(now: Situation, drafts: Drafts) -> ActivationPlan | None:
    """The same view with summaries that have become ready in the place of stand-ins."""
    shown = stand_ins(now.state.nodes)
    if not shown:
        return None

    def serves(plan: ActivationPlan) -> bool:
        return stand_ins(plan.header.nodes) < shown and _has_room(now, plan)

    return _first(drafts.plan, now.room, drafts.covered(), serves)


def _reshaped(now: Situation, drafts: Drafts, made: Decision) -> Decision:
    """Nothing more is covered: what else the next view has to begin with."""
    looks = now.pins_changed and now.log_length > now.leading_count
    pins = drafts.pins() if looks else None
    if pins is not None and not _has_room_for(now, pins):
        pins = None  # the next activation will see to it
    shape: Reshape | None = None
    if pins is not None or now.pending is not None:
        other = now.system_changed or now.pending in ("budget_lowered", "budget_raised")
        rebinds = pins is not None or other or drafts.has_turn_ended()
        shape = Reshape(now.pending or "explicit", pins, rebinds)
    if (block := _memories(now, drafts, pins)) is not None:
        shape = Reshape(now.pending or "restored", pins, shape is not None and shape.rebinds, block)
    return made._replace(change=shape, pins_seen=looks)


def _memories(now: Situation, drafts: Drafts, pins: Pins | None) -> TailItem | None:
    """The block that the first view since the context was opened takes up, where it shows none and has room."""
    if not now.is_first:
        return None
    after, grown = now.state.after, 0
    if pins is not None:
        after, grown = tuple(pin.message for pin in pins.after), pins.tokens - now.state.pin_tokens
    block = None if any(map(is_memory_block, after)) else drafts.memories()
    return None if block is None or now.tokens + grown + block.tokens > now.room.high else block


def _has_room_for(now: Situation, pins: Pins) -> bool:
    """Whether these pins are others than those of the view, and fit."""
    grown = pins.tokens - now.state.pin_tokens
    return with_pins(now.state, pins) != now.state and now.tokens + grown <= now.room.tokens


def _first(
    plan: Build, room: Room, cuts: Iterable[Cut], serves: Callable[[ActivationPlan], bool]
) -> ActivationPlan | None:
    return next((made for made in (plan(cut, room) for cut in cuts) if serves(made)), None)


def _cuts(now: Situation, candidates: Candidates, drafts: Drafts) -> list[Cut]:
    """Where to cut, best first. A number of messages that a request leaves raw is met, or nothing is done."""
    cuts = list(candidates.low_water)
    if now.reason == "explicit" and not (now.overflows or now.is_high):
        cuts = _worthwhile(now, candidates)
    if now.request is None and (now.focus is None or cuts or drafts.covered()):
        return cuts
    keep = now.request.keep_messages if now.request else _KEEP_BESIDE_NOTE  # a note needs something covered
    return [*candidates.to_keep, *cuts] if now.overflows or keep is None else list(candidates.to_keep)


def _worthwhile(now: Situation, candidates: Candidates) -> list[Cut]:
    """The cuts that bring the tail nearer to the low water, so that asking twice does what asking once does: where
    nothing was said since the view was cut at the end of a segment, another group is no reason to cut again."""
    state, low = now.state, now.room.low
    pairs = zip(candidates.low_water, candidates.raw_tokens, strict=True)
    cuts = [cut for cut, left in pairs if abs(left - low) < abs(now.tail_tokens - low)]
    is_known = state.bounds.rewritten == now.log_length and state.room == now.room.tokens
    at_end = state.stop == state.leaves_stop > now.leading_count
    return [] if is_known and at_end and all(cut.stop > cut.leaves_stop for cut in cuts) else cuts


def _has_room(now: Situation, plan: ActivationPlan) -> bool:
    """Whether the plan is not too full: below the high water, or no larger than the view is."""
    most = max(now.room.high, now.tokens)
    return plan.tokens <= min(most, now.room.tokens)


def _differs(now: Situation, plan: ActivationPlan) -> bool:
    """Whether anybody would see a difference to the present view."""
    state = now.state
    after = tuple(pin.message for pin in plan.pins.after)
    fewer = stand_ins(plan.header.nodes) < stand_ins(state.nodes)
    same = plan.cut.stop == state.stop and after == state.after and plan.header.notes == notes(state.nodes)
    return fewer or not same


def _differs_and_has_room(now: Situation, plan: ActivationPlan) -> bool:
    return _differs(now, plan) and _has_room(now, plan)


def _could_shrink(refused: ActivationPlan, now: int, drafts: Drafts) -> bool:
    """Whether a plan that is refused for its size may be smaller once a model has summarized what it covers."""
    least = refused.tokens
    for node in refused.header.nodes:
        if stand_ins([node]):
            least -= max(0, node.tokens - int(_SUMMARY * drafts.log_tokens(node.start, node.stop)))
    return least < min(now, refused.tokens)
