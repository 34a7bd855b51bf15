"""Pins: covered messages that a view shows word for word beside its header.

Pure. Those that must stay (critical ones, system rows, what holds from a message on), the opening request, what humans
wrote last, and groups that are too important to be summarized only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from summarizing_context.extraction.importance import Ranked
from summarizing_context.log.entries import Bounds, PlacedMessage
from summarizing_context.log.message_log import Candidates, MessageLog
from summarizing_context.log.repairs import Piece, Repair, present
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.shapes import (
    Message,
    blocks_of,
    call_id,
    canonical_json,
    content_key,
    has_signed_thinking,
    loaded_tools,
    shape_of,
    state_names,
    without_thinking,
)
from summarizing_context.views.shrinking import Price, says_nothing
from summarizing_context.views.tail import Room, Tail, TailItem, shown_within, told_of
from summarizing_context.views.view import Pins


class Staying(NamedTuple):
    """Critical messages and system rows that the room can hold, and those that it cannot."""

    items: tuple[TailItem, ...] = ()
    left_out: tuple[int, ...] = ()
    said: frozenset[str] = frozenset()
    candidates: Candidates | None = None  # the entries that it was chosen from


_GOES_ON: Message = {"role": "assistant", "content": [{"type": "text", "text": "[…]"}]}


def choose_staying(candidates: Candidates, log: MessageLog, room: Room, beside: int, price: Price) -> Staying:
    """As many critical messages and system rows as the room can hold where such rows of the tail take `beside` tokens.

    What is pinned by a call goes first, then critical messages, then system rows; of each the newest. They stay whole,
    but for one that is alone more than all of them may take: that is shown as the tail would show a message.
    """
    items: list[TailItem] = []
    left_out: list[int] = []
    said = set[str]()
    left = room.staying_cap - beside
    bounds = log.bounds() if log.bound_thinking == "left_out" else Bounds()  # a group may be the last with results
    for start in dict.fromkeys(candidates.state):
        reads, costs = log.between(start, log.group_stop(start))
        tail = Tail(start, room, price, bounds)
        tail.take(reads, costs, closed=True, thinking_from=log.thinking_from(len(log)))
        if tail.tokens > left:
            reads, tail = _states_alone(reads), Tail(start, room, price, bounds)
            tail.take(reads, [price.message(read.message) for read in reads], closed=True)
        if tail.tokens <= left:
            items += tail.items
            left -= tail.tokens
        else:
            left_out.append(start)
    held = {item.seq for item in items}
    for index in dict.fromkeys((*candidates.critical, *candidates.system)):
        if index in held:
            continue
        if len(left_out) >= 32 and log.cost(index) > left:
            left_out.append(index)
            continue
        piece, cost = _piece(*log.read(index), price)
        cap = cost if cost <= room.staying_cap else room.message_cap(0)
        pin = shown_within(piece, cost, cap, price)
        name = canonical_json(pin.message)
        if name in said:
            continue
        if pin.tokens > left and "output_config" in pin.message:  # what it sets holds without its words
            alone = {**pin.message, "content": []}
            pin = shown_within(Piece(index, alone, ("shrunk",)), price.message(alone), cap, price)
        if pin.tokens > left:
            left_out.append(index)
            continue
        said.add(name)
        items.append(pin)
        left -= pin.tokens
    return Staying(tuple(items), tuple(left_out), frozenset(said), candidates)


def _states_alone(reads: Sequence[PlacedMessage]) -> list[PlacedMessage]:
    """What of a group holds from there on, with the other halves of it, and none of the words between."""

    def id_of(block: Any) -> str:
        return next((call_id(block[name]) for name in shape_of(block).id if name in block), "")

    blocks = [block for read in reads for block in blocks_of(read.message)]
    ids = {id_of(block) for block in blocks if any(state_names(block))} - {""}
    found: list[PlacedMessage] = []
    for read in reads:
        kept = [block for block in blocks_of(read.message) if any(state_names(block)) or id_of(block) in ids]
        if kept or "output_config" in read.message:
            message = {**read.message, content_key(read.message): kept}
            found.append(PlacedMessage(read.seq, message, read_message(message)))
    return found


def choose_pins(
    candidates: Candidates, staying: Staying, log: MessageLog, room: Room, price: Price, *, humans_cap: int = 0
) -> Pins:
    """Return what stays, with the rest of the first human message and the latest one, up to the pin share each; and of
    what humans wrote before, the newest, whole, in `humans_cap` tokens. What is said twice is shown once."""
    held = {pin.seq for pin in staying.items}
    others: list[TailItem] = []

    # the opening rows form one message: short ones whole, the pin share divided among the long ones
    rows: dict[str, tuple[Piece, int]] = {}
    for index in [index for index in candidates.first if index not in held][:32]:
        piece, cost = _piece(*log.read(index), price)
        rows.setdefault(canonical_json(piece.message), (piece, cost))
        if len(rows) == 8:
            break
    left = room.pin_cap
    for done, (piece, cost) in enumerate(sorted(rows.values(), key=lambda row: row[1])):
        cap = left // (len(rows) - done)
        if cap >= room.least_cap // 4:
            pin = shown_within(piece, cost, cap, price)
            others += [pin] if _fits(pin, cap) else []
            left -= pin.tokens if _fits(pin, cap) else 0

    # the latest human message
    latest = next(iter(candidates.humans), None)
    if latest is not None and latest not in {*held, *candidates.first}:
        pin = shown_within(*_piece(*log.read(latest), price), room.pin_cap, price)
        is_new = canonical_json(pin.message) not in staying.said
        others += [pin] if is_new and _fits(pin, room.pin_cap) else []

    # what humans wrote before
    if humans_cap:
        shown = {*held, *candidates.first, *(pin.seq for pin in others)}
        said = {*staying.said, *(canonical_json(pin.message) for pin in others)}
        misses = 0
        for index in [index for index in candidates.humans if index not in shown]:
            if log.cost(index) > humans_cap:
                if (misses := misses + 1) == 32:
                    break
                continue
            pin = shown_within(*_piece(*log.read(index), price), humans_cap, price)
            name = canonical_json(pin.message)
            if name not in said and pin.tokens <= humans_cap and not pin.left_out:
                said.add(name)
                others.append(pin)
                humans_cap -= pin.tokens

    pins = sorted((*staying.items, *others), key=lambda pin: pin.seq)
    if system := _as_one_row([pin.message for pin in pins if pin.message["role"] == "system"], price):
        pins = [pin for pin in pins if pin.message["role"] != "system"]
    first = set(candidates.first)
    split = max((at + 1 for at, pin in enumerate(pins) if pin.seq in first), default=0)
    whole = {pin.seq for pin in others if not pin.left_out}
    unshown = {*staying.left_out, *(pin.seq for pin in staying.items if pin.left_out)} - whole
    opening_stop = pins[split - 1].seq + 1 if split else 0
    before, after = (*pins[:split], *(system if split else ())), (*(() if split else system), *pins[split:])
    tokens = sum(pin.tokens for pin in (*before, *after))
    return Pins(before, after, tokens, tuple(sorted(unshown)), opening_stop=opening_stop)


def _as_one_row(rows: Sequence[Message], price: Price) -> tuple[TailItem, ...]:
    """System rows where messages are made of blocks, as in Anthropic's protocol: at most one may follow a row of the
    user's, and an answer has to follow it. Nothing for none, and where any may stand anywhere."""
    if not any("output_config" in row or isinstance(row["content"], list) for row in rows):
        return ()
    blocks: dict[str, Any] = {}
    joined: Message = {}
    for row in rows:
        content = row["content"]
        is_over = row.get("clear_at") == "next_user_message"
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []:
            changes = list(state_names(block))
            if changes or not is_over:
                name = changes[0] if changes else canonical_json(block)
                blocks = {key: value for key, value in blocks.items() if key != name} | {name: block}
        joined |= {**row, "output_config": {**joined.get("output_config", {}), **row.get("output_config", {})}}
    joined = {key: value for key, value in joined.items() if key != "clear_at" and value != {}}
    shown = {**joined, "content": list(blocks.values())}
    return tuple(TailItem(-1, row, price.message(row), 0, ()) for row in (shown, _GOES_ON))


def _piece(read: PlacedMessage, tokens: int, price: Price) -> tuple[Piece, int]:
    """The message as a pin shows it whole, and its tokens."""
    message: Message
    repairs: tuple[Repair, ...]
    if (tools := loaded_tools(read.message)) is not None:
        message, repairs, tokens = tools, ("pin_note",), price.message(tools)
    elif read.reading.calls or read.reading.answers:  # alone it would ask for, or answer, what is not there
        _, message, repairs = told_of(read.seq, read.reading)
        tokens = price.message(message)
    else:
        message, repairs = present(read.message)
        if has_signed_thinking(message):
            message, repairs = without_thinking(message), (*repairs, "thinking_dropped")
            tokens = price.message(message)
    return Piece(read.seq, message, repairs), tokens


def _fits(pin: TailItem, cap: int) -> bool:
    """Whether a pin is not too large for what travels whole in it."""
    return pin.tokens <= cap or not any(shape_of(block).is_whole for block in blocks_of(pin.message))


def kept_among(
    pinned: Pins, ranked: Iterable[Ranked], log: MessageLog, room: Room, left: int, price: Price
) -> Iterable[TailItem]:
    """Return the pinned messages behind the header with the most important groups among them, in the order of the log.

    The groups take at most `left` tokens. What is pinned whole is not shown twice.
    """
    bounds = log.bounds()
    whole = {item.seq for item in pinned.after if not item.left_out}
    shown: list[tuple[int, Sequence[TailItem]]] = []
    inside: set[int] = set()
    misses = 0
    for one in ranked:
        reads, costs = log.between(one.start, log.group_stop(one.start))
        if reads[0].seq < pinned.opening_stop or all(read.seq in whole for read in reads):
            continue
        if any(loaded_tools(read.message) is not None for read in reads):
            continue  # it says more than messages do
        if any(read.seq >= bounds.settled and has_signed_thinking(read.message) for read in reads):
            continue  # its thinking stays while its turn goes on
        tail = Tail(reads[0].seq, replace(room, squeeze=room.squeeze + 1), price, bounds)
        tail.take(reads, costs, closed=True)
        if all(says_nothing(item.message) for item in tail.items):
            continue
        if tail.tokens <= left:
            shown.append((tail.start, tail.items))
            inside.update(range(tail.start, tail.next))
            left -= tail.tokens
        elif (misses := misses + 1) == 16:  # no smaller one is looked for
            break
    shown += [(item.seq, (item,)) for item in pinned.after if item.seq not in inside]
    return chain.from_iterable(items for _, items in sorted(shown, key=lambda each: each[0]))
