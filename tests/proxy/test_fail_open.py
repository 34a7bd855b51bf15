"""Whatever fails in the proxy, at whatever step: the client's request goes on as it came, and its keys are nowhere."""

import asyncio
import json
import logging
import sqlite3
from contextlib import closing
from functools import partial
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from summarizing_context import assembly, open_context
from summarizing_context.adapters import open_sessions
from summarizing_context.context import SummarizingContext
from summarizing_context.contrib.proxy import rewriter, server
from summarizing_context.contrib.proxy.dialects import Anthropic
from summarizing_context.contrib.proxy.rewriter import Rewriter
from summarizing_context.settings import Settings
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.views.builder import Viewer
from tests.contract.store_builders import fill_disk
from tests.laws.builders import assistant, user
from tests.proxy.clients import AnthropicAgent, between, status
from tests.proxy.fake import Fake
from tests.proxy.test_sessions import contents

SECRET = "a secret in an error"
FOR_EVER = "any, for ever"

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

LOCKED = "keeping messages in a store that another process has locked"


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError(SECRET)


async def hangs(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(600)


@pytest.mark.parametrize("step", [*STEPS, LOCKED])
async def test_a_bug_at_any_step_before_lets_the_request_go_on_as_it_came(step, monkeypatch, caplog, tmp_path):
    error = {FOR_EVER: "TimeoutError", LOCKED: "StoreLockedError"}.get(step, "RuntimeError")
    monkeypatch.setattr(assembly, "SqliteStore", partial(SqliteStore, busy_timeout=0.1))
    async with between(store=tmp_path / "run.db", budget=3_000) as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(0 if step == "opening the session" else 5)
        other = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
        with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG), closing(other):
            if step == LOCKED:
                other.execute("begin immediate")
            else:
                patch.setattr(*STEPS[step], hangs if step == FOR_EVER else fails)
            if step == FOR_EVER:
                patch.setattr(server, "VIEW_WITHIN", 0.2)
            before = len(fake.seen)
            await client.steps(2)
            told = await status(address)
        sent = [len(each["body"]["messages"]) for each in fake.seen[before:]]
        assert sent == [len(client.history) - 3, len(client.history) - 1]
        assert (told["failures"], told["last_failure"]) == (2, error)
        assert SECRET not in caplog.text
        await client.steps(7)
        assert (await status(address))["failures"] == 2
    assert fake.problems == []
    assert len(fake.seen[-1]["body"]["messages"]) < len(client.history) / 2  # it goes on with its view


async def test_a_store_that_is_full_lets_requests_go_on(tmp_path, monkeypatch):
    fill_disk(monkeypatch, 34)
    async with between(store=tmp_path / "run.db", budget=6_000) as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(14)
        told = await status(address)
    assert (fake.problems, len(fake.seen), told["last_failure"]) == ([], 14, "StoreFullError")
    assert len(fake.seen[-1]["body"]["messages"]) == len(client.history) - 1


async def test_a_session_that_another_program_has_open_goes_on(tmp_path):
    store = tmp_path / "run.db"
    async with between(store=store) as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(3)
        name = (await status(address))["sessions"][0]["session"]
    async with open_context(Settings(store=store, session_id=name)), between(fake, store=store) as (_, address):
        again = AnthropicAgent(address)
        again.history = client.history
        await again.steps(2)
        told = await status(address)
    assert fake.problems == []
    assert (told["failures"], told["last_failure"]) == (2, "SessionInUseError")


KEYS = {
    "authorization": "Bearer planted-1-authorization",
    "x-api-key": "planted-2-x-api-key",
    "api-key": "planted-3-api-key",
    "x-goog-api-key": "planted-4-x-goog-api-key",
    "cookie": "session=planted-5-cookie",
    "chatgpt-account-id": "planted-6-account",
    "proxy-authorization": "Basic planted-7-proxy",
    "openai-organization": "planted-8-organization",
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
                for number in range(40):
                    history += [user(f"step {number} " + "words of a person " * 60), assistant("answer " * 60)]
                    body = {"model": "claude-x", "max_tokens": 9, "tools": [{}], "messages": history[:-1]}
                    await client.post(f"{address}/v1/messages?key=planted-9-query", json=body)
            async with httpx2.AsyncClient(trust_env=False) as client:
                paths = ("/_status", "/inspect/api/sessions", "/inspect/")
                dumped = [(await client.get(address + path)).text for path in paths]
            told = json.loads(dumped[0])
    assert "planted-1-authorization" in str(fake.seen)
    assert any(b"session_record" in each["raw"] for each in fake.seen)
    assert sum(record["activation"] is not None for record in told["records"]) > 1
    logged = [value for record in caplog.records for value in (record.getMessage(), str(record.__dict__))]
    held = [*dumped, *logged, *capfd.readouterr(), contents(tmp_path).decode("latin-1")]
    assert not [text[max(0, text.index("planted-") - 80) :][:160] for text in held if "planted-" in text]
