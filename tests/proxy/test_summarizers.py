"""Who makes the summaries behind the proxy, and with whose keys: rules, a named model, or the client's own model."""

import asyncio
import logging
import os
from typing import Any

import pytest

from summarizing_context.cli import main
from summarizing_context.contrib.serving import bound_socket
from tests.proxy.clients import OPEN, AnthropicAgent, ChatAgent, ResponsesAgent, between, status
from tests.proxy.fake import Fake, served
from tests.proxy.test_command import PROGRAM
from tests.proxy.test_sessions import contents

BUDGET = 3_000

SAID = "The model says that the work went on and that the parser was read."

SUMMARY = f"## Facts\n- {SAID}"

AGENTS: dict[Any, tuple[str, str]] = {
    AnthropicAgent: ("/v1/messages", "claude-x"),
    ChatAgent: ("/v1/chat/completions", "gpt-x"),
    ResponsesAgent: ("/v1/responses", "gpt-5-codex"),
}


async def shown_at_last(agent: Any, fake: Fake, address: str) -> bool:
    """Whether the provider is sent the model's summary in the end, by a client that goes on until it is."""
    client = agent(address)
    for _ in range(120):
        await client.steps(1)
        if SAID in fake.seen[-1]["raw"].decode():
            return True
        await asyncio.sleep(0.02)  # the summaries come beside the session
    return False


def asked(fake: Fake) -> list[dict[str, Any]]:
    """The requests for summaries."""
    return [each for each in fake.seen if b"session_record" in each["raw"]]


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_clients_own_model_is_asked_with_the_clients_own_key(agent, tmp_path, caplog):
    fake = Fake(summary=SUMMARY)
    with caplog.at_level(logging.DEBUG):
        async with between(fake, store=tmp_path / "run.db", budget=BUDGET, lends=True) as (_, proxy):
            assert await shown_at_last(agent, fake, proxy)
    assert {(each["path"], each["body"]["model"]) for each in asked(fake)} == {AGENTS[agent]}
    assert all("sk-secret" in str(each["headers"]) for each in asked(fake))
    assert fake.problems == []
    assert b"sk-secret" not in contents(tmp_path)
    assert "sk-secret" not in caplog.text


async def test_the_command_takes_a_named_model_and_its_key_from_the_environment(tmp_path):
    """As a user starts it: the key stands in the environment alone, and nowhere afterwards."""
    fake, other = Fake(), Fake(summary=SUMMARY)
    async with served(fake) as upstream, served(other) as place:
        command = [*PROGRAM, "--store", str(tmp_path / "run.db"), "--listen", "0"]
        command += ["--summarizer", "anthropic", "--model", "small", "--budget", str(BUDGET), "--openai", upstream]
        env = {**os.environ, "ANTHROPIC_API_KEY": "sk-of-the-summaries", "ANTHROPIC_BASE_URL": place}
        process = await asyncio.create_subprocess_exec(*command, env=env, stderr=asyncio.subprocess.PIPE)
        try:
            words = await process.stderr.readline()
            proxy = words.decode().split(": ")[0]
            assert await shown_at_last(ChatAgent, fake, proxy)
            told = (await status(proxy))["summarizer"]
        finally:
            await OPEN.pop().close()
            process.terminate()
            words += await process.stderr.read()
            await process.wait()
    assert told == "anthropic"
    assert {(each["path"], each["body"]["model"]) for each in asked(other)} == {("/v1/messages", "small")}
    assert all("sk-of-the-summaries" in str(each["headers"]) for each in other.seen)
    assert asked(fake) == []
    assert "sk-" not in contents(tmp_path).decode("latin-1") + words.decode()


async def test_summaries_go_to_the_server_that_is_named_for_the_provider_or_there_is_a_notice(tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    named = {"summarizer": "anthropic", "model": "claude-y"}
    given = {"store": tmp_path / "run.db", "settings": named, "budget": BUDGET}
    async with between(**given) as (fake, proxy):
        for step in range(3):
            await AnthropicAgent(proxy).step(f"step {step}")
        told = await status(proxy)
    assert told["failures"] == len(fake.seen) == 3
    assert [notice for notice in told["notices"] if "ANTHROPIC_API_KEY" in notice]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-own")
    async with between(Fake(summary=SUMMARY), **given) as (fake, proxy):
        assert await shown_at_last(AnthropicAgent, fake, proxy)
    assert all("sk-own" in str(one["headers"]) for one in asked(fake))


def test_a_missing_key_is_said_at_the_start_but_in_the_shadow(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["proxy", "--store", str(tmp_path / "p.db"), "--model", "m"]
    for options in (["--summarizer", "openai"], []):
        assert main([*command, "--listen", "127.0.0.1:0", *options]) == 2
        assert "OPENAI_API_KEY" in capsys.readouterr().err
    with bound_socket("127.0.0.1", 0) as taken:  # so that it ends at once, behind the look at its model
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main([*command, "--shadow", "--listen", place, "--summarizer", "openai"]) == 4
