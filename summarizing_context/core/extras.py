"""Extras of a message: fields that its shape does not know. They are sent and counted, and go before its words do.

Pure. What stands in them is read in `message_parts`.
"""

from __future__ import annotations

from collections.abc import Callable

from summarizing_context.core.door import Message
from summarizing_context.core.fields import without_odd
from summarizing_context.core.listed_calls import bare_call
from summarizing_context.core.message_parts import KNOWN, KNOWN_OF_RESULTS, content_key, is_result, known_keys
from summarizing_context.core.messages import Reading, read_content

_LEFT_OUT = "[… {} tokens left out …]"  # where a message says nothing else


def extras_cost(reading: Reading, count: Callable[[str], int]) -> int:
    """Tokens of a message's extras."""
    return sum(count(text) for part in reading.parts if part.kind == "extra" for text in part.sent)


def without_extras_of(message: Message, cost: int) -> Message:
    """The message without its extras, which cost so many tokens; where it says nothing else, they are told."""
    bare = without_extras(message)
    return bare if read_content(bare).parts else {**bare, "content": _LEFT_OUT.format(cost)}


def without_extras(message: Message) -> Message:
    """The message without its extras, wherever they stand."""
    key = content_key(message)
    bare = without_odd(message, (KNOWN_OF_RESULTS if is_result(message) else KNOWN) | {key})
    if isinstance(content := message.get(key), list) and not is_result(message):
        bare[key] = [without_odd(block, known_keys(block)) if isinstance(block, dict) else block for block in content]
    if isinstance(calls := message.get("tool_calls"), list):
        bare["tool_calls"] = [bare_call(call) if isinstance(call, dict) else call for call in calls]
    return bare
