"""Reading requests: a session's next one is read only where it is new, and to the same end as if nothing were known."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from summarizing_context.proxy.dialects.anthropic import Anthropic
from summarizing_context.proxy.dialects.base import Dialect, Memory, PassUnchanged
from summarizing_context.proxy.dialects.openai import Chat, Responses

DIALECTS: dict[str, tuple[Dialect, str]] = {
    "anthropic": (Anthropic(), "messages"),
    "chat": (Chat(), "messages"),
    "responses": (Responses(), "input"),
}

SEPARATORS = [(",", ":"), (", ", ": "), (" ,\n  ", " : ")]


def steps_of(dialect: str, number: int) -> list[dict[str, Any]]:
    """What one step adds to a history."""
    text = f'text {number} é \\ " ]}}, {{'
    if dialect == "responses":
        kind = "local_shell_call" if number % 5 == 4 else "function_call"
        call = {"type": kind, "name": "read", "arguments": "{}", "action": {"command": ["ls"]}}
        ids = [f"c{number}", f"d{number}"]  # the second call is answered behind the first one's output
        return [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            *({**call, "call_id": id} for id in ids),
            *({"type": f"{kind}_output", "call_id": id, "output": text} for id in ids),
        ]
    if dialect == "chat":
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        rows: list[dict[str, Any]] = [{"role": "user", "content": text}]
        rows.append({"role": "assistant", "content": None, "tool_calls": [call]})
        return [*rows, {"role": "tool", "tool_call_id": f"c{number}", "content": text}]
    use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"n": number}}
    answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
    said = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    return [
        {"role": "user", "content": [said]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [answer]},
    ]


def edited(history: list[dict[str, Any]], dialect: str, number: int, chance: random.Random) -> list[dict[str, Any]]:
    kind, at = chance.choice(["add", "add", "part", "drop", "cut", "change", "same"]), chance.randrange(len(history))
    more = steps_of(dialect, number)
    if kind == "part":  # the rest of it comes later, or never
        return [*history, *more[: chance.randrange(1, len(more))]]
    if kind == "drop":
        return [*history[:at], *history[at + 1 :], *more]
    if kind == "cut":
        return [*history[: at + 1], *more]
    if kind == "change":
        return [*history[:at], *more[:1], *history[at + 1 :]]
    return [*history, *more] if kind == "add" else history


def read(dialect: str, history: list[Any], memory: Memory, separators: tuple[str, str]) -> Any:
    reader, field = DIALECTS[dialect]
    lead = {"role": "developer", "content": "Be brief."}
    items = history if dialect == "anthropic" else [lead, *history]
    fields = {"model": "m", "tools": [{"name": "read"}], "max_tokens": 9, field: items}
    raw = {name: json.dumps(value, separators=separators).encode() for name, value in fields.items()}
    asked = reader.read(raw, memory)  # type: ignore[arg-type]
    return asked.lead, list(asked.rows), list(asked.beside), asked.model, asked.has_tools


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("separators", SEPARATORS)
def test_a_request_is_read_alike_whatever_was_read_before(dialect: str, separators: tuple[str, str]):
    for seed in range(12):
        chance, memory = random.Random(seed), Memory(most_lists=3)
        histories = [steps_of(dialect, 0), steps_of(dialect, 1)]
        for number in range(2, 30):
            which = chance.randrange(2)
            histories[which] = edited(histories[which], dialect, number, chance)
            told = read(dialect, histories[which], memory, separators)
            assert told == read(dialect, histories[which], Memory(), separators)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_what_is_new_is_read(dialect: str):
    memory, history = Memory(), [item for number in range(40) for item in steps_of(dialect, number)]
    _, field = DIALECTS[dialect]
    made: list[bytes] = []
    memory.history(field, json.dumps(history).encode(), made.append)
    assert len(made) == len(history)
    later = [*history[:-1], {**history[-1], "changed": 1}, *steps_of(dialect, 41)]
    again = memory.history(field, json.dumps(later).encode(), made.append)
    assert len(made) == len(history) + 1 + len(steps_of(dialect, 41))
    assert [json.loads(item) for item in again.items] == later


def test_what_is_remembered_is_bounded():
    memory, made = Memory(most_bytes=1_000, most_fields=4), list[bytes]()
    lists = [json.dumps([{"n": number, "text": "x" * 300}]).encode() for number in range(8)]
    for data in lists:
        memory.history("x", data, made.append)
        memory.field(data)
    memory.history("x", lists[-1], made.append)
    assert len(made) == 8
    memory.history("x", lists[0], made.append)
    assert len(made) == 9


def test_a_field_that_is_no_list_is_no_history():
    for body in (b"7", b"{}", b'"text"'):
        with pytest.raises(PassUnchanged):
            Chat().read({"messages": body}, Memory())  # type: ignore[dict-item]
