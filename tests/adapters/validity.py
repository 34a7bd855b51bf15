"""What the host and its two big providers would repair, drop or refuse in a request.

Written from `amplifier-core`'s `Message` and what its providers for Anthropic and OpenAI make of rows; what is left is
judged by the rules of Anthropic's messages. It shares no code with the adapter. Rows are those that a context hands to
an orchestrator.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from amplifier_core import Message

from evals.clients.rules import Seal, problem

Row = dict[str, Any]

_FRONT = ("system", "developer")
_THINKING = ("thinking", "redacted_thinking", "reasoning")  # signed for the provider that gave it


def refusals(rows: Sequence[Row]) -> list[str]:
    """What the host's loop would raise for, what a provider would repair or drop, and what Anthropic would refuse."""
    found = [f"row {at}: {words}" for at, row in enumerate(rows) for words, holds in _losses(row).items() if holds]
    body = {"max_tokens": 1, "tools": [{"name": "read"}], "messages": list(_messages(rows))}
    for check in (
        lambda: [Message(**row) for row in rows],
        lambda: json.dumps(rows, allow_nan=False, ensure_ascii=False).encode(),
    ):
        try:
            check()
        except (ValueError, TypeError) as error:
            found.append(f"no messages of the host: {error}")
    return found + [wrong for wrong in [problem("anthropic", body, Seal(b""))] if wrong]


def _losses(row: Row) -> dict[str, Any]:
    role, blocks = row["role"], _blocks(row)
    calls = [block["id"] for block in blocks if block["type"] == "tool_call"]
    listed = [call.get("id") for call in row.get("tool_calls") or ()]
    kinds = [block["type"] for block in blocks]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    return {
        f"a {role} row is dropped": role not in (*_FRONT, "user", "assistant", "tool"),
        f"an empty {role} row": not str(row["content"] or "").strip(),
        "calls that are no blocks": role == "assistant" and set(listed) - set(calls),
        f"calls of a {role} row": role != "assistant" and (calls or listed),
        f"a result inside a {role} row": role != "tool" and "tool_result" in kinds,
        "thinking without a signature": any(not (one.get("signature") or one.get("content")) for one in thoughts),
        "an image in an assistant row": role == "assistant" and "image" in kinds,
    }


def _messages(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows as messages of Anthropic: system rows go in front, results of a turn's calls together."""
    results: list[Row] = []
    for row in rows:
        if row["role"] == "tool":
            id = row.get("tool_call_id")
            results.append({"type": "tool_result", "tool_use_id": id, "content": row["content"]})
        elif row["role"] not in _FRONT:
            if results:
                yield {"role": "user", "content": results}
                results = []
            yield {
                "role": row["role"],
                "content": [_block(one) for one in _blocks(row) if one["type"] not in _THINKING],
            }
    if results or (rows and rows[-1]["role"] == "assistant"):  # which a host goes on from
        yield {"role": "user", "content": results or "Go on."}


def _block(block: Row) -> Row:
    if block["type"] == "tool_call":
        return {"type": "tool_use", **{name: block[name] for name in ("id", "name", "input")}}
    return {"type": "text", "text": block["text"] if block["type"] == "text" else f"[{block['type']}]"}


def _blocks(row: Row) -> list[Row]:
    content = row["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
