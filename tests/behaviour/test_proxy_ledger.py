"""The proxy's ledger: what replies of each protocol tell of the cache, what is estimated, and when a cache is cold."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.proxy import fake as fakes
from tests.proxy.clients import AnthropicAgent, ChatAgent, ResponsesAgent, begins_with, plain, proxied, status
from tests.proxy.fake import Fake, served

STEPS = 22
LONG = {"type": "ephemeral", "ttl": "1h"}


class Cache:
    """What a provider keeps of each request: it reads the messages that stayed and writes the rest, one token each
    four bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read = self.written = 0
        self.before: list[Any] = []
        for protocol in ("anthropic", "chat", "responses"):
            answer = getattr(fakes, f"answer_{protocol}")
            path = next(path for path, kind in fakes.KINDS.items() if kind[1] is answer)
            dialect, _, too_long = fakes.KINDS[path]
            monkeypatch.setitem(fakes.KINDS, path, (dialect, self.answering(answer, protocol), too_long))

    def answering(self, answer: Any, protocol: str) -> Any:
        def answered(body: Any, number: int, tokens: int) -> Any:
            history = [plain(item) for item in body.get("messages") or body["input"]]
            same = self.before and begins_with(history, self.before)
            read = min(len(json.dumps(self.before)) // 4 if same else 0, tokens)
            wrote, self.before = tokens - read, history
            self.read, self.written = self.read + read, self.written + wrote
            whole, events = answer(body, number, tokens)
            usage = whole["usage"]
            if protocol == "anthropic":
                usage |= {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": wrote}
                usage["cache_creation"] = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": wrote}
            else:
                details = "prompt_tokens_details" if protocol == "chat" else "input_tokens_details"
                usage[details] = {"cached_tokens": read, "cache_write_tokens": wrote}
            return whole, events

        return answered


@pytest.mark.parametrize(
    ("make", "model", "read", "write"),
    [
        (AnthropicAgent, "claude-opus-4-8", 0.5, 10.0),  # for an hour, in a stream
        (ChatAgent, "gpt-6.1-sol", 0.1, 2.5),
        (ResponsesAgent, "gpt-6.2-sol", 0.1, 2.5),
    ],
)
async def test_the_ledger_has_what_replies_of_each_protocol_tell(make, model, read, write, monkeypatch):
    cache, fake = Cache(monkeypatch), Fake()
    async with served(fake) as upstream, proxied(upstream, budget=7_000) as address:
        agent = make(address, model=model)
        for step in range(STEPS):
            await agent.step(f"step {step}")
        (session,) = (await status(address))["sessions"]
    found = session["cache"]
    assert fake.problems == []
    assert session["activations"] > 0
    assert (found["requests"], found["reported"], found["plain_requests"]) == (STEPS, STEPS, STEPS)
    assert (found["read_tokens"], found["written_tokens"], found["input_tokens"]) == (cache.read, cache.written, 0)
    output = session["output_tokens"] * {"claude": 25, "gpt-6.": 10}[model[:6]]
    assert found["cost"] == pytest.approx((cache.read * read + cache.written * write + output) / 1e6)
    assert found["cost"] == pytest.approx(session["cost"])
    plain_tokens = found["plain_read_tokens"] + found["plain_written_tokens"] + found["plain_input_tokens"]
    assert plain_tokens > 1.3 * (cache.read + cache.written)
    assert found["plain_cost"] > 0.8 * found["cost"]


async def test_without_usage_in_replies_the_ledger_is_an_estimate_and_says_so():
    async def behave(request: Request, raw: bytes) -> Response | None:
        whole, _ = fakes.answer_chat(json.loads(raw), len(raw), 0)
        return JSONResponse({name: value for name, value in whole.items() if name != "usage"})

    async with served(Fake(behave=behave)) as upstream, proxied(upstream, budget=16_000) as address:
        agent = ChatAgent(address, model="gpt-6.1-sol", tools=[])
        for step in range(8):
            await agent.step(f"step {step}")
        (session,) = (await status(address))["sessions"]
    found = session["cache"]
    assert (found["requests"], found["reported"]) == (7, 0)  # a single message is no session
    assert found["read_tokens"] > found["written_tokens"] > 0
    assert 0 < found["compared_cost"] <= found["plain_cost"]


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
    async with served(Fake()) as upstream, proxied(upstream, budget=10_000) as address:
        agent = make(address, **options)
        for step in range(60):
            await agent.step(f"step {step}")
            if (record := (await status(address))["records"][-1])["tokens"] > 7_500:
                break
        for gap, reason in ((lives - 1, None), (lives + 1, "idle")):
            now[0] += gap
            await agent.step(f"after {gap} seconds")
            record = (await status(address))["records"][-1]
            assert record["activation"] == reason


@pytest.mark.parametrize(
    ("make", "told", "window"),
    [
        (AnthropicAgent, {"id": "our-own-7b", "max_input_tokens": 64_000}, 64_000),
        (ChatAgent, {"data": [{"id": "another"}, {"id": "our-own-7b", "max_model_len": 32_000}]}, 32_000),
        (ResponsesAgent, {"data": [{"id": "our-own-7b", "context_length": 50_000}]}, 50_000),
        (ChatAgent, {"data": [{"id": "our-own-7b"}]}, 128_000),
        (ChatAgent, {"data": "none"}, 128_000),
    ],
)
async def test_the_provider_is_asked_once_for_the_window_of_an_unknown_model(make: Any, told: Any, window: int):
    asked, arrived = [], anyio.Event()

    async def behave(request: Request, raw: bytes) -> Response | None:
        if "/models" not in request.url.path:
            arrived.set()
            return None
        asked.append((request.url.path, request.headers.get("authorization") or request.headers.get("x-api-key")))
        await arrived.wait()  # a request that waited for the window would never come
        return JSONResponse(told)

    async with served(Fake(behave=behave)) as upstream, proxied(upstream) as address:
        first, *later = [found async for found in asked_until(make, address, window)]
    ((path, key),) = asked
    assert path.removeprefix("/v1") in ("/models", "/models/our-own-7b")
    assert "sk-secret" in key
    assert 96_000 < first["records"][0]["budget"] < 128_000, "the usual window, meanwhile"
    assert len((later or [first])[-1]["notices"]) == (window == 128_000)


async def test_a_provider_that_failed_to_tell_a_window_is_asked_again_after_minutes(monkeypatch: pytest.MonkeyPatch):
    now, asked = [1_000.0], []

    async def behave(request: Request, raw: bytes) -> Response | None:
        if "/models" not in request.url.path:
            return None
        asked.append(request.url.path)
        row = {"id": "our-own-7b", "max_input_tokens": 64_000}
        return JSONResponse({"error": "down"}, 503) if len(asked) == 1 else JSONResponse(row)

    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: 0.0)
    monkeypatch.setattr("summarizing_context.contrib.proxy.rewriter.time", clock)
    async with served(Fake(behave=behave)) as upstream, proxied(upstream) as address:
        failed = [found async for found in asked_until(AnthropicAgent, address, 128_000)]
        now[0] += 3_600
        told = [found async for found in asked_until(AnthropicAgent, address, 64_000)]
    assert len(failed[-1]["notices"]) == 1
    assert told[-1]["records"][-1]["budget"] < 64_000
    assert len(asked) == 2


async def asked_until(make: Any, address: str, window: int) -> AsyncIterator[dict[str, Any]]:
    """What the proxy reports after each request of an agent, until all have this window, or it reports it unknown."""
    agent = make(address, model="our-own-7b")
    for step in range(200):
        await agent.step(f"step {step}")
        yield (found := await status(address))
        if window * 0.75 < found["records"][-1]["budget"] < window and (window != 128_000 or found["notices"]):
            return
    pytest.fail(f"no request had a window of {window:,} tokens")


async def test_the_inspector_shows_the_ledger_of_a_session_that_the_proxy_holds(tmp_path: Path):
    async with served(Fake()) as upstream, proxied(upstream, tmp_path / "a.db", budget=16_000) as address:
        await AnthropicAgent(address, model="claude-opus-4-8").step("step")
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=True) as client:
            link = (await client.get(f"{address}/_status?link=1")).json()["inspector"]
            page = await client.get(link)
            (session,) = (await status(address))["sessions"]
            place = str(page.url).partition("?")[0].partition("#")[0].rstrip("/")
            told = (await client.get(f"{place}/api/session?id={session['session']}")).json()
    assert told["cache"] == session["cache"]
    assert told["cache"]["requests"] == 1
