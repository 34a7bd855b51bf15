"""States that come back: from an earlier process, from a checkpoint, or by an undo; and what of a view stays then.

Pure.
"""

from __future__ import annotations

import msgspec

from summarizing_context.views.budget import Room, Shares
from summarizing_context.views.shrunk_messages import Price
from summarizing_context.views.system_prompt import SystemRows
from summarizing_context.views.tail import Tail
from summarizing_context.views.view import ActivationState, Change, common_prefix


def priced(state: ActivationState, price: Price, counter: str) -> ActivationState:
    """A state that an earlier process may have made, with tokens by this one's counter."""
    if state.counter != counter:
        state = msgspec.structs.replace(state, head_tokens=sum(map(price.message, state.head)), counter=counter)
    pins = sum(map(price.message, (*state.before, *state.after)))
    return msgspec.structs.replace(state, pin_tokens=pins)


def tail_behind(state: ActivationState, shares: Shares, price: Price) -> Tail:
    """The tail behind a state, which shows nothing yet."""
    room = Room(state.room, shares, state.squeeze, state.staying)
    repeats = state.repeats_stop
    return Tail(state.stop, room, price, state.folded, state.bounds, since=state.since, repeats_stop=repeats)


def prefix_kept(change: Change, rows: SystemRows, price: Price) -> int:
    """Tokens with which the view handed out last and the changed one begin alike, tools included."""
    last, leading = change.provider_view.last, rows.messages()
    head = [*leading, *change.state.head]
    kept = common_prefix(last, head)
    tokens = rows.tokens if kept >= len(leading) else 0
    tokens += sum(map(price.message, head[len(leading) : kept]))
    if kept == len(head):
        items = change.tail.items[: common_prefix(last[kept:], [item.message for item in change.tail.items])]
        tokens += sum(item.tokens for item in items)
    return tokens
