"""Long sessions of each protocol through the proxy: within the budget, lawful, and with a prefix that stays; and what a
provider does by itself to a history stays as the client asked for it: compaction, edits, cache marks."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.laws.builders import assistant, system, user
from tests.proxy.clients import (
    AGENTS,
    RESULT,
    TOOL,
    AnthropicAgent,
    ChatAgent,
    begins_with,
    between,
    histories,
    proxied,
    status,
)
from tests.proxy.fake import SEAL, Fake, nothing, served
from tests.proxy.test_wire import post

BUDGET = 4_000


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_long_session_stays_within_its_budget_and_lawful_also_behind_a_restart(agent, tmp_path):
    fake, records, history = Fake(), list[Any](), []
    async with served(fake) as upstream:
        for steps in (16, 8):
            async with proxied(upstream, tmp_path / "run.db", budget=BUDGET) as address:
                client = agent(address)
                client.history = history or client.history
                for step in range(steps):
                    await client.step(f"Go on with step {step}. Never push to main.")
                told, history = await status(address), client.history
            records += told["records"]
            assert (len(told["sessions"]), told["failures"]) == (1, 0)
    sent = histories(fake.seen)
    assert (len(sent), len(records), fake.problems) == (24, 24, [])
    assert max(record["view_tokens"] + record["fixed_tokens"] for record in records) <= BUDGET
    activations = sum(record["activation"] is not None for record in records)
    assert sum(not begins_with(now, before) for before, now in pairwise(sent)) <= activations < 15
    assert activations >= 2
    assert records[16]["activation"] in (None, "restored")
    assert begins_with(sent[16], sent[15])
    assert "<summary messages=" in fake.seen[-1]["raw"].decode().replace("\\", "")
    assert told["sessions"][0]["tokens"] > 3 * BUDGET  # so much has the client sent
    assert max(len(each["raw"]) for each in fake.seen) < len(str(history)) / 3


async def test_a_reminder_that_moves_to_the_newest_message_costs_no_activations():
    async with between(budget=BUDGET) as (fake, address):
        client = AnthropicAgent(address)
        client.reminder = "<system-reminder>Mind the tests.</system-reminder>"
        await client.steps(18)
        for step in range(3):
            await client.step(f"What did step {step} read?")
        reasons, sent = [record["activation"] for record in (await status(address))["records"]], histories(fake.seen)
    assert (set(reasons), fake.problems) == ({None, "high_water"}, [])
    assert any("<recalled " in str(rows[-3:-1]) for rows in sent), "a page stays for its whole turn"
    for (before, now), reason in zip(pairwise(sent), reasons[1:], strict=True):
        known = before[:-1] if "<recalled " in str(before[-1]) else before
        assert reason == "high_water" or begins_with(now, known[:-1])


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_short_session_goes_on_byte_for_byte(agent):
    fake, direct = Fake(), Fake()
    async with served(fake) as upstream, served(direct) as beside, proxied(upstream, budget=BUDGET) as address:
        for to in (address, beside):
            await agent(to).steps(3)
    assert [each["raw"] for each in fake.seen] == [each["raw"] for each in direct.seen]
    kept = ("authorization", "x-api-key", "anthropic-version", "content-type", "user-agent", "content-length")
    for ours, theirs in zip(fake.seen, direct.seen, strict=True):
        assert [ours["headers"].get(name) for name in kept] == [theirs["headers"].get(name) for name in kept]


async def test_titles_agents_inside_a_client_and_counts_of_tokens_are_apart():
    async with between(budget=BUDGET) as (fake, address):
        client = AnthropicAgent(address)
        await client.step("Fix the parser")
        await client.steps(9)
        ask = client.client.messages.create
        await ask(model="haiku", max_tokens=9, messages=[user("Fix the parser")])
        named = {"x-claude-code-agent-id": "a-7"}
        inside = [user("Fix the parser"), assistant("ok"), user("go on")]
        await ask(model="claude-x", max_tokens=9, messages=inside, tools=client.options["tools"], extra_headers=named)
        await client.step("go on")
        told, newest = await status(address), fake.seen[-1]
        options, history = {name: client.options[name] for name in ("model", "tools", "system")}, client.history[:-1]
        await client.client.messages.count_tokens(messages=history, **options)
        again = await status(address)
    assert fake.seen[-1]["body"]["messages"] == history
    assert (len(again["sessions"]), again["requests"]) == (len(told["sessions"]), told["requests"]) == (2, 12)
    assert told["passed_unchanged"] == 1
    last = told["records"][-1]["activation"]
    assert last == "high_water" or begins_with(newest["body"]["messages"], histories(fake.seen)[9])


async def test_two_unnamed_clients_that_begin_alike_are_two_sessions_also_resumed_without_their_fields_of_null():
    async with between(budget=BUDGET) as (_, address):
        clients = [ChatAgent(address), ChatAgent(address)]
        for step in range(8):
            for client in clients:
                await client.step(f"step {step}")
                client.history[-1] |= {"refusal": None}
        for client in clients:
            client.history = [{name: each[name] for name in each if name != "refusal"} for each in client.history]
            await client.step("and now?")
        told = await status(address)
        await ChatAgent(address).step("step 0")  # one that is run again begins as they did, and takes neither's place
        counts = sorted(one["messages"] for one in (await status(address))["sessions"])
        assert (len(counts), counts[1:]) == (3, sorted(one["messages"] for one in told["sessions"]))
    assert [one["cost"] for one in told["sessions"]] == [None] * 2  # the price of this model is not known
    assert {record["activation"] for record in told["records"]} <= {None, "high_water"}


async def test_a_client_that_moves_its_files_and_a_reminder_to_the_end_has_one_session(tmp_path):
    """As aider does: files behind what is done and before the newest words, and words of the system at the end."""
    fake, done = Fake(), [user("Start."), assistant("Yes.")]
    files, reminder = [user(f"I have added these files:\n{RESULT}"), assistant("Ok.")], {"role": "system"}
    async with served(fake) as upstream:
        for steps in (range(12), range(12, 16)):
            async with proxied(upstream, tmp_path / "run.db", budget=BUDGET) as address:
                ask = ChatAgent(address).client.chat.completions.create
                for step in steps:
                    said = [*done, *files, user(f"Step {step}. {RESULT}"), {**reminder, "content": "Reply in English."}]
                    await ask(model="gpt-x", messages=said)
                    done += [said[-2], assistant(f"Done with {step}. {RESULT}")]
                told = await status(address)
                assert len(told["sessions"]) == 1
    assert fake.problems == []
    assert sum(record["activation"] == "high_water" for record in told["records"]) < 4


async def test_shadow_changes_nothing_asks_no_model_and_tells_what_it_would_do():
    async with between(budget=BUDGET, shadow=True, lends=True) as (fake, address):
        await AnthropicAgent(address).steps(16)
        told = await status(address)
    assert [len(rows) for rows in histories(fake.seen)] == list(range(1, 32, 2)), "it asks no model"
    assert (told["shadow"], told["summarizer"]) == (True, "extractive")
    assert told["sessions"][0]["saved_tokens"] > BUDGET
    assert any(record["activation"] for record in told["records"])


# What a provider does by itself to a history


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
    assert (len(fake.seen[-1]["raw"]) < len(body) / 2, histories(fake.seen)[-1][0]) == (True, lead[0])


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


@pytest.mark.parametrize("way", ["adaptive", "disabled", "enabled"])
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-x"])
async def test_thinking_bound_to_its_beginning_is_never_refused_once_the_beginning_is_rewritten(model, way):
    """Where it can be asked for, the provider drops it, and it stays on the wire; else it is left out. Nor is thinking
    of calls refused while a person speaks behind their results."""
    asked = {"type": way, **({"budget_tokens": 1_024} if way == "enabled" else {})}
    async with between(budget=3_000) as (fake, address):
        client = AnthropicAgent(address, model=model, thinking=asked, extra_headers={"anthropic-beta": "a"})
        client.interrupts = way == "enabled"
        await client.steps(15)
        records = (await status(address))["records"]
    assert fake.problems == []
    asks = [each["body"]["thinking"].get("block_binding") is not None for each in fake.seen]
    betas = [each["headers"]["anthropic-beta"] for each in fake.seen]
    reasons = [record["activation"] for record in records if record["activation"]]
    assert len(reasons) > 2
    first = next(at for at, record in enumerate(records) if record["activation"])
    if model == "claude-x" or way == "disabled":
        assert not any(asks)
        return
    assert asks == [at >= first for at in range(len(records))]
    assert betas == ["a,thinking-binding-controls-2026-08-01" if asked else "a" for asked in asks]
    sent = histories(fake.seen)
    kept = [begins_with(*pair) for pair in zip(sent[1:], sent, strict=False)]
    assert all(one or record["activation"] for one, record in zip(kept, records[1:], strict=True))
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
