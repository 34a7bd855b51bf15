"""Transcripts of other agents in the shapes in which Amplifier's loops would have logged them.

Answers become content blocks with the loop's own `tool_calls` beside them; results become tool rows. Nothing is
repaired: what is odd in a transcript stays odd.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The messages of a JSONL file, packed or not, without the keys that a collector added."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="surrogatepass") as lines:
        return [_stripped(json.loads(line)) for line in lines if line.strip()]


def host_rows(messages: list[Row]) -> list[Row]:
    """The same conversation as a host's loop logs it."""
    return [row for message in messages for row in _rows_of(message)]


def _rows_of(message: Row) -> Iterator[Row]:
    content = message.get("content")
    if message["role"] == "assistant":
        yield _assistant(message)
        return
    if message["role"] != "user" or not isinstance(content, list):
        yield message
        return
    rest = []
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            said = block.get("content")
            output = said if isinstance(said, str) else "" if said is None else said
            yield {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": output}
        else:
            rest.append(block)
    if rest or not content:
        yield {**message, "content": rest}


def _assistant(message: Row) -> Row:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            block = {"type": "tool_call", "id": block["id"], "name": block["name"], "input": block["input"]}
        blocks.append(block)
    for call in message.get("tool_calls") or ():
        inner = call.get("function") or call
        arguments = inner.get("arguments") or "{}"
        name = inner.get("name") or "tool"
        blocks.append({"type": "tool_call", "id": call["id"], "name": name, "input": _object(arguments)})
    calls = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_call"]
    if not calls:
        return {key: value for key, value in message.items() if key != "tool_calls"}
    listed = [{"id": call["id"], "tool": call["name"], "arguments": call["input"]} for call in calls]
    return {**message, "content": [{**block} for block in blocks], "tool_calls": listed}


def _object(arguments: Any) -> Row:
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"input": arguments}


def _stripped(message: Row) -> Row:
    return {key: value for key, value in message.items() if not key.startswith("_")}
