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


def server_call(id: str = "s1") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tides"}}


def found(id: str = "s1", url: str = "https://a.example") -> dict[str, Any]:
    row = {"type": "web_search_result", "url": url, "title": "A", "encrypted_content": SEAL.sign("https://a.example")}
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": [row]}


LOADED = [{"type": "tool_reference", "name": "Map"}]

REFERENCE = {
    "type": "tool_search_tool_result",
    "tool_use_id": "s1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "name": "Map"}],
    },
}

COMPACTION = {"type": "compaction", "content": "All was read.", "signature": "s", "encrypted_content": "e"}


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("user", "hi"), ("assistant", [server_call(), found()]), ("user", "so")], ""),
        ([("user", "hi"), ("assistant", [server_call()]), ("assistant", [found()]), ("user", "so")], ""),
        ([("user", "hi"), ("assistant", [server_call()])], ""),  # a turn that was paused goes on
        ([("user", "hi"), ("assistant", [server_call(), found()])], "end with a user message"),
        ([("user", "hi"), ("assistant", [server_call()]), ("user", "so")], "without its result"),
        ([("user", "hi"), ("assistant", [found()]), ("user", "so")], "unexpected `tool_use_id`"),
        ([("user", "hi"), ("assistant", [server_call()]), ("user", [found()])], "in a message of user"),
        ([("user", [found()])], "`web_search_tool_result` in a message of user"),
        (
            [("user", "hi"), ("assistant", [server_call(), found(url="https://b.example")]), ("user", "so")],
            "invalid `encrypted_content`",
        ),
        ([("user", [COMPACTION, {"type": "text", "text": "go on"}])], ""),
        ([("user", [{"type": "text", "text": "go on"}, COMPACTION])], "must be the first block"),
        ([("user", [COMPACTION, COMPACTION])], "must be the first block"),
        ([("user", [{"type": "text", "text": "go on"}, {**COMPACTION, "content": None}])], ""),
        ([("user", [{"type": "hologram"}])], "unknown type hologram"),
        (
            [
                ("user", [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": life}}])
                for life in ("5m", "1h")
            ],
            "must not come after",
        ),
    ],
)
def test_blocks_of_tools_that_the_server_runs_and_of_its_compactions(rows: Any, words: str):
    body = messages(*rows)
    assert words in problem("anthropic", body, SEAL)
    assert bool(problem("anthropic", body, SEAL)) == bool(words)


def test_a_tool_is_called_only_behind_what_made_it_known():
    tools = [{"name": "Bash"}, {"name": "Map", "defer_loading": True}]
    used = [("assistant", [THOUGHT, {**call(), "name": "Map"}]), ("user", [result()])]
    loaded = [("assistant", [server_call(), REFERENCE]), ("user", "use it")]
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Map"}}
    added = [("system", [addition])]
    removed = [("assistant", "Yes."), ("user", "no"), ("system", [{**addition, "type": "tool_removal"}])]
    for rows, words in (
        ([*loaded, *used], ""),
        (used, "not available"),
        ([*added, *used], ""),
        ([*added, *removed, *used], "not available"),
    ):
        body = {**messages(("user", "hi"), *rows), "tools": tools}
        assert words in problem("anthropic", body, SEAL)
        assert bool(problem("anthropic", body, SEAL)) == bool(words)


def test_bound_thinking_holds_only_behind_what_it_was_signed_for():
    asked = {**messages(("user", "hi")), "system": "Be brief."}
    thought = {**THOUGHT, "signature": SEAL.bind("hm", asked)}
    body = {**messages(("user", "hi"), ("assistant", [thought, call()]), ("user", [result()])), "system": "Be brief."}
    assert problem("anthropic", body, SEAL) == ""
    marked = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    assert "earlier messages" in problem("anthropic", {**body, "system": "Be long."}, SEAL)
    rows = [{"role": "user", "content": "hello"}, *body["messages"][1:]]
    assert "earlier messages" in problem("anthropic", {**body, "messages": rows}, SEAL)
    drops = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert problem("anthropic", {**body, "messages": rows, "thinking": drops}, SEAL) == ""
    asked = {**asked, "messages": [{"role": "user", "content": marked}]}
    unmarked = {**asked, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    assert SEAL.bind("hm", asked) == SEAL.bind("hm", unmarked)


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


PROGRAM = {"type": "program", "call_id": "p1", "code": "go()", "fingerprint": SEAL.sign("go()")}

BY_PROGRAM = {
    "type": "function_call",
    "call_id": "c9",
    "name": "exec",
    "arguments": "{}",
    "caller": {"type": "program", "caller_id": "p1"},
}

DONE = {"type": "function_call_output", "call_id": "c9", "output": "src"}

PROGRAM_OUTPUT = {"type": "program_output", "call_id": "p1", "result": "{}"}

QUESTION = {"type": "mcp_approval_request", "id": "q1", "name": "send", "arguments": "{}", "server_label": "mail"}

LEAVE = {"type": "mcp_approval_response", "approval_request_id": "q1", "approve": True}

SEARCHED = {"type": "tool_search_output", "tools": [{"type": "namespace", "name": "maps"}], "call_id": None}

LATE = {"type": "function_call", "call_id": "c7", "namespace": "maps", "name": "find", "arguments": "{}"}


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([PROGRAM, BY_PROGRAM, DONE, PROGRAM_OUTPUT], ""),
        ([PROGRAM, BY_PROGRAM, DONE], "no tool output"),
        ([PROGRAM_OUTPUT], "no tool call"),
        ([BY_PROGRAM, DONE], "called by a program that is not there"),
        ([PROGRAM, PROGRAM_OUTPUT, BY_PROGRAM, DONE], "called by a program that is not there"),
        ([{**PROGRAM, "code": "stop()"}, PROGRAM_OUTPUT], "fingerprint"),
        ([QUESTION, LEAVE], ""),
        ([QUESTION, SAID], "no tool output"),
        ([LEAVE], "no tool call"),
        ([{**QUESTION, "type": "function_call", "call_id": "q1"}, LEAVE], "unknown parameter"),
        ([SEARCHED, LATE, {**DONE, "call_id": "c7"}], ""),
        ([LATE, {**DONE, "call_id": "c7"}], "unknown namespace"),
        ([{"type": "configuration_update", "reasoning": {"effort": "low"}}], ""),
        ([{"type": "hologram"}], "invalid value"),
    ],
)
def test_items_that_belong_together_in_responses(items: Any, words: str):
    body = {"input": [SAID, *items]}
    assert words in problem("responses", body, SEAL)
    assert bool(problem("responses", body, SEAL)) == bool(words)


def test_servers_that_speak_chat_may_demand_more():
    assert problem("chat", CHAT, SEAL, demands={"alternating"}) == ""
    twice = {"messages": [{"role": "user", "content": "hi"}, *CHAT["messages"]]}
    assert problem("chat", twice, SEAL) == ""
    assert "must alternate" in problem("chat", twice, SEAL, demands={"alternating"})
    assert "reasoning_content is missing" in problem("chat", CHAT, SEAL, demands={"reasoning_content"})
    thought = deepcopy(CHAT)
    thought["messages"][1]["reasoning_content"] = "hm"
    assert problem("chat", thought, SEAL, demands={"reasoning_content"}) == ""
    ended = {"messages": [*CHAT["messages"], {"role": "user", "content": "so"}]}
    assert problem("chat", ended, SEAL, demands={"reasoning_content"}) == ""


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {"role": "model" if "functionCall" in part or part.get("text") == "yes" else "user", "parts": [part]}
        for part in parts
    ]
    return {"contents": rows}


def test_gemini_wants_each_call_answered_next_and_signed():
    said = {"functionCall": {"name": "exec", "args": {}}}
    signed = {**said, "thoughtSignature": SEAL.sign('{"functionCall": {"args": {}, "name": "exec"}}')}
    answer = {"functionResponse": {"name": "exec", "response": {}}}
    hi, yes = {"text": "hi"}, {"text": "yes"}
    assert problem("gemini", gemini(hi, signed, answer), SEAL) == ""
    assert problem("gemini", gemini(hi, said, answer, yes, hi), SEAL) == "", "of a finished turn nothing is asked"
    assert "thought_signature" in problem("gemini", gemini(hi, said, answer), SEAL)
    assert "thought signature" in problem("gemini", gemini(hi, {**signed, "thoughtSignature": "x"}, answer), SEAL)
    assert "must equal" in problem("gemini", gemini(hi, signed, hi), SEAL)
    assert "without function responses" in problem("gemini", gemini(hi, signed), SEAL)
    assert "immediately after" in problem("gemini", gemini(hi, yes, signed, answer), SEAL)
    assert "start with a user" in problem("gemini", gemini(signed, answer), SEAL)


def test_bedrock_wants_alternating_roles_and_pairs():
    hi, use = {"text": "hi"}, {"toolUse": {"toolUseId": "a", "name": "exec", "input": {}}}
    done = {"toolResult": {"toolUseId": "a", "content": [{"text": "src"}]}}

    def said(*blocks: Any, tools: bool = True) -> str:
        rows = [{"role": "assistant" if at % 2 else "user", "content": [block]} for at, block in enumerate(blocks)]
        return problem("bedrock", {"messages": rows, **({"toolConfig": {"tools": []}} if tools else {})}, SEAL)

    assert said(hi, use, done) == ""
    assert "toolConfig" in said(hi, use, done, tools=False)
    assert "the number of toolResult" in said(hi, use, hi)
    assert "prefill" in said(hi, hi)
    assert "repeated" in said(hi, use, done, use, done)
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": SEAL.sign("hm")}}}
    assert said(hi, thought, hi) == ""
    thought["reasoningContent"]["reasoningText"]["text"] = "ha"
    assert "signature" in said(hi, thought, hi)
    rows = [{"role": "user", "content": [hi]}, {"role": "user", "content": [hi]}]
    assert "alternate" in problem("bedrock", {"messages": rows}, SEAL)
