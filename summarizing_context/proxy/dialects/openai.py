"""OpenAI's two protocols: Chat Completions, as many providers speak them, and Responses.

In Responses the history is a list of items, of which what a model gave in one response is one message of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from summarizing_context.adapters import response_items
from summarizing_context.messages.validation import Message, check_message
from summarizing_context.proxy.dialects.base import (
    HOOK,
    KEY,
    Asked,
    Fields,
    History,
    Memory,
    Out,
    PassUnchanged,
    Row,
    Shown,
    bare,
    decoded,
    digest,
    encoded,
    listed,
    objects,
    whole,
)

_SYSTEM = ("system", "developer")


class Chat:
    """The history is `messages`; the system prompt stands in front of it."""

    name = "chat"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        rows = listed(self.name, fields, "messages", memory, _row).made
        start = next((at for at, row in enumerate(rows) if row.message["role"] not in _SYSTEM), len(rows))
        tools = objects(decoded(fields, "tools", memory)) + objects(decoded(fields, "functions", memory))
        limits = (decoded(fields, name, memory) for name in ("max_completion_tokens", "max_tokens"))
        return Asked(
            fields=fields,
            lead=[row.sent[0] for row in rows[:start]],
            opening=(),
            rows=rows[start:],
            beside=[*(row.message for row in rows[:start]), *tools],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=next((tokens for limit in limits if (tokens := whole(limit))), None),
            has_tools=bool(tools),
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        items = [bare(message) if row is None else row.sent[0] for message, row in shown]
        return encoded(asked.fields, "messages", [*asked.lead, *items])


def _row(data: bytes) -> Row:
    message = check_message(msgspec.json.decode(data))
    said = msgspec.json.encode(bare(message), order="deterministic")
    key = digest(said)
    return Row({**message, KEY: key}, (data,), key)


_ON_SERVER = ("previous_response_id", "conversation")  # fields that say that the server keeps the history

_COMPACTED = ("compaction", "compaction_summary")  # what the server has made of all before it


class Responses:
    """The history is `input`; the system prompt is `instructions`, and developer items in front."""

    name = "responses"

    def read(self, fields: Fields, memory: Memory) -> Asked:
        for name in _ON_SERVER:
            if decoded(fields, name, memory) is not None:
                raise PassUnchanged(f"with {name} the server keeps the history")
        history = listed(self.name, fields, "input", memory, msgspec.json.decode)
        data, items = history.items, history.made
        kinds = [item.get("type") if isinstance(item, dict) else None for item in items]
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
            opening=(),
            rows=_rows(history, start),
            beside=[*prompt, *tools, *items[:start]],
            model=str(decoded(fields, "model", memory) or ""),
            max_output=whole(decoded(fields, "max_output_tokens", memory)),
            has_tools=bool(tools) or "additional_tools" in kinds,
        )

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        changed = [message for message, row in shown if row is None]
        found = list(_behind(changed, asked.rows))
        items: list[Out] = []
        for message, row in shown:
            items += response_items.items_of([message], found) if row is None else row.sent
        return encoded(asked.fields, "input", [*asked.lead, *items])


def _first_row(items: Sequence[Any], kinds: Sequence[Any]) -> int:
    """Where what stays in front ends: the client's own instructions and tools, and what the server has compacted."""
    newest_first = kinds[::-1]
    compacted = max(len(kinds) - newest_first.index(kind) if kind in newest_first else 0 for kind in _COMPACTED)
    for at in range(compacted, len(items)):
        item = items[at]
        if not isinstance(item, dict) or (item.get("role") not in _SYSTEM and kinds[at] != "additional_tools"):
            return at
    return len(items)


def _rows(history: History[Any], start: int) -> list[Row]:
    """The rows of the items from `start` on; those of an earlier request where no item needs another."""
    rows, at = list[Row](), start
    if history.grouped is not None and history.grouped[0] == start:
        rows, at = list(history.grouped[1]), history.grouped[2]
        while rows and at > history.kept:
            at -= len(rows.pop().sent)
        if rows and rows[-1].message["role"] == "assistant":  # its response may go on
            at -= len(rows.pop().sent)
    is_local = not any(map(response_items.needs_its_half, history.made[at:]))
    if not is_local:
        rows, at = [], start
    for message, own in response_items.rows_of(history.made[at:]):
        key = message[response_items.NAME]
        named = {**message, KEY: key}
        if message["role"] in _SYSTEM:
            named["metadata"] = HOOK
        rows.append(Row(named, tuple(history.items[at : at + len(own)]), key))
        at += len(own)
    history.grouped = (start, rows, at) if is_local else None
    return rows


def _behind(changed: Sequence[Message], rows: Sequence[Row]) -> Iterator[response_items.Row]:
    """The rows that a view has changed, and those with the calls that it answers."""
    keys = {message[KEY] for message in changed if KEY in message}
    answered = {message["tool_call_id"] for message in changed if message["role"] == "tool"}
    if not keys and not answered:
        return
    for row in rows:
        if row.key in keys or any(call["id"] in answered for call in row.message.get("tool_calls", ())):
            yield response_items.Row(row.message, [msgspec.json.decode(item) for item in row.sent])
