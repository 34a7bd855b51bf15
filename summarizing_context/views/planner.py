"""The activation planner: whether a provider's next view begins differently, and how.

Pure. `plan_activation` decides, by the table `CASES`, and changes nothing. Drafts of views are worked out when a case
asks for them, are kept until it is decided, and may pause the decision (`concurrency.Pause`). The viewer gathers the
situation, notes what the decision says, and carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from summarizing_context.log.tree import Cut, notes, stand_ins
from summarizing_context.views.activation import ActivationPlan, ActivationRequest, Reason
from summarizing_context.views.blocks import is_memory_block
from summarizing_context.views.budget import TIGHT
from summarizing_context.views.drafts import KEEP_BESIDE_NOTE, Candidates, NextView
from summarizing_context.views.pins import Pins
from summarizing_context.views.tail import TailItem
from summarizing_context.views.view import with_pins

_SUMMARY = 0.4  # of its source, that a model's summary takes, about


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
    """The gentlest of three rungs that brings the view well into its room, or else the smallest plan that fits: nothing
    squeezed; everything shrunk; the newest message alone."""
    candidates, room = now.candidates(), now.room
    cuts = _cuts(now, candidates)
    if now.tail.start == now.state.stop:
        cuts = [*cuts, now.state.cut]
    cuts = [*cuts, *(candidates.last if now.is_newest_open() else candidates.last[:-1])]
    best: ActivationPlan | None = None
    for squeeze in (0, TIGHT):
        for cut in cuts:
            plan = now.plan(cut, squeeze)
            if plan.tokens <= plan.room.high - room.min_free:
                return Decision(plan)
            if plan.tokens <= room.tokens and (best is None or plan.tokens < best.tokens):
                best = plan
        if best is not None and best.tokens <= room.tokens - room.min_free:
            break
    return Decision(best or next((plan for plan in now.newest_alone() if plan.tokens <= room.tokens), None))


def _topic_note(now: NextView) -> Decision:
    """The first plan that differs, and has a note or is smaller."""

    def serves(plan: ActivationPlan) -> bool:
        return (bool(plan.header.notes) or plan.tokens < now.tokens) and _differs(now, plan) and _has_room(now, plan)

    cuts = _cuts(now, now.candidates())
    return Decision(_first(now, [*cuts, *now.covered()], serves))


def _requested(now: NextView) -> Decision:
    """The first plan that differs and is not larger; else the present cut anew."""

    def serves(plan: ActivationPlan) -> bool:
        return plan.tokens <= now.tokens and _differs(now, plan) and _has_room(now, plan)

    request = now.asked.activation or ActivationRequest()
    cuts = _cuts(now, now.candidates())
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
    for cut in now.candidates().low_water:
        plan = now.plan(cut)
        if now.tokens - plan.tokens < now.room.min_free:
            continue
        if plan.tokens <= now.room.high - now.room.min_free:
            return Decision(plan)
        if best is None or plan.tokens < best.tokens:
            best = plan
    return Decision(best)


def _too_many_messages(now: NextView) -> Decision:
    """The first plan that is not too full, though it frees no tokens; where a model summarizes ahead, at an end of
    what it was asked for."""
    cuts = [*now.ahead, *now.candidates().fewest]
    return Decision(_first(now, cuts, partial(_has_room, now)))


def _explicit(now: NextView) -> Decision:
    """The first plan that frees anything; else the present cut, if it does or anybody would see a difference."""

    def frees(plan: ActivationPlan) -> bool:
        return plan.tokens < now.tokens and plan.tokens <= now.room.tokens

    made = _first(now, _cuts(now, now.candidates()), frees)
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


def _cuts(now: NextView, candidates: Candidates) -> list[Cut]:
    """Where to cut, best first. A number of messages that a request leaves raw is met, or nothing is done."""
    cuts = list(candidates.low_water)
    if now.asked.reason == "explicit" and not (now.overflows or now.is_high):
        cuts = _worthwhile(now, candidates)
    if now.asked.activation is None and (now.asked.focus is None or cuts or now.covered()):
        return cuts
    request = now.asked.activation
    keep = request.keep_messages if request else KEEP_BESIDE_NOTE  # a note needs something covered
    return [*candidates.to_keep, *cuts] if now.overflows or keep is None else list(candidates.to_keep)


def _worthwhile(now: NextView, candidates: Candidates) -> list[Cut]:
    """The cuts that bring the tail nearer to the low water, so that asking twice does what asking once does: where
    nothing was said since the view was cut at the end of a segment, another group is no reason to cut again."""
    state, low = now.state, now.room.low
    pairs = zip(candidates.low_water, candidates.raw_tokens, strict=True)
    cuts = [cut for cut, left in pairs if abs(left - low) < abs(now.tail.tokens - low)]
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
