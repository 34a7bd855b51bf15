"""A model that the proxy itself asks: where its calls go, and what is said where it cannot be asked."""

from __future__ import annotations

import pytest

from summarizing_context.cli import main
from summarizing_context.contrib.serving import bound_socket
from tests.proxy.clients import AnthropicAgent, proxied, status
from tests.proxy.fake import Fake, served
from tests.proxy.test_summarizers import BUDGET, asked, shown_at_last, summarizing


async def test_summaries_go_to_the_server_that_is_named_for_the_provider(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-own")
    fake = Fake(behave=summarizing())
    settings = {"summarizer": "anthropic", "model": "claude-y"}
    async with served(fake) as upstream, proxied(upstream, tmp_path / "run.db", settings, budget=BUDGET) as proxy:
        assert await shown_at_last(AnthropicAgent, fake, proxy)
    assert all("sk-own" in str(one["headers"]) for one in asked(fake))


@pytest.mark.parametrize("options", [["--summarizer", "openai", "--model", "m"], ["--model", "m"]])
def test_a_missing_key_is_said_at_the_start(options, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["proxy", "--store", str(tmp_path / "p.db"), "--listen", "127.0.0.1:0", *options]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


def test_in_the_shadow_no_key_is_needed(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    taken = bound_socket("127.0.0.1", 0)
    with taken:  # so that it ends at once, behind the look at its model
        options = ["--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--summarizer", "openai", "--model", "m"]
        assert main(["proxy", "--store", str(tmp_path / "p.db"), "--shadow", *options]) == 4


async def test_what_fails_in_the_proxy_is_a_notice(tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    fake = Fake()
    settings = {"summarizer": "anthropic", "model": "claude-y"}
    async with served(fake) as upstream, proxied(upstream, tmp_path / "run.db", settings, budget=BUDGET) as proxy:
        for step in range(3):
            await AnthropicAgent(proxy).step(f"step {step}")
        told = await status(proxy)
    assert told["failures"] == len(fake.seen) == 3
    assert [notice for notice in told["notices"] if "ANTHROPIC_API_KEY" in notice]
