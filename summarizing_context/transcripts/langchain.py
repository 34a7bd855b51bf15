"""Dumps of LangChain messages: `messages_to_dict`, `dumpd` and `model_dump`, as a list or one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from summarizing_context.transcripts.base import Content, Draft, listed, mapping, most, objects

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_CHUNK = "MessageChunk"


def is_langchain(content: Content) -> bool:
    """Whether most records are messages of LangChain's."""
    return most(_fields(item) is not None for _, item in _records(content))


def read_langchain(content: Content) -> Iterator[Draft]:
    """The records as one session."""
    draft = Draft(content.stem)
    for index, (line, item) in enumerate(_records(content)):
        fields = _fields(item)
        if fields is not None:
            _add(draft, fields, line)
        else:
            what = "a record" if line else f"record {index + 1}"
            draft.unreadable.append(f"{content.path}:{line or 1}: {what} is not a message of LangChain; it has no type")
    yield draft


def _records(content: Content) -> list[tuple[int, Any]]:
    held = mapping(content.value)
    found = held.get("messages", mapping(held.get("kwargs")).get("messages")) if held else content.value
    return content.records(found)


def _fields(item: object) -> dict[str, Any] | None:
    """The fields of a message with its `type`, whichever way it was dumped; None for anything else."""
    value = mapping(item)
    if value.get("lc") == 1 and isinstance(value.get("id"), list) and isinstance(value.get("kwargs"), dict):
        name = str(value["id"][-1]) if value["id"] else ""
        kind = name.removesuffix(_CHUNK).removesuffix("Message").lower()
        return {**value["kwargs"], "type": kind} if name.endswith(("Message", _CHUNK)) else None
    if isinstance(value.get("data"), dict) and isinstance(value.get("type"), str) and "content" in value["data"]:
        return {**value["data"], "type": _plain(value["type"])}
    kind = _plain(value.get("type"))
    is_dumped = (kind in _ROLES or kind == "chat" or kind == "remove") and "role" not in value and "content" in value
    return {**value, "type": kind} if is_dumped or (kind == "chat" and "content" in value) else None


def _plain(kind: object) -> str:
    """`AIMessageChunk` is the type of a streamed `ai`."""
    text = kind if isinstance(kind, str) else ""
    return text.removesuffix(_CHUNK).lower() if text.endswith(_CHUNK) else text


def _add(draft: Draft, fields: dict[str, Any], line: int) -> None:
    kind = fields["type"]
    role = fields.get("role") if kind == "chat" else _ROLES.get(kind)
    if not isinstance(role, str):
        draft.skipped[kind or "unnamed"] += 1
        return
    calls = objects(fields.get("tool_calls"))
    message: dict[str, Any] = {"role": role, "content": _content(fields.get("content"), bool(calls))}
    if calls:
        message["tool_calls"] = [_call(call) for call in calls]
    if role == "tool":
        message["tool_call_id"] = str(fields.get("tool_call_id") or fields.get("name") or "")
    draft.add(message, line)
    if invalid := len(listed(fields.get("invalid_tool_calls"))):
        draft.skipped["invalid tool call"] += invalid


def _content(content: object, has_calls: bool) -> Any:
    """The content; calls among its blocks stand in `tool_calls` too."""
    if isinstance(content, list) and has_calls:
        calls = ("tool_use", "tool_call", "function_call")
        return [block for block in content if mapping(block).get("type") not in calls]
    return "" if content is None else content


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call.get("args") or {})
    return {
        "id": str(call.get("id") or ""),
        "type": "function",
        "function": {"name": str(call.get("name") or ""), "arguments": arguments},
    }
