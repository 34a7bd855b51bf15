"""A cap on calls holds for each attempt, not only for each summary."""

from summarizing_context import Settings
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun
from tests.talk import Talk


async def test_calls_that_fail_and_are_tried_again_count_for_the_cap():
    """Two or three jobs fail at first and wait before they try again: there is room for one of them alone."""
    model = ScriptedSummarizer([ConnectionError("down")] * 100)
    tries = {"attempts": 5, "breaker_failures": 1_000, "concurrency": 2, "max_calls_per_hour": 4}
    log = Talk().turns(60)
    async with begun(log, of=Settings, max_tokens=4_000, start_at=0.0, summarizer=model, **tries) as context:
        await context.get_messages_for_request()
        await context.wait_idle(20)
        assert (len(model.jobs), context.statistics().cap_reached) == (4, True)
