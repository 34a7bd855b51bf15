"""Pins: covered messages that stay in the view word for word.

Pure. They are chosen at activations only: a pin that came or went between them would rewrite the cached prefix.
The first human message, with what the log has before its end, stands before the header; the others after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from summarizing_context.core.bindings import has_signed_thinking, loaded_tools, without_thinking
from summarizing_context.core.budget import Room
from summarizing_context.core.door import Message, canonical_json
from summarizing_context.core.fencing import fence
from summarizing_context.core.repairs import Piece, Read, Repair, present
from summarizing_context.core.shrinking import Price
from summarizing_context.core.tail import Item, shown_within

_OPENING_ROWS = 8  # of the first human message, when nobody has answered it yet
_MISSES = 32  # candidates without room after which no smaller one is looked for

Reader = Callable[[int], tuple[Read, int]]  # a log entry and its tokens


class Candidates(NamedTuple):
    """Covered log entries that should stay, most important first where they compete."""

    first: Sequence[int]  # the first human message: all user rows before the first assistant row
    latest_human: int | None
    system: Sequence[int]  # mid-log system and developer rows, newest first
    critical: Sequence[int]  # pinned by a call, then marked ones, newest first; before the others where they compete


class Pins(NamedTuple):
    """What is pinned before and after the header, and what found no room."""

    before: tuple[Item, ...]
    after: tuple[Item, ...]
    tokens: int
    left_out: int  # messages
    unshown: tuple[int, ...] = ()  # the first of these
    rules_left_out: int = 0  # standing rules and pinned texts


def choose_pins(candidates: Candidates, read: Reader, room: Room, price: Price) -> Pins:
    """Pins within the room: the first human message and the latest one up to the pin share each, and the others
    up to it each, together up to twice that. Critical messages are kept as large as the tail showed them, in room of
    their own first.

    Where room is short the last of these give way first: the latest human message, what is pinned by a call, critical
    messages, system rows between; of each the oldest.
    """
    purse = _Purse(frozenset(candidates.critical), 2 * room.pin_cap, room.critical_cap)
    before = _opening(candidates.first, purse, read, room, price)
    chosen: list[Item] = []
    left_out = 0
    unshown: list[int] = []
    others = [candidates.latest_human, *candidates.critical, *candidates.system]
    taken, pinned = set(candidates.first), set[str]()
    for at, index in enumerate(others):
        if index is None or index in taken:
            continue
        if left_out >= _MISSES:
            left_out += len(others) - at
            break
        taken.add(index)
        pin = _pin(read(index), purse.cap(index, room), price)
        said = canonical_json(pin.message)
        if said in pinned:
            continue
        if not purse.pay(index, pin.tokens):
            left_out += 1
            unshown.append(index)
            continue
        pinned.add(said)
        chosen.append(pin)
    pins = sorted((*before, *chosen), key=lambda pin: pin.seq)
    split = pins.index(before[-1]) + 1 if before else 0
    return Pins(tuple(pins[:split]), tuple(pins[split:]), sum(pin.tokens for pin in pins), left_out, tuple(unshown))


class _Purse:
    """Tokens that are left for pins: for all, and for critical ones alone."""

    def __init__(self, critical: frozenset[int], left: int, own: int) -> None:
        self.critical = critical
        self._left = left
        self._own = own

    def cap(self, index: int, room: Room) -> int:
        """What this one may take."""
        if index not in self.critical:
            return room.pin_cap
        return min(room.message_cap(0), max(room.least_cap, self._own + self._left))

    def pay(self, index: int, tokens: int) -> bool:
        """Take the tokens of a pin; False where there are not enough."""
        own = min(tokens, self._own) if index in self.critical else 0
        if tokens - own > self._left:
            return False
        self._own, self._left = self._own - own, self._left - tokens + own
        return True


def _opening(indexes: Sequence[int], purse: _Purse, read: Reader, room: Room, price: Price) -> list[Item]:
    """The first human message: what is critical of it by the rule for such, the rest within the pin share."""
    whole = [index for index in indexes if index in purse.critical][:_OPENING_ROWS]
    pins = [_pin(read(index), purse.cap(index, room), price) for index in whole]
    paid = {index: pin for index, pin in zip(whole, pins, strict=True) if purse.pay(index, pin.tokens)}
    rest = _shown_together([index for index in indexes if index not in paid], read, room, price)
    return sorted((*paid.values(), *rest), key=lambda pin: pin.seq)


def _shown_together(indexes: Sequence[int], read: Reader, room: Room, price: Price) -> list[Item]:
    """Rows that form one message: short ones whole, the pin share divided among the long ones."""
    rows = [read(index) for index in indexes[:_OPENING_ROWS]]
    left = room.pin_cap
    pins: list[Item] = []
    for done, (row, tokens) in enumerate(sorted(rows, key=lambda row: row[1])):
        cap = left // (len(rows) - done)
        if cap >= room.least_cap // 4:
            pins.append(_pin((row, tokens), cap, price))
            left -= pins[-1].tokens
    return sorted(pins, key=lambda pin: pin.seq)


def _pin(source: tuple[Read, int], cap: int, price: Price) -> Item:
    read, tokens = source
    message: Message
    repairs: tuple[Repair, ...]
    if (tools := loaded_tools(read.message)) is not None:
        message, repairs, tokens = tools, ("pin_note",), price.message(tools)
    elif read.reading.calls or read.reading.answers:  # alone it would ask for, or answer, what is not there
        text = fence("earlier_message", "\n".join(read.reading.texts), role=read.reading.role)
        message = {"role": "user", "content": text}
        repairs = ("pin_note",)
        tokens = price.message(message)
    else:
        message, repairs = present(read.message)
        if has_signed_thinking(message):
            message, repairs = without_thinking(message), (*repairs, "thinking_dropped")
            tokens = price.message(message)
    return shown_within(Piece(read.seq, message, repairs), tokens, cap, price)
