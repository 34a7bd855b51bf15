"""What is wrong with a view, seen from outside: parted calls, a budget exceeded, a beginning that changed.

Pure; the same for every manager. Names rows, never quotes their text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evals.performance.tokens import Message, message_tokens, shared_prefix_tokens, wire


class Seen(NamedTuple):
    """One view as measured."""

    wires: list[str]
    tokens: int
    hit: int  # tokens that the request before began with
    broke: bool  # it does not begin with the whole request before
    unsafe: str  # the first fault of calls and results; empty if none
    past: int  # tokens of rows that are no message of the log: summaries, notes
    user_first: bool


def look_at(view: Sequence[Message], before: Sequence[str] | None, log: frozenset[str] | set[str]) -> Seen:
    """`before` are the wire texts of the request before, `log` those of all messages that were added."""
    wires = [wire(message) for message in view]
    sizes = [message_tokens(message) for message in view]
    past = sum(size for at, (text, size) in enumerate(zip(wires, sizes, strict=True)) if at and text not in log)
    return Seen(
        wires,
        sum(sizes),
        0 if before is None else shared_prefix_tokens(before, wires, view),
        before is not None and wires[: len(before)] != list(before),
        first_fault(view),
        past,
        next((message["role"] for message in view if message["role"] != "system"), "user") == "user",
    )


def first_fault(view: Sequence[Message]) -> str:
    """Each result must answer a call of the message right before its run, and each call must be answered there."""
    at = 0
    while at < len(view):
        message = view[at]
        if message["role"] == "tool":
            return f"row {at} answers a call that is not there"
        calls = sorted(call["id"] for call in message.get("tool_calls") or ())
        stop = at + 1
        while calls and stop < len(view) and view[stop]["role"] == "tool":
            stop += 1
        if calls != sorted(row["tool_call_id"] for row in view[at + 1 : stop]):
            return f"row {at} makes {len(calls)} calls; {stop - at - 1} results follow"
        at = stop
    return ""
