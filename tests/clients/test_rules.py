"""The strict rules refuse what the providers refuse, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from evals.clients.rules import Given, Seal, in_force, problem

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
        "thinking": {"type": "enabled"},
        "messages": [{"role": role, "content": content} for role, content in rows],
    }


GOOD = messages(("user", "hi"), ("assistant", [THOUGHT, call("a"), call("b")]), ("user", [result("a"), result("b")]))


def test_a_request_as_clients_send_it_is_taken():
    assert problem("anthropic", GOOD, SEAL) == ""


def turn(said: Any, answer: Any) -> list[tuple[str, Any]]:
    """A reply to hello, and what the user answers."""
    return [("user", "hi"), ("assistant", said), ("user", answer)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("assistant", "hi")], "first message"),
        ([("user", "hi"), ("assistant", "yes")], "end with a user message"),
        ([("user", " ")], "non-whitespace"),
        (turn([THOUGHT, call()], "and?"), "without `tool_result`"),
        ([("user", [result()])], "unexpected `tool_use_id`"),
        (turn([THOUGHT, call()], [result(), result()]), "single result"),
        (turn([call()], [result()]), "expected `thinking` first"),
        (turn([{**THOUGHT, "thinking": "other"}, call()], [result()]), "invalid `signature`"),
        ([("user", "hi"), *turn([THOUGHT, call()], [result()])[1:] * 2], "ids must be unique"),
        ([("user", [{"type": "text", "text": "hi", "_key": 1}])], "extra inputs"),
        ([("user", [{"type": "text", "text": "hi", "cache_control": {}}] * 5)], "a maximum of 4"),
        (turn([THOUGHT, call()], [{"type": "text", "text": "so"}, result()]), "must come first"),
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


def server_call(id: str = "s1", name: str = "web_search") -> dict[str, Any]:
    return {"type": "server_tool_use", "id": id, "name": name, "input": {"query": "tides"}}


def found(id: str = "s1", url: str = "https://a.example") -> dict[str, Any]:
    row = {"type": "web_search_result", "url": url, "title": "A", "encrypted_content": SEAL.sign("https://a.example")}
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": [row]}


REFERENCE = {
    "type": "tool_search_tool_result",
    "tool_use_id": "s1",
    "content": {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "Map"}],
    },
}

PROGRAM_OF_THE_SERVER = [
    server_call(name="code_execution"),
    {**call(), "caller": {"type": "code_execution_20260120", "tool_id": "s1"}},
]

RAN = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {"type": "code_execution_result"}}

TABS = {"type": "browser_state", "tabs": []}

COMPACTION = {"type": "compaction", "content": "All was read.", "signature": "s", "encrypted_content": "e"}


def marked(*lives: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": life}} for life in lives]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (turn([server_call(), found()], "so"), ""),
        ([("user", "hi"), ("assistant", [server_call()]), ("assistant", [found()]), ("user", "so")], ""),
        ([("user", "hi"), ("assistant", [server_call()])], ""),  # a turn that was paused goes on
        ([("user", "hi"), ("assistant", [server_call(), found()])], "end with a user message"),
        (turn([server_call()], "so"), "without its result"),
        (turn([found()], "so"), "unexpected `tool_use_id`"),
        (turn([server_call()], [found()]), "in a message of user"),
        ([("user", [found()])], "`web_search_tool_result` in a message of user"),
        (turn([server_call(), found(url="https://b.example")], "so"), "invalid `encrypted_content`"),
        (turn([server_call(name="advisor"), found()], "so"), "unexpected"),
        ([*turn([THOUGHT, *PROGRAM_OF_THE_SERVER], [result()]), ("assistant", [RAN]), ("user", "so")], ""),
        ([*turn([THOUGHT, server_call(), call()], [result()]), ("assistant", [found()]), ("user", "so")], "its result"),
        (turn([THOUGHT, PROGRAM_OF_THE_SERVER[1]], [result()]), "is not there"),
        ([("user", [COMPACTION, {"type": "text", "text": "go on"}])], ""),
        ([("user", [{"type": "text", "text": "go on"}, COMPACTION])], "must be the first block"),
        ([("user", [COMPACTION, COMPACTION])], "must be the first block"),
        ([("user", [{"type": "text", "text": "go on"}, {**COMPACTION, "content": None}])], ""),
        ([("user", [{"type": "hologram"}])], "unknown type hologram"),
        (turn([THOUGHT, call()], [{**result(), "content": [TABS]}]), ""),
        (turn([THOUGHT, call()], [{**result(), "content": [TABS, TABS]}]), "at most one"),
        (turn([THOUGHT, call()], [{**result(), "content": [found()]}]), "in a `tool_result`"),
        ([("user", marked("1h", "5m"))], ""),
        ([("user", marked("5m", "1h"))], "must not come after"),
    ],
)
def test_blocks_of_tools_that_the_server_runs_and_of_its_compactions(rows: Any, words: str):
    body = messages(*rows)
    assert words in problem("anthropic", body, SEAL)
    assert bool(problem("anthropic", body, SEAL)) == bool(words)


def test_a_tool_is_called_only_behind_what_made_it_known():
    tools = [{"name": "Bash"}, {"name": "Map", "defer_loading": True}]
    used = [("assistant", [THOUGHT, {**call(), "name": "Map"}]), ("user", [result()])]
    loaded = [("assistant", [server_call(name="tool_search_tool_bm25"), REFERENCE]), ("user", "use it")]
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
    dropping = {**body, "messages": rows, "thinking": drops}
    assert problem("anthropic", dropping, SEAL, betas=["thinking-binding-controls-2026-08-01"]) == ""
    assert "block_binding" in problem("anthropic", dropping, SEAL)
    second = {**THOUGHT, "signature": SEAL.bind("hm", asked, [thought])}
    both = [asked["messages"][0], {"role": "assistant", "content": [thought, second, call()]}, body["messages"][2]]
    assert problem("anthropic", {**body, "messages": both}, SEAL) == ""
    both[1] = {"role": "assistant", "content": [second, call()]}
    assert "earlier messages" in problem("anthropic", {**body, "messages": both}, SEAL)
    asked = {**asked, "messages": [{"role": "user", "content": marked}]}
    unmarked = {**asked, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    assert SEAL.bind("hm", asked) == SEAL.bind("hm", unmarked)


def test_what_was_said_comes_back_word_for_word_and_thinking_by_whole_messages():
    given, hologram = Given(), {"type": "hologram", "text": "odd"}
    other = {**THOUGHT, "thinking": "so", "signature": SEAL.sign("so")}
    given.add([THOUGHT, other, server_call(), found(), hologram, call()])
    said = [THOUGHT, other, server_call(), {**found(), "cache_control": {"type": "ephemeral"}}, hologram, call()]

    def taken(blocks: Any) -> str:
        return problem("anthropic", messages(*turn(blocks, [result()])), SEAL, given=given)

    assert taken(said) == ""
    assert "is not what was given" in taken([*said[:4], {**hologram, "text": "od"}, call()])
    assert "is not what was given" in taken([*said[:2], {**server_call(), "input": {}}, *said[3:]])
    assert "cannot be modified" in taken(said[1:])
    assert "expected `thinking`" in taken(said[2:])
    items = [SAID, {"type": "web_search_call", "id": "w1", "status": "completed"}]
    given.add(items)
    assert problem("responses", {"input": items}, SEAL, given=given) == ""
    assert "is not what was given" in problem("responses", {"input": [{**items[1], "status": "x"}]}, SEAL, given=given)
    odd = {"messages": [{"role": "user", "content": [hologram]}]}
    assert problem("chat", odd, SEAL, given=given) == ""
    assert "invalid part" in problem("chat", odd, SEAL)
    assert problem("gemini", {"contents": [{"role": "user", "parts": [hologram | {"text": 1}]}]}, SEAL) == ""
    assert "unknown name" in problem("gemini", {"contents": [{"role": "user", "parts": [{"hologram": 1}]}]}, SEAL)
    assert "unknown member" in problem("bedrock", {"messages": [{"role": "user", "content": [{"hologram": 1}]}]}, SEAL)


def test_a_thread_holds_what_a_request_does_not():
    body = {**messages(("user", [result()])), "thread": {"type": "continue", "previous_message_id": "m"}}
    assert problem("anthropic", body, SEAL, betas=["message-threads-2026-08-12"]) == ""
    assert "thread" in problem("anthropic", body, SEAL)


def test_what_holds_at_the_end_of_a_request():
    row = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Map"}}
    body = messages(("user", "hi"), ("system", [row]), ("assistant", "yes"))
    body["tools"].append({"name": "Map", "defer_loading": True})
    assert in_force(body)["unknown"] == set()
    assert in_force({**body, "messages": body["messages"][:1]})["unknown"] == {"Map"}
    assert in_force({"messages": [EFFORT]})["effort"] == "low"
    updates = [{"type": "configuration_update", "reasoning": {"effort": effort}} for effort in ("low", "high")]
    held = in_force({"input": [SEARCHED, *updates]})
    assert (held["tools"], held["reasoning"]) == ({"maps"}, {"effort": "high"})


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
        ([PROGRAM, BY_PROGRAM, DONE], ""),  # it goes on
        ([PROGRAM, BY_PROGRAM, DONE, SAID], "no tool output"),
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
    ended = deepcopy({"messages": [*thought["messages"], {"role": "user", "content": "so"}]})
    ended["messages"][1]["reasoning_content"] = ""
    assert problem("chat", ended, SEAL, demands={"reasoning_content"}) == ""
    del ended["messages"][1]["reasoning_content"]
    assert "reasoning_content is missing" in problem("chat", ended, SEAL, demands={"reasoning_content"})


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


def chat(**row: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", **row}]}


def of(role: str, *parts: Any) -> dict[str, Any]:
    """A row of Gemini's or of Bedrock's behind a hello."""
    return {"role": role, "parts": list(parts), "content": list(parts)}


HI, USE = of("user", {"text": "hi"}), {"toolUse": {"toolUseId": "a", "name": "exec", "input": {}}}

NO_OBJECT = {"id": "a", "function": {"arguments": "[]"}}


@pytest.mark.parametrize(
    ("dialect", "body", "words"),
    [
        ("anthropic", messages(), "at least one message"),
        ("anthropic", {**GOOD, "max_tokens": -1}, "max_tokens"),
        ("anthropic", messages(*turn("yes", "so"), ("tool", "x")), "unexpected tool"),
        ("anthropic", messages(*turn([], "so")), "must not be empty"),
        ("anthropic", {**GOOD, "tools": []}, "must define tools"),
        ("anthropic", messages(*turn([{"type": "thinking", "thinking": "hm"}], "so")), "field required"),
        ("anthropic", messages(*turn([THOUGHT, call("a b")], [result("a b")])), "match pattern"),
        ("anthropic", messages(*turn([THOUGHT, {**call(), "input": "ls"}], [result()])), "an object"),
        ("anthropic", messages(*turn([THOUGHT, call()], "and?")), "immediately after: ['a']"),
        ("anthropic", messages(*turn([THOUGHT, call()], "and?")[:2]), "blocks: ['a']"),
        ("chat", {"messages": []}, "too short"),
        ("chat", {"messages": [{"role": "robot", "content": "hi"}]}, "invalid value"),
        ("chat", chat(content="yes", tool_calls=[]), "empty array"),
        ("chat", chat(content=None), "got null"),
        ("chat", chat(audio={"id": "a1"}), "unknown id"),
        ("chat", {"messages": [*CHAT["messages"][:2], CHAT["messages"][0]]}, "must be followed by tool messages"),
        ("chat", {"messages": [*chat(tool_calls=[NO_OBJECT])["messages"], CHAT["messages"][2]]}, "no object"),
        ("responses", {"input": []}, "at least one item"),
        ("responses", {"input": [reasoning(), function_call(), {**PROGRAM, "call_id": "c1"}]}, "duplicate call ids"),
        ("responses", {"input": [reasoning(), function_call(), SAID, OUTPUT]}, "no tool output"),
        ("responses", {"input": [reasoning(), function_call()]}, "no tool output"),
        ("gemini", {"contents": []}, "not specified"),
        ("gemini", {"contents": [HI, of("robot", {"text": "yes"})]}, "valid role"),
        ("gemini", {"contents": [HI, of("model")]}, "must not be empty"),
        ("gemini", {"contents": [HI, of("user", {"functionCall": {"name": "exec"}})]}, "in a turn of the user"),
        ("bedrock", {"messages": [of("assistant", {"text": "hi"}), HI]}, "must start with a user"),
        ("bedrock", {"messages": [HI, of("assistant"), HI]}, "is empty"),
        ("bedrock", {"messages": [of("user", USE)]}, "in a message of the user"),
    ],
)
def test_the_other_rules_one_by_one(dialect: str, body: dict[str, Any], words: str):
    given = Given() if "unknown id" in words else None
    assert words in problem(dialect, body, SEAL, given=given)
