"""Messages on their way between Amplifier and the log: what comes in as JSON, what goes out as its `Message` takes it.

Pure, and a function of one message alone, so that a view's bytes stay the same from request to request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summarizing_context.core.door import Message, canonical_json
from summarizing_context.core.messages import message_text_parts
from summarizing_context.errors import MessageError

_ROLES = frozenset({"system", "developer", "user", "assistant", "function", "tool"})
_TEXTS = frozenset({"input_text", "output_text", "summary_text", "reasoning_text"})
_FIELDS: dict[str, dict[str, type]] = {  # what a block of each type must have
    "text": {"text": str},
    "thinking": {"thinking": str},
    "redacted_thinking": {"data": str},
    "tool_call": {"id": str, "name": str, "input": dict},
    "tool_result": {"tool_call_id": str},
    "image": {"source": dict},
    "reasoning": {"content": list, "summary": list},
}
_VISIBILITIES = (None, "internal", "developer", "user")
_OPTIONAL: dict[str, type] = {"signature": str, "content": list}  # of thinking
_DEEPEST = 100


def as_json(value: Any, depth: int = 0) -> Any:
    """The value with everything that JSON has no form for written down: models as mappings, the rest as text."""
    if value is None or isinstance(value, str | int | float):
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


def as_row(message: Message) -> Message:
    """The message as the host's `Message` accepts it; nearly always itself."""
    row = message
    if message["role"] not in _ROLES:
        row = {**row, "role": "user"}
    content = message.get("content")
    if isinstance(content, list):
        blocks = [_block(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            row = {**row, "content": blocks}
    elif not isinstance(content, str):
        row = {**row, "content": "" if content is None else canonical_json(content)}
    for key, kind in (("name", str), ("tool_call_id", str), ("metadata", dict)):
        if row.get(key) is not None and not isinstance(row[key], kind):
            row = {name: value for name, value in row.items() if name != key}
    return row


def _block(block: Any) -> Any:
    if isinstance(block, dict):
        if block.get("visibility") not in _VISIBILITIES:
            block = _without(block, "visibility")
        known = _fields_of(block)
        if known is not None and _is_whole(block, known):
            return block
        translated = _translated(block)
        if translated is not None and _is_whole(translated, _FIELDS[translated["type"]]):
            return translated
    texts = message_text_parts({"role": "user", "content": [block]})
    kind = block.get("type") if isinstance(block, dict) else None
    return {"type": "text", "text": "\n".join(texts) or f"[{kind or 'empty'}]"}


def _fields_of(block: dict[str, Any]) -> dict[str, type] | None:
    kind = block.get("type")
    return _FIELDS.get(kind) if isinstance(kind, str) else None


def _is_whole(block: dict[str, Any], known: dict[str, type]) -> bool:
    if block["type"] == "tool_result" and "output" not in block:
        return False
    if block["type"] == "thinking":
        known = known | {name: kind for name, kind in _OPTIONAL.items() if block.get(name) is not None}
    return all(isinstance(block.get(name), kind) for name, kind in known.items())


def _translated(block: dict[str, Any]) -> dict[str, Any] | None:
    """Blocks of the providers' own kinds in the host's terms."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _TEXTS:
        return {"type": "text", "text": block.get("text")}
    if kind in ("tool_use", "tool_call"):
        call = block.get("input", block.get("arguments", {}))
        return {**_without(block, "arguments"), "type": "tool_call", "input": _mapping(call)}
    if kind == "tool_result":
        output = block.get("output", block.get("content", ""))
        rest = _without(block, "tool_use_id", "content")
        return {**rest, "tool_call_id": block.get("tool_call_id", block.get("tool_use_id")), "output": output}
    if kind in ("image_url", "input_image"):
        return {"type": "image", "source": _image_source(block.get("image_url"))}
    return None


def _without(block: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"arguments": value}


def _image_source(image: Any) -> dict[str, Any] | None:
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        return None
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    return {"type": "url", "url": url}
