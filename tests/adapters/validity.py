"""What the host's two big providers would repair, drop or refuse in a request.

Written from `amplifier-core`'s `Message` and the rules of Anthropic's messages and OpenAI's responses; it shares no
code with the adapter. Rows are those that a context hands to an orchestrator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from amplifier_core import Message
from pydantic import ValidationError

Row = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FRONT = ("system", "developer")


def refusals(rows: Sequence[Row]) -> list[str]:
    """Everything that is wrong with a request, for any of them."""
    return [*host_refusals(rows), *anthropic_refusals(rows), *openai_refusals(rows)]


def host_refusals(rows: Sequence[Row]) -> Iterator[str]:
    """What the host's own loop would raise for."""
    for at, row in enumerate(rows):
        try:
            Message(**row)
        except (ValidationError, TypeError) as error:
            yield f"row {at}: Message refuses it: {type(error).__name__}"
        try:
            json.dumps(row, allow_nan=False, ensure_ascii=False).encode()
        except ValueError:
            yield f"row {at}: not JSON in UTF-8"


def anthropic_refusals(rows: Sequence[Row]) -> Iterator[str]:
    """System rows are hoisted; calls are answered in the next user message, all together; no text is empty."""
    said = [(at, row) for at, row in enumerate(rows) if row["role"] not in _FRONT]
    yield from (f"row {at}: empty {row['role']} row" for at, row in enumerate(rows) if _is_empty_front(row))
    if said and said[0][1]["role"] != "user":
        yield f"row {said[0][0]}: the first message is {said[0][1]['role']}, not user"
    open_calls: list[str] = []
    seen: set[str] = set()
    for at, row in said:
        role = row["role"]
        if role == "tool":
            if row.get("tool_call_id") not in open_calls:
                yield f"row {at}: result of {row.get('tool_call_id')!r}, which no call right before waits for"
            else:
                open_calls.remove(row["tool_call_id"])
            continue
        if open_calls:
            yield f"row {at}: stands before the results of {open_calls}"
            open_calls = []
        yield from (f"row {at}: {fault}" for fault in _content_faults(row))
        for id in _block_calls(row):
            if id in seen or not _ID.fullmatch(id):
                yield f"row {at}: the id {id!r} was used before, or is malformed"
            seen.add(id)
            open_calls.append(id)
    if open_calls:
        yield f"the request ends before the results of {open_calls}"


def openai_refusals(rows: Sequence[Row]) -> Iterator[str]:
    """Only user, assistant and tool rows travel; every output has its call before it, every call its output."""
    called: set[str] = set()
    answered: set[str] = set()
    for at, row in enumerate(rows):
        if row["role"] not in (*_FRONT, "user", "assistant", "tool"):
            yield f"row {at}: a {row['role']} row is dropped"
        blocks = _block_calls(row)
        if row["role"] == "assistant":
            called.update(blocks)
            lost = [call.get("id") for call in row.get("tool_calls") or () if call.get("id") not in blocks]
            if lost:
                yield f"row {at}: calls that are no blocks are lost: {lost}"
        elif blocks or row.get("tool_calls"):
            yield f"row {at}: calls of a {row['role']} row are lost"
        if row["role"] == "tool":
            if row.get("tool_call_id") not in called:
                yield f"row {at}: no tool call found for function call output {row.get('tool_call_id')!r}"
            elif row["tool_call_id"] in answered:
                yield f"row {at}: a second output of {row['tool_call_id']!r}"
            answered.add(str(row.get("tool_call_id")))
        elif any(block["type"] == "tool_result" for block in _blocks(row)):
            yield f"row {at}: a result inside a {row['role']} row is dropped"
    if called - answered:
        yield f"calls without an output: {sorted(called - answered)}"


def _content_faults(row: Row) -> Iterator[str]:
    content = row["content"]
    if isinstance(content, str):
        if not content.strip():
            yield f"empty {row['role']} content"
        return
    if not content:
        yield "empty content list"
    if any(block["type"] == "text" and not block["text"].strip() for block in content):
        yield "empty text block"
    if any(block["type"] == "thinking" and not (block.get("signature") or block.get("content")) for block in content):
        yield "thinking without a signature is dropped"
    if row["role"] == "assistant" and any(block["type"] == "image" for block in content):
        yield "an image in an assistant row"
    if all(block["type"] in ("thinking", "redacted_thinking", "reasoning") for block in content):
        yield "nothing but thinking"


def _is_empty_front(row: Row) -> bool:
    return row["role"] in _FRONT and not (row["content"].strip() if isinstance(row["content"], str) else row["content"])


def _blocks(row: Row) -> list[Row]:
    return [block for block in row["content"] if isinstance(block, dict)] if isinstance(row["content"], list) else []


def _block_calls(row: Row) -> list[str]:
    return [block["id"] for block in _blocks(row) if block["type"] == "tool_call"]
