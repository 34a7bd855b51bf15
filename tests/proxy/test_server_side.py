"""What a provider does by itself to a history stays as the client asked for it: compaction, edits, cache marks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from summarizing_context.proxy.names import client_of
from tests.proxy.clients import AnthropicAgent, histories, proxied, status
from tests.proxy.fake import Fake, served
from tests.proxy.test_wire import post

pytestmark = pytest.mark.anyio


async def answer_all(request: Request, raw: bytes) -> Response:
    return JSONResponse({})


def talk(kind: str, count: int) -> list[dict[str, Any]]:
    part = "input_text" if kind == "responses" else "text"
    return [
        {"role": "user" if at % 2 else "assistant", "content": [{"type": part, "text": f"message {at} " * 40}]}
        for at in range(1, count)
    ]


@pytest.mark.parametrize("kind", ["responses", "messages"])
async def test_what_the_server_has_compacted_stays_in_front_unchanged_and_only_what_follows_is_summarized(kind: str):
    signed = {"type": "compaction", "id": "c1", "encrypted_content": "gAAA" * 50, "content": "so far", "odd": [1.50]}
    lead = [signed] if kind == "responses" else [{"role": "assistant", "content": [signed]}]
    written = json.dumps(lead, indent=1)[1:-1].strip().encode()  # as no encoder of ours would write it
    fake = Fake(behave=answer_all)
    async with served(fake) as upstream, proxied(upstream, budget=4_000) as address:
        for count in range(4, 60, 4):
            rest = json.dumps(talk(kind, count))[1:].encode()
            field = b"input" if kind == "responses" else b"messages"
            body = b'{"model":"m","max_tokens":9,"tools":[{"name":"t"}],"%s":[%s,%s}' % (field, written, rest)
            await post(address, f"/v1/{kind}", body, **{"x-session-id": "s"})
        told = await status(address)
    assert told["failures"] == 0
    assert sum(record["activation"] is not None for record in told["records"]) > 1
    assert all(each["raw"].count(written) == 1 for each in fake.seen)
    assert len(fake.seen[-1]["raw"]) < len(body) / 2
    last = json.loads(fake.seen[-1]["raw"])
    assert last["input" if kind == "responses" else "messages"][0] == lead[0]


async def test_edits_by_the_server_and_fields_that_nobody_knows_stay_in_a_request_with_a_view():
    beside = {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}, "mcp_servers": [], "odd": 1.50}
    fake = Fake()
    async with served(fake) as upstream, proxied(upstream, budget=6_000) as address:
        client = AnthropicAgent(address, extra_body=beside)
        for step in range(16):
            await client.step(f"step {step}")
    last = fake.seen[-1]["body"]
    assert len(last["messages"]) < len(client.history) - 6
    assert {name: last[name] for name in beside} == beside


async def test_there_are_never_more_than_four_marks_of_the_cache():
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tools = [{"name": "read", "input_schema": {"type": "object"}, **mark}]
    system = [{"type": "text", "text": "You fix code.", **mark}, {"type": "text", "text": "Be brief.", **mark}]
    fake = Fake()  # it refuses more
    async with served(fake) as upstream, proxied(upstream, budget=6_000) as address:
        client = AnthropicAgent(address, system=system, tools=tools)
        for step in range(16):
            await client.step(f"step {step}")
    assert fake.problems == []
    last = histories(fake.seen)[-1]
    assert len(last) < len(client.history) - 6
    assert ["cache_control" in json.dumps(row) for row in last][-1]
    assert json.dumps(fake.seen[-1]["body"]).count('"cache_control"') == 4


@pytest.mark.parametrize(
    ("headers", "metadata", "wanted"),
    [
        ({"x-claude-code-session-id": "a", "x-claude-code-agent-id": "g"}, None, ("claude-code", "a", "g")),
        (
            {},
            {"user_id": "user_1_account_2_session_01234567-89ab-cdef-0123-456789abcdef"},
            ("claude-code", "01234567-89ab-cdef-0123-456789abcdef", None),
        ),
        ({"thread-id": "t", "session-id": "s"}, None, ("codex", "t", None)),
        ({"session-id": "s"}, None, ("codex", "s", None)),
        ({"x-session-id": "o", "x-session-affinity": "p"}, None, ("opencode", "o", None)),
        ({"x-session-affinity": "p"}, None, ("opencode", "p", None)),
        ({}, {"user_id": "someone"}, ("chat", None, None)),
        ({}, None, ("chat", None, None)),
    ],
)
def test_clients_are_known_by_what_they_send(headers: dict[str, str], metadata: Any, wanted: tuple[Any, ...]):
    fields = {} if metadata is None else {"metadata": json.dumps(metadata).encode()}
    assert client_of(headers, fields) == wanted
