"""What real clients send: other paths, upgrades, packed bodies, Google's protocol, odd JSON, too many connections."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from evals.clients.rules import unmarked
from tests.laws.builders import call, result, system, user
from tests.proxy import test_wire
from tests.proxy.clients import FUNCTION, RESULT, TOOL, between, proxied, status
from tests.proxy.fake import Fake, nothing, served
from tests.proxy.test_attacks import said

PROTOCOLS = ("messages", "chat/completions", "responses")


def called(protocol: str, id: str, arguments: Any, name: str = "read", text: str = RESULT) -> list[Any]:
    """A call and its result, as a client of this protocol writes them."""
    if protocol == "responses":
        made = {"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(arguments)}
        return [made, {"type": "function_call_output", "call_id": id, "output": text}]
    dialect = "anthropic" if protocol == "messages" else "openai"
    return [call(dialect, (id, name, arguments)), result(dialect, id, text)]


def request_of(protocol: str, steps: int, odd: Any = None, text: str = "Fix the bug.") -> dict[str, Any]:
    """An agent's request after some steps; `odd` are arguments of its first call, and `text` what it begins with."""
    rows: list[Any] = [user(text) | ({"type": "message"} if protocol == "responses" else {})]
    for step in range(steps):
        rows += called(protocol, f"t{step}", (odd if step == 0 else None) or {"path": f"src/{step}.py"})
    if protocol == "messages":
        return {"model": "claude-x", "max_tokens": 1_000, "tools": [TOOL], "messages": rows}
    tool = {"type": "function", **({"function": FUNCTION} if protocol == "chat/completions" else FUNCTION)}
    return {"model": "gpt-5", "tools": [tool], "messages" if protocol == "chat/completions" else "input": rows}


async def post(address: str, path: str, body: Any, **headers: str) -> httpx2.Response:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await test_wire.post(address, path, data, **{"session-id": "s-1", **headers})


@pytest.mark.parametrize("folder", ["", "/v1"])
async def test_a_client_may_leave_the_version_out_of_its_paths(folder: str):
    fake = Fake()
    async with served(fake) as upstream, proxied(f"{upstream}{folder}", budget=2_000) as address:
        for protocol in PROTOCOLS:
            for version in ("", "/v1"):
                asked = request_of(protocol, 10, text=f"Fix the bug by {protocol}{version}.")
                answer = await post(address, f"{version}/{protocol}", asked, **{"session-id": protocol + version})
                record = (await status(address))["records"][-1]
                assert (answer.status_code, record["changed"]) == (200, True)
                assert fake.seen[-1]["path"] == f"/v1/{protocol}"
        await post(address, "/messages/count_tokens?beta=true", request_of("messages", 2))
        assert (fake.seen[-1]["path"], fake.seen[-1]["query"]) == ("/v1/messages/count_tokens", "beta=true")
    assert fake.problems == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_task_that_the_agent_calls_done_is_covered_in_the_next_request(protocol: str):
    body, keep = request_of(protocol, 20), {"keep": "The bug is in src/3.py."}
    rows = called(protocol, "done", keep, "mcp__context__context_compact", "Noted.")
    async with between(budget=100_000) as (fake, address):
        for added in ([], rows, []):
            body["input" if protocol == "responses" else "messages"] += added
            await post(address, f"/v1/{protocol}", body)
        records = (await status(address))["records"]
    assert [record["activation"] for record in records] == [None, "explicit", None]
    assert [record["changed"] for record in records] == [False, True, True]
    assert records[1]["view_tokens"] < records[0]["view_tokens"] / 2
    assert fake.problems == []


async def test_upgrades_are_answered_so_that_the_client_asks_by_http_and_a_packed_request_is_told_once():
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    async with between() as (fake, address), httpx2.AsyncClient(trust_env=False) as client:
        for path in ("/v1/responses", "/responses"):
            answer = await client.get(f"{address}{path}", headers={**headers, "sec-websocket-key": "a" * 24})
            assert answer.status_code == 426
            assert "WebSocket" in answer.json()["error"]["message"]
        assert fake.seen == []
        body = json.dumps(request_of("responses", 1)).encode()
        offered = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAARAAAAA"}
        assert (await post(address, "/v1/responses", body, **offered)).status_code == 200
        packed, coding = b"\x28\xb5\x2f\xfdpacked", "gzip, zstd"
        for _ in range(2):
            await post(address, "/v1/messages", packed, **{"content-encoding": coding})
        told = await status(address)
    assert [each["raw"] for each in fake.seen] == [body, packed, packed]
    assert fake.seen[1]["headers"]["content-encoding"] == coding
    (notice,) = told["notices"]
    assert coding in notice
    assert (told["passed_unchanged"], told["failures"]) == (2, 0)


KEY = {"x-goog-api-key": "AIzaSecret"}
BEARER = {"authorization": "Bearer ya29.secret"}
GOOGLES: list[tuple[str, dict[str, str]]] = [
    ("/v1beta/models/gemini-3.1-pro:generateContent", KEY),
    ("/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse", KEY),
    ("/v1beta/models/gemini-3.1-pro:countTokens?key=AIzaSecret", {}),
    ("/v1/models/gemini-3.1-pro:generateContent?key=AIzaSecret", {}),
    ("/v1/models?key=AIzaSecret", {}),
    ("/models/gemini-3.1-pro:generateContent", KEY),
    ("/v1internal:streamGenerateContent?alt=sse", BEARER),
    ("/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", {}),
    ("/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", BEARER),
    ("/v1/chat/completions", KEY),
    ("/upload/v1beta/files", {}),
]


async def test_a_request_of_googles_and_its_key_go_to_no_provider():
    """Nor does one with a fragment in its query."""
    async with between() as (fake, address), httpx2.AsyncClient(trust_env=False) as client:
        for path, headers in GOOGLES:
            answer = await post(address, path, {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, **headers)
            assert (answer.status_code, fake.seen) == (404, []), path
            assert "Google" in answer.json()["error"]["message"]
        rest = "HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        for target in ("/v1/models?a=#b", "/_status?after=0#1", "/v1/messages?#"):
            refused = await said(address, f"GET {target} {rest}".encode())
            assert refused.startswith(b"HTTP/1.1 400 ")
            assert b"fragment" in refused
        told = await status(address)
        (notice,) = told["notices"]
        assert "Google" in notice
        assert "ecret" not in json.dumps(told)
        assert (told["failures"], fake.seen) == (0, [])
        assert (await client.get(f"{address}/v1/models/ft:gpt-4.1:acme:content-x:abc")).status_code == 200
    assert len(fake.seen) == 1  # a name with colons is none of Google's


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "an empty name of a field": ({"": 1}, "Fix the bug."),
    "half of a character": ({"path": "a\ud83d.py"}, "Fix the bug \ud83d."),
    "both": ({"\udc00": {"": ""}}, "\ude00"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_odd_json_in_a_message_costs_a_session_no_view(protocol: str, odd: str):
    async with between(budget=2_500) as (fake, address):
        for steps in (2, 10, 16):
            body = request_of(protocol, steps, *ODD[odd])
            assert (await post(address, f"/v1/{protocol}", body)).status_code == 200
        told = await status(address)
    assert (told["failures"], told["passed_unchanged"], fake.problems) == (0, 0, [])
    assert [record["changed"] for record in told["records"]] == [False, True, True]
    assert fake.seen[0]["raw"] == json.dumps(request_of(protocol, 2, *ODD[odd])).encode()


async def test_an_opening_message_of_the_system_without_content_goes_on_as_it_came():
    odd, body = {"role": "system", "output_config": {"effort": "low"}}, request_of("messages", 20)
    body["messages"].insert(1, odd)
    async with between(Fake(behave=nothing), budget=2_000) as (fake, address):
        await post(address, "/v1/messages", body)
        told = await status(address)
    assert (told["failures"], [record["changed"] for record in told["records"]]) == (0, [True])
    assert [row for row in fake.seen[0]["body"]["messages"] if row["role"] == "system"] == [odd]


# Anthropic refuses more than four cache marks, and one of an hour behind one of five minutes: none goes out.

WORDS = "def parse(tokens): return [token for token in tokens if token.kind != 'space']  # line of a file\n"


def texts(*said: str) -> list[Any]:
    return [{"type": "text", "text": text} for text in said]


def a_session(chance: random.Random, steps: int) -> dict[str, Any]:
    """A request of an agent whose history is longer than the budget of these tests."""
    rows = [user(texts(f"Fix bug {chance.random()}.")), system(texts("The machine runs Linux."))]
    for step in range(steps):
        answer = result("anthropic", f"toolu_{step}", texts(WORDS * 12))["content"]
        rows += [call("anthropic", (f"toolu_{step}", "read", {})), user(answer + texts(f"Result {step}."))]
        if chance.random() < 0.2:
            rows.append(system(texts(f"It is step {step}.")))
    tools = [{"name": name, "description": "Reads.", "input_schema": {"type": "object"}} for name in ("read", "list")]
    beside = {"tools": tools, "system": texts("You fix code.", "Be brief.", "Never push.")}
    return {"model": "claude-x", "max_tokens": 1_000, **beside, "messages": rows}


def markable(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Whatever may bear a mark, in the order in which the provider reads it."""
    yield from body["tools"]
    yield from body["system"]
    for row in body["messages"]:
        for block in row["content"] if isinstance(row["content"], list) else ():
            yield from block["content"] if isinstance(block.get("content"), list) else ()
            yield block


async def test_no_request_goes_out_with_more_marks_or_in_another_order_than_the_provider_takes():
    async with between(budget=4_000) as (fake, address):
        for seed in range(22):
            chance = random.Random(seed)
            body = a_session(chance, steps=chance.randrange(2, 14))
            places = list(markable(body))
            for place in chance.sample(places, min(len(places), chance.randrange(9))):
                place["cache_control"] = {"type": "ephemeral", **chance.choice([{}, {"ttl": "5m"}, {"ttl": "1h"}])}
            if chance.random() < 0.2:
                body["cache_control"] = {"type": "ephemeral", **chance.choice([{}, {"ttl": "1h"}])}
            answer = await post(address, "/v1/messages", body, **{"session-id": f"s-{seed}"})
            sent = fake.seen[-1]["body"]
            assert answer.status_code == 200, (seed, answer.text)  # else there are too many, or in another order
            marked = [place for place in (*markable(sent), sent) if "cache_control" in place]
            assert json.dumps(sent).count('"cache_control"') == len(marked), seed
            assert all(unmarked(sent[part]) == unmarked(body[part]) for part in ("tools", "system"))
        told = await status(address)
    assert (told["failures"], fake.problems) == (0, [])
    assert sum(record["changed"] for record in told["records"]) > 10


async def test_a_view_is_marked_at_its_header_and_its_end_beside_the_marks_of_the_prompt():
    body = a_session(random.Random(1), steps=12)
    body["system"][-1]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    async with between(budget=4_000) as (fake, address):
        await post(address, "/v1/messages", body, **{"session-id": "s"})
        assert [record["changed"] for record in (await status(address))["records"]] == [True]
    sent = fake.seen[0]["body"]
    assert sent["system"] == body["system"]
    assert sent["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    marks = re.findall(r'"cache_control": \{"type": "ephemeral"(?:, "ttl": "(\w+)")?\}', json.dumps(sent))
    assert marks == ["1h", "", ""]
