"""What the proxy tells: its ledger by what replies tell of the cache, when a cache is cold, windows and budgets."""

import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from summarizing_context.cli import main
from tests.proxy import fake as fakes
from tests.proxy.clients import AnthropicAgent, ChatAgent, ResponsesAgent, between, status
from tests.proxy.fake import Fake
from tests.proxy.test_wire import post

STEPS = 22
LONG = {"type": "ephemeral", "ttl": "1h"}


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
    async with between(budget=7_000, store=tmp_path / "a.db") as (fake, address):
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
    async with between(budget=10_000) as (_, address):
        agent = make(address, **options)
        await agent.step("Begin.")
        while (await status(address))["records"][-1]["tokens"] <= 7_500:
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
        reply = await post(address, body=json.dumps(body), **{"x-claude-code-session-id": "s-1"})
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
