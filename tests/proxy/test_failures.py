"""Whatever fails in the proxy, at whatever step: the client's request goes on as it came, and its keys are nowhere.
What a provider calls too long, also within a stream, gets one activation and one replay, before any content."""

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from summarizing_context import assembly
from summarizing_context.adapters import open_sessions
from summarizing_context.context import SummarizingContext
from summarizing_context.contrib.proxy import rewriter, server
from summarizing_context.contrib.proxy.dialects import Anthropic
from summarizing_context.contrib.proxy.rewriter import Rewriter
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.views.builder import Viewer
from tests.behaviour.test_proxy_requests import post, request_of
from tests.laws.builders import assistant, user
from tests.proxy.clients import AnthropicAgent, between, histories, proxied, status
from tests.proxy.fake import Fake, served, streams
from tests.proxy.test_sessions import contents

SECRET = "a secret in an error"
FOR_EVER = "any, for ever"

LOCKED = "keeping messages in a store that another process has locked"
STEPS: dict[str, tuple[Any, str]] = {
    "reading the request": (Anthropic, "read"),
    "naming the session": (rewriter, "session_of"),
    "the window of the model": (Rewriter, "_window"),
    "opening the session": (open_sessions, "start_context"),
    "following the history": (SummarizingContext, "follow"),
    "deciding about the view": (Viewer, "change"),
    "showing the view": (Viewer, "view"),
    "writing the request": (Anthropic, "write"),
    FOR_EVER: (Rewriter, "_viewed"),
}


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


async def hangs(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(600)


@pytest.mark.parametrize("step", [*STEPS, LOCKED])
async def test_a_bug_at_any_step_before_lets_the_request_go_on_as_it_came(step, monkeypatch, caplog, tmp_path):
    error = {FOR_EVER: "TimeoutError", LOCKED: "StoreLockedError"}.get(step, "RuntimeError")
    monkeypatch.setattr(assembly, "SqliteStore", partial(SqliteStore, busy_timeout=0.1))
    async with between(store=tmp_path / "run.db", budget=2_000) as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(0 if step == "opening the session" else 3)
        other = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
        with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG), closing(other):
            if step == LOCKED:
                other.execute("begin immediate")
            else:
                patch.setattr(*STEPS[step], hangs if step == FOR_EVER else fails)
            patch.setattr(server, "VIEW_WITHIN", 0.2 if step == FOR_EVER else server.VIEW_WITHIN)
            await client.steps(2)
            told = await status(address)
        sent, whole = [len(rows) for rows in histories(fake.seen[-2:])], len(client.history)
        assert (sent, told["failures"], told["last_failure"]) == ([whole - 3, whole - 1], 2, error)
        assert SECRET not in caplog.text
        await client.steps(4)
        assert ((await status(address))["failures"], fake.problems) == (2, [])
    assert len(histories(fake.seen)[-1]) < len(client.history) / 2  # it goes on with its view


KEYS = {name: f"planted-{name}" for name in ("x-api-key", "api-key", "x-goog-api-key", "chatgpt-account-id")} | {
    "authorization": "Bearer planted-authorization",
    "cookie": "session=planted-cookie",
    "proxy-authorization": "Basic planted-proxy",
    "openai-organization": "planted-organization",
}


async def test_planted_keys_are_in_no_file_no_log_no_figure_and_no_event(tmp_path, caplog, capfd):
    """They come in headers and in the address, and things go wrong in between."""
    answers = iter([200, 500, 401, 200, 429, 400] * 20)

    async def behave(request: Request, raw: bytes) -> Response | None:
        code = next(answers)
        return None if code == 200 else JSONResponse({"error": {"message": "no", "type": "t"}}, code)

    given: Any = {"store": tmp_path / "run.db", "budget": 6_000, "lends": True}
    with caplog.at_level(1):
        async with between(Fake(behave=behave), **given) as (fake, address):
            async with httpx2.AsyncClient(trust_env=False, headers=KEYS) as client:
                history: list[dict[str, Any]] = []
                for number in range(30):
                    history += [user(f"step {number} " + "words of a person " * 60), assistant("answer " * 60)]
                    body = {"model": "claude-x", "max_tokens": 9, "tools": [{}], "messages": history[:-1]}
                    await client.post(f"{address}/v1/messages?key=planted-query", json=body)
            async with httpx2.AsyncClient(trust_env=False) as client:
                paths = ("/_status", "/inspect/api/sessions", "/inspect/")
                dumped = [(await client.get(address + path)).text for path in paths]
            told = json.loads(dumped[0])
    assert "planted-authorization" in str(fake.seen)
    assert any(b"session_record" in each["raw"] for each in fake.seen)
    assert sum(record["activation"] is not None for record in told["records"]) > 1
    logged = [value for record in caplog.records for value in (record.getMessage(), str(record.__dict__))]
    held = [*dumped, *logged, *capfd.readouterr(), contents(tmp_path).decode("latin-1")]
    assert not [text[max(0, text.index("planted-") - 80) :][:160] for text in held if "planted-" in text]


# Too long

MESSAGES, COMPLETIONS, RESPONSES = PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")


async def grown(path: str, address: str) -> bytes:
    """The body of a request that asks for a stream, and was answered once."""
    body = json.dumps({**request_of(path.removeprefix("/v1/"), 20), "stream": True}).encode()
    assert (await post(address, path, body)).status_code == 200
    return body


@pytest.mark.parametrize(
    ("path", "in_stream"), [(MESSAGES, False), (COMPLETIONS, False), (COMPLETIONS, True), (RESPONSES, True)]
)
async def test_what_nothing_helps_against_is_passed_on_and_costs_no_later_request(path, in_stream):
    """Whatever is sent is refused, with words about the window: later requests are not made shorter for it."""
    async with between(Fake(refuses_in_stream=in_stream)) as (fake, address):
        body, fake.most_tokens = await grown(path, address), 5
        before = len(fake.seen)
        for _ in range(3):
            answer = await post(address, path, body)
            assert answer.status_code == (200 if in_stream else 400)
            assert re.search(b"error.*(too long|maximum context length)", answer.content)
        assert len(fake.seen) <= before + 2 * 3
        fake.most_tokens = 10**9
        for _ in range(2):
            assert b"answer" in (await post(address, path, body)).content
        told = await status(address)
    assert (told["failures"], told["records"][-1]["activation"]) == (0, None)
    assert len(fake.seen[-1]["raw"]) == len(fake.seen[0]["raw"])


async def test_words_about_length_behind_content_are_content():
    words = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: {"error": {"message": "prompt is too long"}}\n\n'

    @streams
    async def pieces() -> AsyncIterator[bytes]:
        yield words

    async with between(Fake(behave=pieces)) as (fake, address):
        answer = await post(address, COMPLETIONS, request_of("chat/completions", 0))
    assert (answer.status_code, answer.content, len(fake.seen)) == (200, words, 1)


WORDS: list[tuple[int, Any]] = [  # as providers, gateways and local servers tell that a request is too long
    (400, {"error": {"message": "The input token count (1196265) exceeds the maximum number of tokens allowed (9)."}}),
    (400, {"error": "This model's maximum prompt length is 131072 but the request contains 157812 tokens."}),
    (400, {"error": {"message": "Prompt has 256468 tokens, but the configured context size is 256000 tokens"}}),
    (400, {"error": {"message": "tokens in request more than max tokens allowed"}}),
    (400, {"error": {"message": "Your request exceeded model token limit: 131072 (requested: 150000)"}}),
    (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length"}),
    (400, {"message": "The input (12345 tokens) is longer than the model's context length (8192 tokens)."}),
    (400, {"error": {"message": "Range of input length should be [1, 129024]"}}),
    (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}),
    (413, "<html><title>413 Request Entity Too Large</title></html>"),
]


def refusing(most: int, status: int, words: Any) -> Any:
    async def behave(request: Request, raw: bytes) -> Response | None:
        return Response(words if isinstance(words, str) else json.dumps(words), status) if len(raw) > most else None

    return behave


STREAMS = [(path, in_stream) for path in PATHS for in_stream in (False, True)]


@pytest.mark.parametrize(("path", "refusal"), [*STREAMS, *((COMPLETIONS, words) for words in WORDS)])
async def test_a_size_and_a_limit_in_any_words_and_any_413_get_a_shorter_request(path, refusal):
    """Where a stream that has begun refuses it, the client sees the second stream alone."""
    async with between(Fake(refuses_in_stream=refusal is True)) as (fake, address):
        body, before = await grown(path, address), len(fake.seen)
        if isinstance(refusal, bool):
            fake.most_tokens = len(body) // 4 - 100
        else:
            fake.behave = refusing(len(body) - 500, *refusal)
        answer = await post(address, path, body)
        told = await status(address)
    last = told["records"][-1]
    assert (answer.status_code, len(fake.seen), fake.problems) == (200, before + 2, [])
    assert (last["replayed"], last["status"], len(told["sessions"])) == (True, 200, 1)
    assert b"answer" in answer.content
    assert not re.search(b"failed|too long", answer.content)


@pytest.mark.parametrize(("share", "asked"), [(1.2, 2), (4.0, 1)])
async def test_an_error_that_tells_nothing_gets_one_shorter_request_near_the_ceiling_and_none_far_from_it(share, asked):
    fake = Fake()
    async with served(fake) as upstream:
        async with proxied(upstream) as address:
            body = await grown(COMPLETIONS, address)
            last = (await status(address))["records"][-1]
        async with proxied(upstream, budget=int(share * (last["view_tokens"] + last["fixed_tokens"]))) as address:
            fake.behave = refusing(0, 400, {"error": {"message": "no such luck, and max_tokens"}})
            before = len(fake.seen)
            assert (await post(address, COMPLETIONS, body)).status_code == 400
    assert len(fake.seen) == before + asked
