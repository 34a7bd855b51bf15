"""What a provider does by itself to a history stays as the client asked for it: compaction, edits, cache marks."""

import json
from typing import Any

import pytest

from tests.laws.builders import assistant, system, user
from tests.proxy.clients import TOOL, AnthropicAgent, begins_with, between, histories, status
from tests.proxy.fake import SEAL, Fake, nothing
from tests.proxy.test_wire import post


def talk(kind: str, count: int) -> list[dict[str, Any]]:
    part = "input_text" if kind == "responses" else "text"
    said = ([{"type": part, "text": f"message {at} " * 40}] for at in range(1, count))
    return [user(parts) if at % 2 else assistant(parts) for at, parts in enumerate(said, 1)]


# tools, edits by the server, and a field of an unknown name
BESIDE = b'"tools":[{"name":"t"}],"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"odd":1.50'


@pytest.mark.parametrize("kind", ["responses", "messages"])
async def test_what_the_server_has_compacted_stays_in_front_unchanged_and_only_what_follows_is_summarized(kind):
    signed = {"type": "compaction", "id": "c1", "encrypted_content": "gAAA" * 50, "content": "so far", "odd": [1.50]}
    lead, field = ([signed], "input") if kind == "responses" else ([assistant([signed])], "messages")
    written = json.dumps(lead, indent=1)[1:-1].strip().encode()  # as no encoder of ours would write it
    async with between(Fake(behave=nothing), budget=4_000) as (fake, address):
        for count in range(4, 60, 4):
            rest = json.dumps(talk(kind, count))[1:].encode()
            body = b'{"model":"m","max_tokens":9,%s,"%s":[%s,%s}' % (BESIDE, field.encode(), written, rest)
            await post(address, f"/v1/{kind}", body, **{"x-session-id": "s"})
        told = await status(address)
    assert told["failures"] == 0
    assert sum(record["activation"] is not None for record in told["records"]) > 1
    assert all(each["raw"].count(written) == each["raw"].count(BESIDE) == 1 for each in fake.seen)
    assert len(fake.seen[-1]["raw"]) < len(body) / 2
    assert fake.seen[-1]["body"][field][0] == lead[0]


HI = user("a")
THREAD = {"tools": [TOOL], "messages": talk("messages", 60)}
LONE = {"type": "message", **user("Summarize this conversation.\n" + "turn: a file was read\n" * 4_000)}
KEPT = {"tools": [{"name": "t"}], "context_management": {"edits": []}}
AS_IT_CAME: dict[str, tuple[str, dict[str, Any]]] = {
    "thread": ("messages", {**THREAD, "thread": {"type": "create"}}),
    "of a thread": ("messages", {**THREAD, "thread": {"type": "continue", "previous_message_id": "msg_1"}}),
    "chained": ("responses", {**KEPT, "input": [HI], "previous_response_id": "r"}),
    "to be compacted": ("responses", {**KEPT, "input": [HI, {"type": "compaction_trigger"}]}),
    "compacted": ("messages", {**KEPT, "messages": [user([{"type": "compaction", "content": "x"}])]}),
    "lone, of responses": ("responses", {"stream": True, "input": [LONE], "instructions": "You summarize."}),
    "lone, of chat": ("chat/completions", {"stream": True, "messages": [system("You summarize."), LONE]}),
    "lone, of messages": ("messages", {"stream": True, "system": "You summarize.", "messages": [LONE]}),
}


@pytest.mark.parametrize("kind", AS_IT_CAME)
async def test_what_the_server_compacts_or_keeps_and_a_lone_message_go_on_as_they_came(kind):
    """The lone message is long, and without tools: so OpenCode asks for its own compaction."""
    protocol, body = AS_IT_CAME[kind]
    raw = json.dumps({"model": "m", "max_tokens": 9, **body})
    async with between(Fake(behave=nothing), budget=2_000) as (fake, address):
        await post(address, f"/v1/{protocol}", raw)
        told = await status(address)
    assert [each["raw"] for each in fake.seen] == [raw.encode()]
    assert (told["requests"], told["passed_unchanged"], told["failures"]) == (0, 1, 0)


async def test_a_compaction_without_content_is_no_boundary():
    failed = assistant([{"type": "compaction", "content": None}, {"type": "text", "text": "go"}])
    rows = talk("messages", 60)
    body = {"model": "m", "max_tokens": 9, "tools": [TOOL], "messages": [rows[0], *rows[2:40], failed, *rows[41:]]}
    async with between(Fake(behave=nothing), budget=4_000) as (_, address):
        await post(address, body=json.dumps(body))
        (record,) = (await status(address))["records"]
    assert (record["changed"], record["messages"]) == (True, len(body["messages"]))
    assert record["sent_messages"] < len(body["messages"]) / 2


@pytest.mark.parametrize(
    ("model", "way"), [("claude-opus-5-5", "adaptive"), ("claude-opus-5-5", "disabled"), ("claude-x", "adaptive")]
)
async def test_thinking_bound_to_its_beginning_is_never_refused_once_the_beginning_is_rewritten(model, way):
    """Where it can be asked for, the provider drops it, and it stays on the wire; else it is left out."""
    async with between(budget=3_000) as (fake, address):
        client = AnthropicAgent(address, model=model, thinking={"type": way}, extra_headers={"anthropic-beta": "a"})
        await client.steps(15)
        records = (await status(address))["records"]
    assert fake.problems == []
    asks = [each["body"]["thinking"].get("block_binding") is not None for each in fake.seen]
    betas = [each["headers"]["anthropic-beta"] for each in fake.seen]
    first = next(at for at, record in enumerate(records) if record["activation"])
    if (model, way) != ("claude-opus-5-5", "adaptive"):
        assert not any(asks)
        return
    assert asks == [at >= first for at in range(len(records))]
    assert betas == ["a,thinking-binding-controls-2026-08-01" if asked else "a" for asked in asks]
    sent = histories(fake.seen)
    kept = [begins_with(*pair) for pair in zip(sent[1:], sent, strict=False)]
    assert all(one or record["activation"] for one, record in zip(kept, records[1:], strict=True))
    reasons = [record["activation"] for record in records if record["activation"]]
    assert len(reasons) > 2
    assert set(reasons) == {"high_water"}, "dropped blocks stay on the wire"


async def test_what_is_bound_in_responses_stays_together_and_what_was_set_stays_in_force():
    """Programs with all that they call, approvals, tools found by search, and the newest configuration."""
    items: list[Any] = []
    async with between(budget=4_000) as (fake, address):
        for step in range(24):
            code, words = f"read({step})", "a line of a file " * 60
            by = {"caller": {"type": "program", "caller_id": f"p{step}"}}
            items += [
                {"type": "message", "role": "user", "content": f"Step {step}."},
                {"type": "configuration_update", "reasoning": {"effort": f"effort {step}"}},
                {"type": "program", "call_id": f"p{step}", "code": code, "fingerprint": SEAL.sign(code)},
                *({"type": "function_call", "call_id": f"f{step}", "name": "read", "arguments": "{}", **by},),
                {"type": "function_call_output", "call_id": f"f{step}", "output": words, **by},
                {"type": "program_output", "call_id": f"p{step}", "result": words, "status": "completed"},
                {"type": "mcp_approval_request", "id": f"a{step}", "name": "x", "arguments": "{}", "server_label": "s"},
                {"type": "mcp_approval_response", "approval_request_id": f"a{step}", "approve": True},
            ]
            if step == 3:
                items += [{"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}}]
                items += [{"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [TOOL]}]
            body = {"model": "gpt-5.4", "input": items, "store": False, "tools": []}
            await post(address, "/v1/responses", json.dumps(body), **{"session-id": "s"})
    assert fake.problems == []
    last = fake.seen[-1]["body"]["input"]
    assert len(last) < len(items) / 2
    assert {"tool_search_output", "tool_search_call"} <= {item.get("type") for item in last}
    updates = [item for item in last if item.get("type") == "configuration_update"]
    assert updates[-1]["reasoning"] == {"effort": "effort 23"}


CLIENTS: list[tuple[dict[str, str], str]] = [  # headers, and what the session is called
    ({"x-claude-code-session-id": "a", "x-claude-code-agent-id": "g"}, "claude-code:a:g:agent-"),
    ({"thread-id": "t", "session-id": "s"}, "codex:t:agent-"),
    ({"session-id": "s"}, "codex:s:agent-"),
    ({"x-session-id": "o", "x-session-affinity": "p"}, "opencode:o:agent-"),
    ({"x-session-affinity": "p"}, "opencode:p:agent-"),
    ({"x-session-id": "o", "session-id": "o"}, "opencode:o:agent-"),
    ({}, "chat:"),
]


@pytest.mark.parametrize(("headers", "wanted"), CLIENTS)
async def test_clients_are_known_by_what_they_send(headers, wanted):
    body = {**THREAD, "model": "m", "max_tokens": 9}
    async with between(Fake(behave=nothing)) as (_, address):
        await post(address, body=json.dumps(body), **headers)
        (session,) = (await status(address))["sessions"]
    assert session["session"].startswith(wanted)
    assert session["client"] == wanted.partition(":")[0]
