"""A dry run tells what a real run against the server on the loopback then asks for, and asks for nothing itself."""

import json
from dataclasses import replace

import pytest

from summarizing_context import Settings
from summarizing_context.evaluation.replay import replay_log
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.transcripts import Transcript
from tests.laws.builders import session
from tests.laws.judge import SMALL

from .protocols import KEY, MODEL, PROTOCOLS, spoken_at, system_text, user_text
from .server import Answer, Request, serving

LOG = Transcript("log", "messages", tuple(session(63, 150)), {})


def metered(request: Request) -> Answer:
    """A summary near the cap, or no rules, billed for what was really sent."""
    read, cap = system_text(request.body), SMALL["summary_max_tokens"]
    text = "## Done\n" + "\n".join(f"- item {request.number} {n} was made" for n in range(cap // 10))
    if "standing rules" in read:
        text = "none"
    spoken = spoken_at(request.path)
    usage = spoken.usage(estimate_text(read) + estimate_text(user_text(request.body)), estimate_text(text))
    return Answer(body=json.dumps(spoken.reply(text, usage=usage)).encode())


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
async def test_a_dry_run_tells_the_calls_and_the_tokens_of_the_real_one(protocol, monkeypatch):
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY", raising=False)
    settings = Settings(summarizer=protocol.name, model=MODEL, max_tokens=2_000, **SMALL)
    (told,) = await replay_log("log", LOG, [settings], dry_run=True)
    async with serving(metered) as server:
        place = {"base_url": protocol.base_url(server.root), "api_key": KEY}
        (real,) = await replay_log("log", LOG, [replace(settings, **place)])
    assert told.model_calls == real.model_calls == len(server.requests) > 10
    assert sum("consecutive parts" in system_text(one.body) for one in server.requests) > 0
    assert told.model_input_tokens == pytest.approx(real.model_input_tokens, rel=0.03)
    assert (told.messages, told.history_tokens) == (real.messages, real.history_tokens)
