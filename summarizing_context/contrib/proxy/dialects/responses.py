"""OpenAI's Responses: a list of items, of which what a model gave in one response is one message of the log.

The system prompt is `instructions`, and developer items in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from summarizing_context.adapters.response_items import COMPACTED, NAME, SERVER_WORK, ViewWriter, rows_of
from summarizing_context.adapters.response_items import Row as ItemRow
from summarizing_context.contrib.proxy.dialects.base import (
    HOOK,
    KEY,
    Asked,
    Fields,
    Out,
    PassUnchanged,
    Row,
    Shown,
    decoded,
    encoded,
    items_of,
    max_tokens,
    objects,
)

_SYSTEM = ("system", "developer")


class Responses:
    """The history is `input`."""

    name = "responses"

    def read(self, fields: Fields) -> Asked:
        for name in ("previous_response_id", "conversation"):
            if decoded(fields, name) is not None:
                raise PassUnchanged(f"with {name} the server keeps the history")
        data = items_of(fields, "input")
        items: list[Any] = [msgspec.json.decode(item) for item in data]
        kinds = [item.get("type") if isinstance(item, dict) else None for item in items]
        if not set(SERVER_WORK).isdisjoint(kinds):
            raise PassUnchanged("the server is asked to look up or to compact items")
        # in front: what the server has compacted, and the client's own instructions and tools behind it
        start = max((at + 1 for at, kind in enumerate(kinds) if kind in COMPACTED), default=0)
        while start < len(items) and (
            kinds[start] == "additional_tools"
            or (isinstance(items[start], dict) and items[start].get("role") in _SYSTEM)
        ):
            start += 1
        if start == len(items):
            raise PassUnchanged("there is nothing behind what stays in front")
        rows, at = list[Row](), start
        for message, own in rows_of(items[start:]):
            is_told = message["role"] in _SYSTEM and own[0].get("type", "message") == "message"
            named = {**message, KEY: message[NAME]} | ({"metadata": HOOK} if is_told else {})
            rows.append(Row(named, data[at : at + len(own)], message[NAME]))
            at += len(own)
        tools, instructions = objects(decoded(fields, "tools")), decoded(fields, "instructions")
        prompt = [{"instructions": instructions}] if isinstance(instructions, str) else []
        return Asked(
            fields=fields,
            lead=data[:start],
            rows=rows,
            beside=[*prompt, *tools, *items[:start]],
            model=str(decoded(fields, "model") or ""),
            max_output=max_tokens(fields, "max_output_tokens"),
            has_tools=bool(tools) or "additional_tools" in kinds,
        )

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        changed = [message for message, row in shown if row is None and (KEY in message or message["role"] != "user")]
        keys = {message.get(KEY) for message in changed}
        rows = [row for row in asked.rows if row.message["role"] != "tool" or row.key in keys] if changed else []
        writer = ViewWriter([ItemRow(row.message, [msgspec.json.decode(item) for item in row.sent]) for row in rows])
        items: list[Out] = []
        for message, row in shown:
            items += writer.items(message) if row is None else row.sent
        return encoded(asked.fields, "input", [*asked.lead, *items])
