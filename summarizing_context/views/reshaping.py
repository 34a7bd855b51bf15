"""Reshaping a view in which nothing more has to be covered: a replaced log, another prompt, other pins, a finished
turn, or memories for the first view.

Whether more has to be covered is decided in `planner`, which is asked first.
"""

from __future__ import annotations

from functools import partial

import msgspec

from summarizing_context.messages.provider_bindings import Bounds
from summarizing_context.views.activation import ActivationReport
from summarizing_context.views.budget import Room
from summarizing_context.views.memory_section import is_memory_block
from summarizing_context.views.pins import Pins
from summarizing_context.views.planner import ActivationPlanner
from summarizing_context.views.provider_view import Change, ProviderView
from summarizing_context.views.shrinking import Price
from summarizing_context.views.system_prompt import SystemRows
from summarizing_context.views.tail import Reads, Tail, feed
from summarizing_context.views.view import with_pins


class Reshaping:
    """Makes such changes for one session. Plain functions: nothing here waits."""

    def __init__(self, reads: Reads, decider: ActivationPlanner, leading: SystemRows, price: Price) -> None:
        self._timeline = reads.timeline
        self._reads = reads
        self._decider = decider
        self._leading = leading
        self._price = price

    def change(self, showing: ProviderView, room: Room, now: int) -> Change | None:
        """What changes in a view that costs `now` tokens beside its system rows; None for nothing."""
        return self._opening(showing, self._unforced(showing, room, now), room, now)

    def has_turn_ended(self, showing: ProviderView) -> bool:
        """Whether a turn that went on across an activation has ended: what was signed in it has to go then."""
        was = showing.state.bounds
        now = was._replace(settled=min(was.rewritten, self._timeline.bounds().settled))
        return now.settled > was.settled and showing.tail.binds(showing.tail.start, now)

    def _unforced(self, showing: ProviderView, room: Room, now: int) -> Change | None:
        pins = self._other_pins(showing, room, now)
        if showing.pending is None and pins is None:
            return None
        before, reason = showing.state, showing.pending or "explicit"
        state = before if pins is None else with_pins(before, pins)
        goes_on = showing.resumed is None  # else it goes back, to a view as it was
        rewrites = before.system != self._leading.name or (goes_on and self.has_turn_ended(showing))
        bounds = self._timeline.bounds() if rewrites or pins is not None else before.bounds
        tail = self._within(showing.tail, bounds)
        total, after = self._leading.tokens + now, self._leading.tokens + state.head_tokens + tail.tokens
        report = ActivationReport(True, reason, total, after, total - after)
        state = msgspec.structs.replace(
            state, serial=before.serial + 1, reason=reason, system=self._leading.name, bounds=bounds
        )
        shown = () if pins is None else (*pins.before, *pins.after)
        return Change(showing, before, state, tail, shown, report)

    def _other_pins(self, showing: ProviderView, room: Room, now: int) -> Pins | None:
        """Pins as they are chosen now, where calls have changed them and the view has room for it. Where it has none,
        the next activation will see to it."""
        nothing_said = len(self._timeline) == self._timeline.leading
        if not showing.pins_changed or nothing_said:
            return None
        showing.pins_changed = False
        pins = self._decider.pins(showing)
        state = with_pins(showing.state, pins)
        grown = state.head_tokens - showing.state.head_tokens
        return None if state == showing.state or now + grown > room.tokens else pins

    def _within(self, tail: Tail, bounds: Bounds) -> Tail:
        """The tail within other bounds, shown anew."""
        if bounds == tail.bounds:
            return tail
        made = partial(Tail, tail.start, tail.room, self._price, tail.folded, bounds)
        name = ("within", tail, len(self._timeline), bounds)
        anew = self._reads.pace.once(name, lambda: made(since=tail.since, repeats_stop=tail.repeats_stop))
        feed(self._reads, anew)
        return anew

    def _opening(self, showing: ProviderView, change: Change | None, room: Room, now: int) -> Change | None:
        """The first view since the context was opened takes up memories where it shows none, beside another change."""
        before, state = showing.state, showing.state if change is None else change.state
        if showing.last or showing.resumed is not None or any(map(is_memory_block, state.after)):
            return change
        block = self._decider.memory_block(room)
        if block is None or now + state.head_tokens - before.head_tokens + block.tokens > room.high:
            return change
        head, pins = state.head_tokens + block.tokens, state.pin_tokens + block.tokens
        serial, reason, after = before.serial + 1, showing.pending or "restored", (*state.after, block.message)
        state = msgspec.structs.replace(
            state, serial=serial, reason=reason, after=after, head_tokens=head, pin_tokens=pins
        )
        tail, shown = (showing.tail, ()) if change is None else (change.tail, change.pins)
        total, grown = self._leading.tokens + now, head + tail.tokens - now
        report = ActivationReport(True, reason, total, total + grown, -grown)
        return Change(showing, before, state, tail, shown, report)
