"""A whole session through each SDK against the server on the loopback, in bad weather: views stay lawful."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import anyio
import openai
import pytest

from summarizing_context import Settings, open_context
from tests.laws.builders import Message, count, session
from tests.laws.judge import SMALL, Judge

from .protocols import KEY, MODEL, PROTOCOLS, Protocol, user_text
from .server import ProviderServer, Script, serving, weather

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)]
BUDGET = 2_000
SDKS = (anthropic, openai)  # imported before the clock of a call runs: the first import takes longer than calls here
QUICK: dict[str, Any] = {"call_timeout": 1.5, "attempts": 3, "breaker_cooldown": 0.05}
STORM = {
    "rate_limited": 0.10, "rate_limited_by_date": 0.02, "failing": 0.10, "overloaded": 0.05, "reset": 0.08,
    "cut": 0.05, "stalled": 0.02, "html": 0.08, "broken": 0.08, "redirect": 0.05,
}  # fmt: skip


@asynccontextmanager
async def judged(protocol: Protocol, server: ProviderServer, **changes: Any) -> AsyncIterator[Judge]:
    """A judge over a context whose summaries the server makes."""
    place = {"summarizer": protocol.name, "model": MODEL, "api_key": KEY, "base_url": protocol.base_url(server.root)}
    options = {"max_tokens": BUDGET, **SMALL, **QUICK, **place, **changes}
    async with open_context(Settings(**options), count_tokens=count) as context:
        yield Judge(context, budget=BUDGET)


async def replayed(
    protocol: Protocol, script: Script, log: Sequence[Message], *, patient: bool = False, **changes: Any
) -> tuple[Judge, Any, ProviderServer]:
    """The session as an agent writes it, a view before each answer; no task is left of it. A patient one goes on only
    when the summaries of what was said are there."""
    before = asyncio.all_tasks()
    with anyio.fail_after(300):
        async with serving(script) as server, judged(protocol, server, **changes) as judge:
            for message in log:
                await judge.add(message)
                if message["role"] == "assistant":
                    if patient:
                        assert await judge.context.wait_idle(120)
                    await judge.view()
                    await anyio.sleep(0.002)
            await settled(judge, changes.get("breaker_cooldown", 0) > 1)
            await judge.view()
            await judge.check_log()
            statistics = judge.context.statistics()
    assert asyncio.all_tasks() == before
    assert judge.activations > 3
    assert judge.covered > 50
    assert judge.refused == 0
    return judge, statistics, server


async def settled(judge: Judge, lasting: bool) -> None:
    """Wait for the summaries, past an open breaker that closes soon; for a while only."""
    for _ in range(40):
        await judge.context.wait_idle(120)
        figures = judge.context.statistics()
        if figures.summaries_pending == 0 or (figures.breaker == "open" and lasting):
            break
        await anyio.sleep(0.05)


async def test_a_replay_with_limits_and_stalls_is_lawful(protocol: Protocol):
    _, statistics, server = await replayed(protocol, weather(1), session(61, 420))
    assert {answer.status for answer in server.answers} == {200, 429}
    assert any(answer.ending == "stall" for answer in server.answers)
    assert statistics.summaries_pending == 0
    assert 45 <= len(server.requests) <= statistics.model_calls


async def test_a_replay_in_a_storm_is_lawful(protocol: Protocol):
    _, statistics, server = await replayed(protocol, weather(2, faults=STORM), session(62, 200))
    assert len({(answer.status, answer.ending, answer.body) for answer in server.answers}) > 3
    assert statistics.summaries_ready > 0
    assert statistics.last_error


async def test_in_fair_weather_every_segment_is_asked_for_once(protocol: Protocol):
    log, limits = session(63, 200, dialect=protocol.name), {"call_timeout": 600.0}
    judge, statistics, server = await replayed(protocol, weather(3, faults={}), log, patient=True, **limits)
    asked = [user_text(request.body) for request in server.requests]
    assert len(set(asked)) == len(asked) == statistics.model_calls
    assert statistics.summaries_ready == statistics.segments
    assert statistics.summaries_failed == statistics.stand_ins == 0
    assert judge.views > 20
