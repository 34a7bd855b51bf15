"""Exact repeats: a message that stands several times in a row is shown once, with a note that says how often.

Pure. Which rows of the log are repeats is a matter of the log alone; whether a view joins them, of when it was made.
"""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.log.repairs import present
from summarizing_context.messages.fields import NEVER_SENT
from summarizing_context.messages.parts import content_key
from summarizing_context.messages.provider_bindings import has_chain, loaded_tools, without_wire_content
from summarizing_context.messages.reading import read_content
from summarizing_context.messages.validation import Message, canonical_json

_BOUND = frozenset({"call", "result", "thinking"})  # kinds of parts that are bound to their own place


class Run(NamedTuple):
    """Log entries that repeat the first of them."""

    start: int
    stop: int

    @property
    def times(self) -> int:
        return self.stop - self.start


def may_repeat(message: Message) -> bool:
    """Whether a note could stand in the message: it makes no call, holds no result, no thinking, and loads no tools."""
    content = message.get(content_key(message))
    if not isinstance(content, str | list | None) or has_chain(message) or loaded_tools(message) is not None:
        return False
    return _BOUND.isdisjoint(part.kind for part in read_content(message).parts)


def is_repeat(message: Message, before: Message) -> bool:
    """Whether a model would be sent the same twice."""
    return canonical_json(_sent(message)) == canonical_json(_sent(before))


def with_count(message: Message, times: int) -> Message:
    """The message with a note at its end: a line of its text, or a block behind its blocks."""
    shown, key = without_wire_content(present(message)[0]), content_key(message)
    content, note = shown[key], count_note(times)
    if isinstance(content, str):
        return {**shown, key: f"{content}\n{note}" if content else note}
    return {**shown, key: [*content, {"text": note} if key == "parts" else {"type": "text", "text": note}]}


def count_note(times: int) -> str:
    """What a model is told of a message that was sent so often."""
    return f"[this message was sent {times} times in a row]"


def _sent(message: Message) -> Message:
    return {key: value for key, value in message.items() if key not in NEVER_SENT and not key.startswith("_")}
