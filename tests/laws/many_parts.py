"""Logs whose newest group is made of very many small things, which no cut of a single text could shrink."""

import json
from typing import Any

from .builders import Message, assistant, call, result, system, user

SHAPES = [
    "text blocks", "bare strings", "said blocks", "unknown blocks", "images", "results of blocks", "result blocks",
    "one row of results", "rows of results", "results with words", "calls in flight", "calls in flight as blocks",
    "system blocks", "argument fields", "argument keys", "fields as text", "long names", "signed thinking",
    "refusal and function call", "result without a call", "mixed", "late results", "reminders",
    "long type", "odd type", "loaded tools",
]  # fmt: skip


def _texts(n: int) -> list[Message]:
    return [{"type": "text", "text": f"line {i} of the listing"} for i in range(n)]


def _result(id: str, content: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def odd_log(shape: str, n: int) -> list[Message]:
    """A short log that ends with so many things of that shape."""
    ids = [f"c{i}" for i in range(n)]
    calls = call("anthropic", *((i, "ls", {}) for i in ids))
    fields = {f"k{i}": f"value {i}" for i in range(n)}
    thought = {"type": "thinking", "thinking": "so " * n, "signature": "s"}
    thinking = [thought, {"type": "redacted_thinking", "data": "x"}]
    function = {"function_call": {"name": "f" * n, "arguments": json.dumps(fields)}}
    listing = result("openai", "c", _texts(n))
    several = [*(_result(i, [*_texts(2), {"type": "image"}]) for i in ids), *_texts(n), "end", 7, None]
    made: dict[str, list[Message]] = {
        "long type": [user("see") | {"type": "kind " * n}],
        "odd type": [user("see") | {"type": fields}],
        "loaded tools": [assistant("loaded") | {"metadata": {"openai:tool_search_items": _texts(n)}}],
        "text blocks": [user(_texts(n))],
        "bare strings": [user(["word"] * n)],
        "said blocks": [assistant(_texts(n))],
        "unknown blocks": [user([{"type": "weird", "n": i, "inner": [i]} for i in range(n)])],
        "images": [user([{"type": "image_url", "image_url": {"url": f"http://x/{i}"}} for i in range(n)])],
        "results of blocks": [call("openai", ("c", "ls", {})), listing],
        "result blocks": [call("anthropic", ("c", "ls", {})), user([_result("c", _texts(n))])],
        "one row of results": [calls, user([_result(i, f"line {i} of it") for i in ids])],
        "rows of results": [calls, *(user([_result(i, f"line {i} of it")]) for i in ids)],
        "results with words": [calls, *(user([_result(i, "ok"), {"type": "text", "text": f"on {i}"}]) for i in ids)],
        "calls in flight": [call("openai", *((i, "ls", {"path": "x"}) for i in ids))],
        "calls in flight as blocks": [calls],
        "system blocks": [system(_texts(n))],
        "argument fields": [call("anthropic", ("c", "ls", fields))],
        "argument keys": [call("anthropic", ("c", "ls", {"key" * n: 1, "other" * n: 2}))],
        "fields as text": [call("openai", ("c", "ls", fields))],
        "long names": [call("openai", ("c", "name" * n, {})), result("openai", "c", "ok")],
        "signed thinking": [{"role": "assistant", "content": [*thinking, *_texts(n), *calls["content"][:3]]}],
        "refusal and function call": [{"role": "assistant", "content": None, "refusal": "no " * n, **function}],
        "result without a call": [user([_result(i, f"line {i}") for i in ids])],
        "mixed": [calls, user(several)],
        "late results": [calls, user("never mind"), *(user([_result(i, f"line {i}")]) for i in ids[:40])],
        "reminders": [{**user(f"note {i}"), "ephemeral": True} for i in range(n)],
    }  # fmt: skip
    return [system("Be brief."), user("hi there"), assistant("hello"), *made[shape]]
