"""The strict rules refuse what the providers refuse, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from evals.clients.rules import Seal, problem

SEAL = Seal(b"secret")

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": SEAL.sign("hm")}


def call(id: str = "a") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}}


def result(id: str = "a") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "src"}


def messages(*rows: tuple[str, Any]) -> dict[str, Any]:
    return {
        "max_tokens": 9,
        "tools": [{"name": "Bash"}],
        "thinking": {"type": "adaptive"},
        "messages": [{"role": role, "content": content} for role, content in rows],
    }


GOOD = messages(("user", "hi"), ("assistant", [THOUGHT, call("a"), call("b")]), ("user", [result("a"), result("b")]))


def test_a_request_as_clients_send_it_is_taken():
    assert problem("anthropic", GOOD, SEAL) == ""


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("assistant", "hi")], "first message"),
        ([("user", "hi"), ("assistant", "yes")], "end with a user message"),
        ([("user", " ")], "non-whitespace"),
        ([("user", "hi"), ("assistant", [THOUGHT, call()]), ("user", "and?")], "without `tool_result`"),
        ([("user", [result()])], "unexpected `tool_use_id`"),
        ([("user", "hi"), ("assistant", [THOUGHT, call()]), ("user", [result(), result()])], "single result"),
        ([("user", "hi"), ("assistant", [call()]), ("user", [result()])], "expected `thinking` first"),
        (
            [("user", "hi"), ("assistant", [{**THOUGHT, "thinking": "other"}, call()]), ("user", [result()])],
            "invalid `signature`",
        ),
        (
            [("user", "hi"), *[("assistant", [THOUGHT, call()]), ("user", [result()])] * 2],
            "ids must be unique",
        ),
        ([("user", [{"type": "text", "text": "hi", "_key": 1}])], "extra inputs"),
        ([("user", [{"type": "text", "text": "hi", "cache_control": {}}] * 5)], "a maximum of 4"),
        (
            [
                ("user", "hi"),
                ("assistant", [THOUGHT, call()]),
                ("user", [{"type": "text", "text": "so"}, result()]),
            ],
            "must come first",
        ),
    ],
)
def test_what_anthropic_refuses(rows: Any, words: str):
    assert words in problem("anthropic", messages(*rows), SEAL)


EFFORT = {"role": "system", "content": [], "output_config": {"effort": "low"}}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("us", ""),
        ("usau", ""),
        ("ueau", ""),
        ("uaeu", ""),
        ("useau", ""),
        ("su", "first message"),
        ("uus u", "precede an `assistant`"),
        ("uasu", "follow a `user`"),
        ("ussau", "consecutive"),
        ("seuau", "first message"),
        ("useu", "precede an `assistant`"),
    ],
)
def test_the_system_may_speak_behind_the_user_and_before_the_model(rows: str, words: str):
    said = {"u": {"role": "user", "content": "hi"}, "a": {"role": "assistant", "content": "yes"}, "e": EFFORT}
    said["s"] = {"role": "system", "content": "The folder is /shop."}
    body = {**messages(), "messages": [said[row] for row in rows.replace(" ", "")]}
    found = problem("anthropic", body, SEAL, betas=["per-turn-control-2026-07-01"])
    assert words in found
    assert bool(found) == bool(words)
    assert ("output_config" in problem("anthropic", body, SEAL)) == ("e" in rows and rows[0] == "u")


CHAT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "src"},
    ]
}


def test_a_chat_is_taken_only_with_its_pairs():
    assert problem("chat", CHAT, SEAL) == ""
    without = {"messages": CHAT["messages"][:2]}
    assert "without tool messages" in problem("chat", without, SEAL)
    early = {"messages": [CHAT["messages"][0], CHAT["messages"][2]]}
    assert "must be a response" in problem("chat", early, SEAL)
    twice = {"messages": [*CHAT["messages"], *CHAT["messages"]]}
    assert "duplicate" in problem("chat", twice, SEAL)
    named = deepcopy(CHAT)
    named["messages"][0]["metadata"] = {}
    assert "unrecognized" in problem("chat", named, SEAL)


def reasoning(number: int = 1) -> dict[str, Any]:
    id = f"rs_{number}"
    return {"type": "reasoning", "id": id, "summary": [], "encrypted_content": SEAL.sign(id)}


def function_call(number: int = 1) -> dict[str, Any]:
    id = f"fc_{number}_0"
    return {"type": "function_call", "id": id, "call_id": f"c{number}", "name": "exec", "arguments": "{}"}


OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "src"}

SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}


def test_responses_are_taken_with_pairs_and_reasoning_alone():
    def said(*items: Any, cut: tuple[str, ...] = ()) -> str:
        return problem("responses", {"input": list(items)}, SEAL, cut)

    assert said(SAID, reasoning(), function_call(), OUTPUT) == ""
    assert "no tool output" in said(SAID, reasoning(), function_call(), SAID)
    assert "no tool call" in said(SAID, OUTPUT)
    assert "required 'reasoning'" in said(SAID, function_call(), OUTPUT)
    assert "required following item" in said(SAID, reasoning(), SAID)
    assert said(SAID, reasoning(), SAID, cut=("rs_1",)) == ""
    assert "could not be verified" in said(SAID, {**reasoning(), "id": "rs_2"}, function_call(), OUTPUT)
    assert "duplicate item" in said(SAID, reasoning(), function_call(), OUTPUT, reasoning(), function_call(), OUTPUT)
    assert "unknown parameter" in said({**SAID, "_proxy": "x"})
