"""Requests and lists of items of OpenAI's Responses API, as one JSON value or one item a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from summarizing_context.transcripts.base import Content, Draft, mapping, most, string
from summarizing_context.transcripts.items import CALLS, OTHERS, OUTPUTS, ItemReader

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
    if not content.is_document:
        return [(line, value) for line, value in content.rows]
    value = content.value
    if not isinstance(value, dict):
        return [(0, item) for item in value] if isinstance(value, list) else []
    given = [("message", value["input"])] if isinstance(value.get("input"), str) else []
    typed = [(0, {"type": kind, "role": "user", "content": text}) for kind, text in given]
    lists = [value[name] for name in _LISTS if isinstance(value.get(name), list)]
    return [*typed, *((0, item) for found in lists for item in found)]
