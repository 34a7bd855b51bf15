"""A cap on calls holds for each attempt, not only for each summary."""

from typing import Any

from summarizing_context import Settings, open_context
from summarizing_context.testing import Conversation, ScriptedSummarizer
from tests.behaviour.contexts import fill


async def test_calls_that_fail_and_are_tried_again_count_for_the_cap():
    summarizer = ScriptedSummarizer([ConnectionError("down")] * 100)
    tries: dict[str, Any] = {"attempts": 5, "breaker_failures": 1_000, "concurrency": 1, "max_calls_per_hour": 2}
    settings = Settings(max_tokens=4_000, token_counter="estimate", start_at=0.0, **tries)
    async with open_context(settings, summarizer=summarizer) as context:
        await fill(context, Conversation().turns(60))
        await context.get_messages_for_request()
        await context.wait_idle(20)
        assert len(summarizer.jobs) == 2
        assert context.statistics().cap_reached
