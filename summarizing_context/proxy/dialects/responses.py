"""OpenAI's Responses: a list of items, of which what a model gave in one response is one message of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from summarizing_context.adapters import response_items
from summarizing_context.messages.validation import Message
from summarizing_context.proxy.dialects.base import (
    HOOK,
    KEY,
    Asked,
    Fields,
    Memory,
    Out,
    PassUnchanged,
    Row,
    by_key,
    decoded,
    encoded,
    listed,
    objects,
    shown_as_sent,
    whole,
)

_SYSTEM = ("system", "developer")

_ON_SERVER = ("previous_response_id", "conversation")  # fields that say that the server keeps the history

_COMPACTED = ("compaction", "compaction_summary")  # what the server has made of all before it


class Responses:
    """The history is `input`; the system prompt is `instructions`, and developer items in front."""

    name = "responses"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        for name in _ON_SERVER:
            if decoded(fields, name, memory) is not None:
                raise PassUnchanged(f"with {name} the server keeps the history")
        data = listed(fields, "input")
        items = [memory.get(self.name, item, msgspec.json.decode) for item in data]
        kinds = [item.get("type") if isinstance(item, Mapping) else None for item in items]
        if "item_reference" in kinds or "compaction_trigger" in kinds:
            raise PassUnchanged("the server is asked to look up or to compact items")
        start = _first_row(items, kinds)
        if start == len(items):
            raise PassUnchanged("there is nothing behind what stays in front")
        tools, instructions = objects(decoded(fields, "tools", memory)), decoded(fields, "instructions", memory)
        prompt = [{"instructions": instructions}] if isinstance(instructions, str) else []
        return Asked(
            fields=fields,
            lead=data[:start],
            rows=_rows(items[start:], data[start:]),
            beside=[*prompt, *tools, *items[:start]],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=whole(decoded(fields, "max_output_tokens", memory)),
            has_tools=bool(tools) or "additional_tools" in kinds,
        )

    def write(self, asked: Asked, view: Sequence[Message]) -> bytes:
        rows = by_key(asked.rows)
        shown = [(message, shown_as_sent(message, rows)) for message in view]
        changed = [message for message, row in shown if row is None]
        found = list(_behind(changed, asked.rows))
        items: list[Out] = []
        for message, row in shown:
            items += response_items.items_of([message], found) if row is None else row.sent
        return encoded(asked.fields, "input", [*asked.lead, *items])


def _first_row(items: Sequence[Any], kinds: Sequence[Any]) -> int:
    """Where what stays in front ends: the client's own instructions and tools, and what the server has compacted."""
    compacted = max((at for at, kind in enumerate(kinds) if kind in _COMPACTED), default=-1) + 1
    for at in range(compacted, len(items)):
        item = items[at]
        if not isinstance(item, Mapping) or (item.get("role") not in _SYSTEM and kinds[at] != "additional_tools"):
            return at
    return len(items)


def _rows(items: Sequence[Any], data: Sequence[bytes]) -> list[Row]:
    rows, at = [], 0
    for message, own in response_items.rows_of(items):
        named = {**message, KEY: message[response_items.NAME]}
        if message["role"] in _SYSTEM:
            named["metadata"] = HOOK
        rows.append(Row(named, tuple(data[at : at + len(own)])))
        at += len(own)
    return rows


def _behind(changed: Sequence[Message], rows: Sequence[Row]) -> Iterator[response_items.Row]:
    """The rows that a view has changed, and those with the calls that it answers."""
    keys = {message.get(KEY) for message in changed}
    answered = {message["tool_call_id"] for message in changed if message["role"] == "tool"}
    for row in rows:
        if row.key in keys or any(call["id"] in answered for call in row.message.get("tool_calls", ())):
            yield response_items.Row(row.message, [msgspec.json.decode(item) for item in row.sent])
