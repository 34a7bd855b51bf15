"""The messages of a tail as they stand in a view: whole, shrunk, or once for all that repeat them."""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.log.repairs import NOTES, Piece, Repair, count_note, with_count
from summarizing_context.messages.validation import Message
from summarizing_context.views.shrunk_messages import Price, Shrunk, shrink_message, shrink_note

_MANY = 10**6  # times that a message may well be repeated

Known = dict[tuple[int, int, bool], tuple[Message, Shrunk]]  # by a message's identity, which holding it keeps


class TailItem(NamedTuple):
    """A message as it stands in the view. Its dict is never handed out, only copies of it."""

    seq: int
    message: Message
    tokens: int
    left_out: int  # tokens that shrinking left out
    repairs: tuple[Repair, ...]


def shown_within(
    piece: Piece, cost: int, cap: int, price: Price, *, known: Known | None = None, mute: bool = False
) -> TailItem:
    """A piece that costs `cost` tokens, shrunk to `cap` tokens if it is larger; to nothing, if it is to be mute."""
    if cost <= cap:
        return TailItem(piece.seq, piece.message, cost, 0, piece.repairs)
    name = (id(piece.message), cap, mute)
    if known is not None and name in known:
        _, (message, tokens) = known[name]
    else:
        shrink = shrink_message if NOTES.isdisjoint(piece.repairs) else shrink_note
        message, tokens = shrunk = shrink(piece.message, cost, cap, price, mute=mute)
        if known is not None:
            known[name] = piece.message, shrunk
    repairs: tuple[Repair, ...] = (*piece.repairs, "shrunk") if tokens < cost else piece.repairs
    return TailItem(piece.seq, message, tokens, cost - tokens, repairs)


def shown_once(piece: Piece, cost: int, times: int, cap: int, price: Price) -> TailItem:
    """A piece that stands so many times in a row, with their number, shrunk to `cap` tokens if it is larger. It costs
    `cost` tokens without."""
    message = with_count(piece.message, times)
    whole = tokens = price.message(message)
    repairs: tuple[Repair, ...] = (*piece.repairs, "repeats_joined")
    if whole > cap:
        message = with_count(shrink_message(piece.message, cost, cap - (whole - cost), price).message, times)
        tokens = price.message(message)
    return TailItem(
        piece.seq, message, tokens, max(0, whole - tokens), (*repairs, "shrunk") if tokens < whole else repairs
    )


def holds_count(cap: int, price: Price) -> bool:
    """Whether a message of at most `cap` tokens has room for how often it was sent."""
    return 2 * price.count(count_note(_MANY)) <= cap
