"""Content blocks as Amplifier's `Message` takes them: those of the providers' own kinds are put into its terms.

Pure, and a function of one block alone. Whole messages are fitted in `amplifier_rows`.
"""

from __future__ import annotations

import json
from typing import Any

from summarizing_context.core.messages import message_text_parts

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


def as_block(block: Any) -> Any:
    """The block as the host knows it; itself where it does already. Anything unknown becomes text."""
    if isinstance(block, dict):
        if block.get("visibility") not in _VISIBILITIES:
            block = without(block, "visibility")
        known = _fields_of(block)
        if known is not None and _is_whole(block, known):
            return block
        translated = _translated(block)
        if translated is not None and _is_whole(translated, _FIELDS[translated["type"]]):
            return translated
    texts = message_text_parts({"role": "user", "content": [block]})
    kind = block.get("type") if isinstance(block, dict) else None
    return {"type": "text", "text": "\n".join(texts) or f"[{kind or 'empty'}]"}


def without(block: dict[str, Any], *names: str) -> dict[str, Any]:
    """The mapping without these keys."""
    return {name: value for name, value in block.items() if name not in names}


def as_arguments(value: Any) -> dict[str, Any]:
    """The arguments of a call as an object, which is the only form that the host knows."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        value = parsed if isinstance(parsed, dict) else value
    return value if isinstance(value, dict) else {"arguments": value}


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
        return {**without(block, "arguments"), "type": "tool_call", "input": as_arguments(call)}
    if kind == "tool_result":
        output = block.get("output", block.get("content", ""))
        rest = without(block, "tool_use_id", "content")
        return {**rest, "tool_call_id": block.get("tool_call_id", block.get("tool_use_id")), "output": output}
    if kind in ("image_url", "input_image"):
        return {"type": "image", "source": _image_source(block.get("image_url"))}
    return None


def _image_source(image: Any) -> dict[str, Any] | None:
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        return None
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
    return {"type": "url", "url": url}
