"""The proxy: what real clients send, windows and budgets, when a cache is cold, and its ledger."""

import json
import random
import re
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from evals.clients.rules import unmarked
from summarizing_context.cli import main
from tests.laws.builders import call, result, system, user
from tests.proxy import fake as fakes
from tests.proxy import test_wire
from tests.proxy.clients import (
    FUNCTION,
    RESULT,
    TOOL,
    AnthropicAgent,
    ChatAgent,
    ResponsesAgent,
    between,
    proxied,
    status,
)
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_odd_json_in_a_message_costs_a_session_no_view(protocol: str):
    async with between(budget=2_500) as (fake, address):
        for named, odd in ODD.items():
            for steps in (2, 10, 16):
                body = request_of(protocol, steps, *odd)
                answer = await post(address, f"/v1/{protocol}", body, **{"session-id": named})
                as_it_came = fake.seen[-1]["raw"] == json.dumps(body).encode()
                assert (answer.status_code, as_it_came) == (200, steps == 2)
        told = await status(address)
    assert (told["failures"], told["passed_unchanged"], fake.problems) == (0, 0, [])
    assert [record["changed"] for record in told["records"]] == [False, True, True] * len(ODD)


async def test_an_opening_message_of_the_system_without_content_goes_on_as_it_came():
    odd, body = {"role": "system", "output_config": {"effort": "low"}}, request_of("messages", 20)
    body["messages"].insert(1, odd)
    async with between(Fake(behave=nothing), budget=2_000) as (fake, address):
        await post(address, "/v1/messages", body)
        told = await status(address)
    assert (told["failures"], [record["changed"] for record in told["records"]]) == (0, [True])
    assert [row for row in fake.seen[0]["body"]["messages"] if row["role"] == "system"] == [odd]


# Anthropic refuses more than four cache marks, and one of an hour behind one of five minutes: none goes out.

LONG = {"type": "ephemeral", "ttl": "1h"}
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


async def test_a_view_is_marked_at_its_header_and_its_end_with_no_more_marks_than_the_provider_takes():
    """Nor in another order than it takes, beside any marks of the client."""
    async with between(budget=4_000) as (fake, address):
        body = a_session(random.Random(1), steps=12)
        body["system"][-1]["cache_control"] = LONG
        body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        await post(address, "/v1/messages", body)
        assert (await status(address))["records"][0]["changed"]
        sent = fake.seen[0]["body"]
        assert sent["system"] == body["system"]
        assert sent["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        marks = re.findall(r'"cache_control": \{"type": "ephemeral"(?:, "ttl": "(\w+)")?\}', json.dumps(sent))
        assert marks == ["1h", "", ""]
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


# The ledger by what replies tell of the cache, when a cache is cold, windows and budgets.

STEPS = 14


def with_cache(answer: Any, body: Any, number: int, tokens: int) -> Any:
    """A reply that says of the request: seven eighths were read from the cache, the rest was written for an hour."""
    whole, events = answer(body, number, tokens)
    read, wrote = tokens * 7 // 8, tokens - tokens * 7 // 8
    if "max_tokens" in body:
        whole["usage"] |= {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": wrote}
        whole["usage"]["cache_creation"] = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": wrote}
    else:
        details = "prompt_tokens_details" if "messages" in body else "input_tokens_details"
        whole["usage"][details] = {"cached_tokens": read, "cache_write_tokens": wrote}
    return whole, events


@pytest.mark.parametrize(
    ("make", "model", "read", "write"),
    [
        (AnthropicAgent, "claude-opus-4-8", 0.5, 10.0),  # for an hour, in a stream
        (ChatAgent, "gpt-6.1-sol", 0.1, 2.5),
        (ResponsesAgent, "gpt-6.2-sol", 0.1, 2.5),
    ],
)
async def test_the_ledger_has_what_replies_of_each_protocol_tell(make, model, read, write, monkeypatch, tmp_path):
    """And the inspector shows the ledger of a session that the proxy holds, and pins there."""
    for path, (dialect, answer, too_long) in fakes.KINDS.items():
        monkeypatch.setitem(fakes.KINDS, path, (dialect, partial(with_cache, answer), too_long))
    async with between(budget=4_500, store=tmp_path / "a.db") as (fake, address):
        await make(address, model=model).steps(STEPS)
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as client:
            link = (await client.get(f"{address}/_status?link=1")).json()["inspector"]
            page = await client.get(link)
            (session,) = (await status(address))["sessions"]
            place = str(page.url).partition("?")[0].partition("#")[0].rstrip("/")
            told = (await client.get(f"{place}/api/session?id={session['session']}")).json()
            pinned = await client.post(f"{place}/api/pin", json={"session": session["session"], "message": 1})
            assert pinned.status_code == 200, pinned.text
    found = session["cache"]
    assert told["cache"] == found
    sizes = [len(each["raw"]) // 4 for each in fake.seen if "/models" not in each["path"]]
    reads = sum(size * 7 // 8 for size in sizes)
    writes = sum(sizes) - reads
    assert fake.problems == []
    assert session["activations"] > 0
    assert (found["requests"], found["reported"], found["plain_requests"]) == (STEPS, STEPS, STEPS)
    assert (found["read_tokens"], found["written_tokens"], found["input_tokens"]) == (reads, writes, 0)
    output = session["output_tokens"] * {"claude": 25, "gpt-6.": 10}[model[:6]]
    assert found["cost"] == pytest.approx((reads * read + writes * write + output) / 1e6)
    assert found["cost"] == pytest.approx(session["cost"])
    plain_tokens = found["plain_read_tokens"] + found["plain_written_tokens"] + found["plain_input_tokens"]
    assert plain_tokens > 1.3 * (reads + writes)
    assert found["plain_cost"] > 0.8 * found["cost"]


@pytest.mark.parametrize(
    ("make", "options", "lives"),
    [
        (AnthropicAgent, {"model": "claude-opus-4-8", "extra_body": {"cache_control": LONG}}, 3_600),
        (ChatAgent, {"model": "gpt-6.1-sol", "extra_body": {"prompt_cache_options": {"ttl": "12h"}}}, 43_200),
        (ChatAgent, {"model": "gpt-4.1", "prompt_cache_retention": "in_memory"}, 300),
    ],
)
async def test_a_cache_is_cold_when_its_provider_gives_it_up_as_the_request_asked(make, options, lives, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("summarizing_context.concurrency.time", SimpleNamespace(monotonic=lambda: now[0]))
    async with between(budget=8_000) as (_, address):
        agent = make(address, **options)
        await agent.step("Begin.")
        while (await status(address))["records"][-1]["tokens"] <= 5_600:
            await agent.step("Go on.")
        for gap, reason in ((lives - 1, None), (lives + 1, "idle")):
            now[0] += gap
            await agent.step(f"after {gap} seconds")
            assert (await status(address))["records"][-1]["activation"] == reason


OURS = "our-own-7b"


async def asked_until(make: Any, address: str, window: int) -> list[dict[str, Any]]:
    """What the proxy reports after each request of an agent, until all have this window, or it reports it unknown."""
    agent, found = make(address, model=OURS), list[dict[str, Any]]()
    for step in range(200):
        await agent.step(f"step {step}")
        found.append(told := await status(address))
        if window * 0.75 < told["records"][-1]["budget"] < window and (window != 128_000 or told["notices"]):
            return found
    pytest.fail(f"no request had a window of {window:,} tokens")


class Telling(Fake):
    """A provider that is asked for windows, and answers so, from the second time on otherwise."""

    def __init__(self, *answers: Response) -> None:
        super().__init__(behave=self.tell)
        self.answers, self.asked, self.arrived = answers, list[tuple[str, str]](), anyio.Event()

    async def tell(self, request: Request, raw: bytes) -> Response | None:
        if "/models" not in request.url.path:
            self.arrived.set()
            return None
        self.asked.append((request.url.path, str(request.headers)))
        await self.arrived.wait()  # a request that waited for the window would never come
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@pytest.mark.parametrize(
    ("make", "told", "window"),
    [
        (AnthropicAgent, {"id": OURS, "max_input_tokens": 64_000}, 64_000),
        (ChatAgent, {"data": [{"id": "another"}, {"id": OURS, "max_model_len": 32_000}]}, 32_000),
        (ResponsesAgent, {"data": [{"id": OURS, "context_length": 50_000}]}, 50_000),
        (ChatAgent, {"data": [{"id": OURS}]}, 128_000),
        (ChatAgent, {"data": "none"}, 128_000),
    ],
)
async def test_the_provider_is_asked_once_for_the_window_of_an_unknown_model(make, told, window, caplog):
    async with between(fake := Telling(JSONResponse(told))) as (_, address):
        first, *later = await asked_until(make, address, window)
    ((path, headers),) = fake.asked
    assert path.removeprefix("/v1") in ("/models", f"/models/{OURS}")
    assert "sk-secret" in headers
    assert 96_000 < first["records"][0]["budget"] < 128_000, "the usual window, meanwhile"
    notices = (later or [first])[-1]["notices"]
    assert [caplog.messages.count(notice) for notice in notices] == [1] * (window == 128_000)
    assert all(word in notice for notice in notices for word in (OURS, "128,000", "--budget"))


async def test_a_provider_that_failed_to_tell_a_window_is_asked_again_after_minutes(monkeypatch: pytest.MonkeyPatch):
    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: 0.0)
    monkeypatch.setattr("summarizing_context.contrib.proxy.rewriter.time", clock)
    fake, now = Telling(JSONResponse({}, 503), JSONResponse({"id": OURS, "max_input_tokens": 64_000})), 1_000.0
    async with between(fake) as (_, address):
        failed = await asked_until(AnthropicAgent, address, 128_000)
        now += 3_600
        told = await asked_until(AnthropicAgent, address, 64_000)
    assert len(failed[-1]["notices"]) == 1
    assert told[-1]["records"][-1]["budget"] < 64_000
    assert len(fake.asked) == 2


# Warnings about budgets: the window of the client's model, and a budget that leaves no room for messages.

TOOLS = [{"name": f"tool_{n}", "description": "Reads a file. " * 60, "input_schema": {}} for n in range(20)]
BETA = {"extra_headers": {"anthropic-beta": "oauth-2025-04-20,context-1m-2025-08-07"}}
BUDGETS: list[tuple[Any, str, int, dict[str, Any]]] = [
    *((AnthropicAgent, model, 990_000, {}) for model in ("claude-opus-4-6", "claude-opus-5-5-20261020")),
    *((AnthropicAgent, model, 990_000, {}) for model in ("claude-haiku-5-5", "us.anthropic.claude-opus-4-6-v1:0")),
    *((AnthropicAgent, model, 990_000, {}) for model in ("anthropic/claude-fable-5.1", "claude-sonnet-4-5[1m]")),
    *((AnthropicAgent, "claude-haiku-4-5-20251001", *how) for how in ((190_000, {}), (990_000, BETA))),
    *((ChatAgent, model, 910_000, {}) for model in ("gpt-6.1-sol", "gpt-6.2-sol")),
    (ChatAgent, "gpt-5.4-mini", 260_000, {}),
    # Codex gives a model a window of its own
    *((ResponsesAgent, model, least, {}) for model, least in (("gpt-6.2-sol", 490_000), ("gpt-6.1-sol", 260_000))),
]


async def test_the_budget_is_the_window_of_the_model_less_its_answer():
    async with between() as (_, address):
        for make, model, least, options in BUDGETS:
            await make(address, model=model, **options).step("Fix the bug.")
            found = (await status(address))["records"][-1]["budget"]
            assert least <= found < least + 15_000, model
        assert (await status(address))["notices"] == []


async def test_a_budget_that_tools_and_system_prompt_fill_is_told_once_with_one_that_would_do(caplog):
    prompt, budget = {"tools": TOOLS, "system": "You fix code. " * 100}, 4_000
    async with between(budget=budget) as (fake, address):
        agent, other = AnthropicAgent(address, **prompt), AnthropicAgent(address, session="s-2", **prompt)
        await agent.steps(5)
        await other.steps(5)
        told = await status(address)
        body = {**agent.options, "messages": agent.history[:-1]}
        reply = await post(address, "/v1/messages", body, **{"x-claude-code-session-id": "s-1"})
    (notice,) = told["notices"]
    least = told["records"][-1]["least_budget"]
    assert all(f"{tokens:,}" in notice for tokens in (budget, least))
    assert caplog.messages == [notice]  # of any part, for any session
    assert reply.headers["x-summarizing-context-least-budget"] == str(least)
    assert (told["failures"], fake.problems) == (0, [])
    async with between(budget=least) as (_, address):
        await AnthropicAgent(address, **prompt).steps(16)
        told = await status(address)
    assert told["notices"] == []
    assert max(record["view_tokens"] for record in told["records"] if record["changed"]) > 2_000


def test_a_budget_that_no_client_can_work_with_is_refused_at_the_start(capsys: pytest.CaptureFixture[str]):
    assert main(["proxy", "--store", ":memory:", "--listen", "0", "--budget", "740"]) != 0
    assert "at least 1,000 tokens" in " ".join(capsys.readouterr().err.split())
