"""Messages on their way between Amplifier and the log: what comes in as JSON, what goes out as its `Message` takes it.

Pure, and a function of one message alone. What a request as a whole must be is seen to in `amplifier_wire`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from summarizing_context.adapters.amplifier_blocks import as_block, without
from summarizing_context.core.door import Message, canonical_json
from summarizing_context.errors import MessageError

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})  # "function" rows are dropped by a provider
_DEEPEST = 100
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # a character as two
_HALF = re.compile("[\ud800-\udfff]")


def as_json(value: Any, depth: int = 0) -> Any:
    """The value with everything that JSON has no form for written down: models as mappings, the rest as text."""
    if isinstance(value, str):
        return _PAIR.sub(lambda halves: halves[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, int | float):
        return value
    if depth > _DEEPEST:
        raise MessageError(f"the message is nested more than {_DEEPEST} levels deep")
    if isinstance(value, Mapping):
        return {str(key): as_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [as_json(item, depth + 1) for item in sorted(value, key=repr)]
    if isinstance(value, list | tuple):
        return [as_json(item, depth + 1) for item in value]
    dump = getattr(value, "model_dump", None)  # the host's own messages and blocks
    return as_json(dump(), depth + 1) if callable(dump) and not isinstance(value, type) else repr(value)


def stamped(message: Any, moment: str) -> Any:
    """The message with `metadata.timestamp`, unless it has one or is none that could be given one."""
    if not isinstance(message, Mapping):
        return message
    metadata = message.get("metadata")
    if metadata is None:
        return {**message, "metadata": {"timestamp": moment}}
    if not isinstance(metadata, Mapping) or metadata.get("timestamp") is not None:
        return message
    return {**message, "metadata": {**metadata, "timestamp": moment}}


def as_sendable(message: Message) -> Message:
    """The message as UTF-8 can say it, nearly always itself: halves of characters, which no provider's client can
    send, become U+FFFD."""
    try:
        msgspec.json.encode(message)
    except UnicodeEncodeError:
        mended: Message = _mended(message)
        return mended
    return message


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return {_mended(key): _mended(item) for key, item in value.items()} if isinstance(value, dict) else value


def as_row(message: Message) -> Message:
    """The message as the host's `Message` accepts it; nearly always itself."""
    row = message
    if message["role"] not in _ROLES:
        row = {**row, "role": "user"}
    content = message.get("content")
    if isinstance(content, list):
        blocks = [as_block(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            row = {**row, "content": blocks}
    elif not isinstance(content, str):
        row = {**row, "content": "" if content is None else canonical_json(content)}
    for key, kind in (("name", str), ("tool_call_id", str), ("metadata", dict)):
        if row.get(key) is not None and not isinstance(row[key], kind):
            row = without(row, key)
    return row
