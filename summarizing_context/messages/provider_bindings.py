"""What a provider ties to messages: signed thinking, the response that a chain goes on from, tools loaded on the way.

Pure. Once the beginning of a conversation reads differently, a provider refuses thinking that it signed before, and
a chain would go on from a history that was meant to be gone. Whether that is so, `tail` is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from summarizing_context.messages.validation import Message

_CHAIN = "openai:response_id"  # in metadata

# Beside the content, in the order in which they are read.
THINKING_FIELDS = (
    *("reasoning_content", "thinking", "thinking_block", "redacted_thinking", "reasoning", "reasoning_details"),
)

LOADED_TOOLS = "openai:tool_search_items"  # in metadata; without it calls of these tools are unknown


class Bounds(NamedTuple):
    """How much of the log was said under a beginning that has been rewritten since."""

    rewritten: int = 0  # entries before it
    settled: int = 0  # entries before it stand in finished turns as well; never more than `rewritten`


def has_signed_thinking(message: Message) -> bool:
    """Return whether a provider has signed, or encrypted, thinking of this message. OpenAI's state, which no prefix
    binds, has neither a signature nor that type."""
    content = message.get("content")
    held: list[object] = list(content) if isinstance(content, list) else []
    for field in map(message.get, THINKING_FIELDS):
        held += field if isinstance(field, list) else [field]
    blocks = (block for block in held if isinstance(block, dict))
    return any(
        block.get("type") == "redacted_thinking" or (isinstance(block.get("signature"), str) and block["signature"])
        for block in blocks
    )


def without_thinking(message: Message) -> Message:
    """Return the message without its thinking, wherever a host keeps it; never without any content."""
    kept = {key: value for key, value in message.items() if key not in THINKING_FIELDS}
    content = kept.get("content")
    if isinstance(content, list):
        left_out = {"type": "text", "text": "[thinking left out]"}
        kept["content"] = [block for block in content if not _thinks(block)] or [left_out]
    return _with_wire_content(kept, lambda blocks: [block for block in blocks if not _thinks(block)])


def without_wire_content(message: Message) -> Message:
    """Return the message without the exact copy of its blocks that a host may keep beside them, and would send
    instead."""
    return _with_wire_content(message, None)


def has_chain(message: Message) -> bool:
    """Return whether the next request could go on from the response that this message was."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and _CHAIN in metadata


def is_bound(message: Message) -> bool:
    """Return whether a provider ties it to the beginning of its conversation."""
    return has_signed_thinking(message) or has_chain(message)


def without_chain(message: Message) -> Message:
    """Return the message as one that no chain goes on from."""
    return {**message, "metadata": {key: value for key, value in message["metadata"].items() if key != _CHAIN}}


def loaded_tools(message: Message) -> Message | None:
    """Return what is left of a covered message that loaded tools: a row that still loads them. None for other
    messages."""
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get(LOADED_TOOLS):
        return None
    return {
        "role": "assistant",
        "content": "[tools were loaded here]",
        "metadata": {LOADED_TOOLS: metadata[LOADED_TOOLS]},
    }


def _with_wire_content(message: Message, change: Any) -> Message:
    """Return the message with its copy changed, or without it where `change` is None."""
    metadata = message.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    ours = metadata.get("anthropic")
    if not isinstance(ours, dict) or not isinstance(ours.get("wire_content"), list):
        return message
    rest = {key: value for key, value in ours.items() if key != "wire_content"}
    changed = rest if change is None else {**rest, "wire_content": change(ours["wire_content"])}
    return {**message, "metadata": {**metadata, "anthropic": changed}}


def _thinks(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def without_loaded_tools(message: Message) -> Message:
    """Return the message without the tools that it loads."""
    metadata = message.get("metadata")
    if not isinstance(metadata, dict) or LOADED_TOOLS not in metadata:
        return message
    return {**message, "metadata": {key: value for key, value in metadata.items() if key != LOADED_TOOLS}}
