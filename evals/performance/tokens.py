"""How tokens are counted here, for every manager alike: four characters are one token.

Standard library only: this file also runs in the environments of the peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Message = dict[str, Any]  # OpenAI chat format

CHARACTERS = 4  # of one token
FRAME = 12  # characters for role and framing of a message


def text_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def message_tokens(message: Message) -> int:
    return -(-(FRAME + sum(map(len, _paid(message)))) // CHARACTERS)


def total_tokens(messages: Iterable[Message]) -> int:
    return sum(map(message_tokens, messages))


def message_text(message: Message) -> str:
    """What the message says, the arguments of its calls left out."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.get("text", "") for part in content)


def wire(message: Message) -> str:
    """The message as one string: equal strings are equal to a provider's cache."""
    return "|".join((message["role"], *_paid(message)))


def render(messages: Iterable[Message]) -> str:
    """A request as one text, for a fake model to read."""
    return "\n".join(map(wire, messages))


def shared_prefix_tokens(before: Sequence[str], now: Sequence[str], messages: Sequence[Message]) -> int:
    """Tokens of `messages` (whose wire texts are `now`) with which the request before began, too."""
    shared = 0
    for old, new, message in zip(before, now, messages, strict=False):
        if old != new:
            return shared + min(message_tokens(message), _same(old, new) // CHARACTERS)
        shared += message_tokens(message)
    return shared


def _same(one: str, other: str) -> int:
    """Characters with which both begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _paid(message: Message) -> Iterator[str]:
    yield message_text(message)
    for call in message.get("tool_calls") or ():
        yield call["id"]
        yield call["function"]["name"]
        yield call["function"]["arguments"]
    if message.get("tool_call_id"):
        yield message["tool_call_id"]
