"""The outage of the laws through each real SDK: the provider answers 503 for ten minutes."""

from __future__ import annotations

from collections import Counter

import anthropic
import openai
import pytest

from summarizing_context import Settings, open_context
from tests.laws.builders import count
from tests.laws.judge import Judge
from tests.laws.outage import BUDGET, MOST_CALLS, OPTIONS, Clock, outage

from .protocols import KEY, MODEL, PROTOCOLS, Protocol, user_text
from .server import Answer, Request, serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)]
SDKS = (anthropic, openai)  # imported before the first call


class Provider:
    """Answers, or does not; remembers what was asked when."""

    def __init__(self) -> None:
        self.is_down, self.lost = False, 0
        self.answered: list[str] = []

    def down(self, is_down: bool) -> None:
        self.is_down = is_down

    def script(self, request: Request) -> Answer:
        if self.is_down:
            self.lost += 1
            return Answer(503, body=b"{}")
        if "### user [1]" not in (text := user_text(request.body)):  # no request for rules
            self.answered.append(text)
        return Answer()


async def test_after_ten_minutes_every_gap_is_filled_exactly_once(protocol: Protocol):
    provider, clock = Provider(), Clock()
    async with serving(provider.script) as server:
        place = {"summarizer": protocol.name, "model": MODEL, "api_key": KEY}
        settings = Settings(**OPTIONS, **place, base_url=protocol.base_url(server.root), call_timeout=120.0)
        async with open_context(settings, count_tokens=count, clock=clock) as context:
            await outage(Judge(context, budget=BUDGET), clock, provider.down)
            segments = context.statistics().segments
    assert set(Counter(provider.answered).values()) == {1}
    merges = sum("### summary 1 of" in text for text in provider.answered)
    assert merges > 0
    assert len(provider.answered) - merges in range(segments, segments + 3)  # with pieces of the open segment
    assert 4 <= provider.lost <= MOST_CALLS
