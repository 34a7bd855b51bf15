"""States that come back: from an earlier process, from a checkpoint, by an undo, or with a log whose end is written
anew; and what of a view stays then.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from summarizing_context.log.kept_texts import Instructions, PlanItems
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.rules import StandingRules
from summarizing_context.messages.provider_bindings import Bounds
from summarizing_context.views.budget import Room, Shares
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.system_prompt import SystemRows
from summarizing_context.views.tail import Tail
from summarizing_context.views.view import ActivationState, Change, Replaced, common_prefix


def priced(state: ActivationState, price: Price, counter: str) -> ActivationState:
    """A state that an earlier process may have made, with tokens by this one's counter."""
    if state.counter != counter:
        state = msgspec.structs.replace(state, head_tokens=sum(map(price.message, state.head)), counter=counter)
    pins = sum(map(price.message, (*state.before, *state.after)))
    return msgspec.structs.replace(state, pin_tokens=pins)


def first_state(log: MessageLog, before: ActivationState, counter: str, *, system: str = "") -> ActivationState:
    """The state of a view that shows the whole log, in the room of the state before."""
    stop, repeats = log.leading_count, len(log)
    return ActivationState(
        serial=before.serial, room=before.room, stop=stop, counter=counter, system=system, repeats_stop=repeats
    )


def tail_behind(state: ActivationState, shares: Shares, price: Price, leading_count: int) -> Tail:
    """The tail behind a state, which shows nothing yet. It shows the whole log where only `leading_count` rows are
    before it."""
    room = Room(state.room, shares, state.squeeze, state.staying)
    return Tail(
        state.stop,
        room,
        price,
        state.folded,
        state.bounds,
        since=state.since,
        repeats_stop=state.repeats_stop,
        whole_log=state.stop == leading_count,
    )


class CoveredHistory(NamedTuple):
    """What a log tells of the messages that a state covers. Later messages may change it: they end a rule, or bring
    another text of a file."""

    segments: Sequence[str]  # their hashes
    leading_count: int
    rules: StandingRules
    plan: PlanItems | None
    instructions: Sequence[Instructions]
    pinned: Sequence[int]
    texts: Sequence[str | None]  # pinned by calls; an empty log has none


def covered_history_of(state: ActivationState, log: MessageLog) -> CoveredHistory:
    """What the log tells of what a state covers."""
    texts, stop = log.kept_texts, state.stop
    plan = texts.plan if texts.plan is not None and texts.plan.message < stop else None
    pinned = [index for index in log.pinned.indexes if index < stop]
    hashes, rules, said = log.hashes[: state.leaves], log.rules.before(stop), [pin.text for pin in log.pinned.texts]
    return CoveredHistory(hashes, log.leading_count, rules, plan, texts.instructions(stop), pinned, said)


def kept_state(
    state: ActivationState, history: CoveredHistory, old: Replaced, log: MessageLog
) -> ActivationState | None:
    """The state for a log whose end is written anew, so that its views begin as before; None where what the state
    covers is not the same any more, or nothing is left behind it."""
    same, length = old.same, len(log)
    covers = state.stop > log.leading_count
    if same < state.stop or (covers and (state.stop == length or log.group_start(state.stop) != state.stop)):
        return None
    if (state.folded and same < state.bounds.rewritten) or covered_history_of(state, log) != history:
        return None
    ends = [0, *(segment.stop for segment in log.segments[: state.leaves])]
    if ends[-1] != state.leaves_stop:
        return None
    bounds = _moved(state.bounds, old, log)
    repeats, held = min(state.repeats_stop, same), min(state.held_at, same)
    return msgspec.structs.replace(state, bounds=bounds, repeats_stop=repeats, held_at=held)


def _moved(bounds: Bounds, old: Replaced, log: MessageLog) -> Bounds:
    """The bounds for the new log: entries of before may stand elsewhere in it."""
    same = old.same
    if same >= bounds.rewritten:
        return bounds
    moved = {entry.data for entry in old.entries[same : bounds.rewritten]}
    last = max((at for at in range(same, len(log)) if log.entries[at].data in moved), default=same - 1)
    return Bounds(last + 1, min(bounds.settled, last + 1) if same >= bounds.settled else last + 1)


def prefix_kept(change: Change, rows: SystemRows, price: Price) -> int:
    """Tokens with which the view handed out last and the changed one begin alike, tools included."""
    last, leading = change.provider_view.last, rows.shown().messages
    head = [*leading, *change.state.head]
    kept = common_prefix(last, head)
    tokens = rows.tokens if kept >= len(leading) else 0
    known = {id(pin.message): pin.tokens for pin in change.pins}
    tokens += sum(known.get(id(message)) or price.message(message) for message in head[len(leading) : kept])
    if kept == len(head):
        items = change.tail.items[: common_prefix(last[kept:], [item.message for item in change.tail.items])]
        tokens += sum(item.tokens for item in items)
    return tokens
