"""Items of OpenAI's Responses API as chat messages: of requests and lists, as one JSON value or one item a line.

Codex logs hold such items too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from summarizing_context.transcripts.base import (
    Content,
    Draft,
    Message,
    kind_of,
    listed,
    mapping,
    most,
    string,
    text_of,
)

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUTS = frozenset(f"{name}_output" for name in CALLS) | {"tool_search_output"}
OTHERS = frozenset(
    {"reasoning", "web_search_call", "compaction", "item_reference", "file_search_call", "computer_call"}
)
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "refusal"})


class ItemReader:
    """Adds items to a session. Calls that follow each other, and the text before them, are one message."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._open: Message | None = None  # the assistant message that takes further calls

    def add(self, item: dict[str, Any], line: int = 0, *, prefix: str = "") -> None:
        """Add one item; what is no message is counted as skipped."""
        kind = string(item.get("type")) or ("message" if isinstance(item.get("role"), str) else "")
        if kind == "message":
            self._add_message(item, line)
        elif kind in CALLS:
            self._add_call(item, line)
        elif kind in OUTPUTS:
            self._open = None
            self._draft.add(
                {
                    "role": "tool",
                    "tool_call_id": _call_id(item),
                    "content": _output(item.get("output", item.get("tools"))),
                },
                line,
            )
        else:
            self._draft.skipped[kind_of(prefix, kind)] += 1

    def close(self) -> None:
        """End the open message: the next call begins another."""
        self._open = None

    def _add_message(self, item: dict[str, Any], line: int) -> None:
        message: Message = {"role": string(item.get("role")) or "user", "content": _content(item.get("content"))}
        if _is_of_harness(item):
            message["metadata"] = {"source": "hook"}
        self._open = message if message["role"] == "assistant" else None
        self._draft.add(message, line)

    def _add_call(self, item: dict[str, Any], line: int) -> None:
        name = item.get("name") or item.get("type")
        call = {"id": _call_id(item), "type": "function", "function": {"name": name, "arguments": _arguments(item)}}
        if self._open is None:
            self._open = {"role": "assistant", "content": ""}
            self._draft.add(self._open, line)
        self._open.setdefault("tool_calls", []).append(call)


def _call_id(item: dict[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id") or "")


def _arguments(item: dict[str, Any]) -> str:
    """The arguments as JSON. Those of a custom tool are free text, which stands under `input`."""
    given = item.get("arguments")
    if isinstance(given, str):
        return given
    return json.dumps(given if given is not None else {"input": item.get("input", item.get("action"))})


def _output(value: object) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(mapping(block).get("type") for block in value):
        return _content(value)
    found = mapping(value).get("content") or mapping(value).get("output")
    return found if isinstance(found, str) else json.dumps(value)


def _content(content: object) -> Any:
    """Text as a string; a list of blocks in the shape of chat where there is more than text."""
    blocks = content if isinstance(content, list) else []
    if all(string(mapping(block).get("type")) in _TEXTS for block in blocks):
        return text_of([{"text": block.get("text") or block.get("refusal") or ""} for block in blocks] or content)
    return [_block(block) for block in blocks]


def _block(block: object) -> object:
    kind = string(mapping(block).get("type"))
    if kind in _TEXTS:
        return {"type": "text", "text": mapping(block).get("text") or ""}
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": mapping(block).get("image_url") or ""}}
    return block


def _is_of_harness(item: dict[str, Any]) -> bool:
    """Whether Codex says that it wrote all of a row itself."""
    data = mapping(item.get("internal_chat_message_metadata_passthrough")).get("content_item_metadata")
    kinds = [mapping(mapping(each).get("provenance")).get("type") for each in data] if isinstance(data, list) else []
    return bool(kinds) and all(kind == "harness" for kind in kinds)


_LISTS = ("input", "output", "items", "data")


def is_responses(content: Content) -> bool:
    """Whether there is an item that only this API has: a call, its output, reasoning, a typed message."""
    items = _items(content)
    return most(isinstance(item, dict) for _, item in items) and any(_is_typed(mapping(item)) for _, item in items)


def _is_typed(item: dict[str, Any]) -> bool:
    if item.get("type") == "message":
        return isinstance(item.get("role"), str) and "content" in item
    return string(item.get("type")) in CALLS | OUTPUTS | OTHERS and "role" not in item


def read_responses(content: Content) -> Iterator[Draft]:
    """The items as one session, after the instructions of the request."""
    draft = Draft(content.stem)
    request = mapping(content.value)
    if isinstance(request.get("instructions"), str):
        draft.add({"role": "system", "content": request["instructions"]})
    items = ItemReader(draft)
    for index, (line, item) in enumerate(_items(content)):
        if isinstance(item, dict):
            items.add(item, line)
        else:
            draft.unreadable.append(f"{content.path}:1: item {index + 1} is not an object; each needs a type")
    yield draft


def _items(content: Content) -> list[tuple[int, Any]]:
    value = content.value
    if not isinstance(value, dict):
        return content.records(value)
    said = value.get("input")
    typed = [{"type": "message", "role": "user", "content": said}] if isinstance(said, str) else []
    return content.records([*typed, *(item for name in _LISTS for item in listed(value.get(name)))])
