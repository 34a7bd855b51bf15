"""The fakes that users' tests may use."""

import json
from functools import partial

from summarizing_context import Settings, SummarizerError
from summarizing_context.testing import ScriptedSummarizer, range_name
from tests.behaviour.contexts import begun
from tests.talk import Talk

small = partial(begun, of=Settings, max_tokens=3_000, count_tokens=None)


async def test_a_scripted_summarizer_answers_for_a_session():
    summarizer = ScriptedSummarizer()
    async with small(Talk().turns(40), every=1, summarizer=summarizer) as context:
        assert await context.wait_idle(30)
        view = json.dumps(await context.get_messages_for_request())
        statistics = context.statistics()
    segments = [job for job in summarizer.jobs if job.kind == "segment"]
    assert segments
    assert statistics.refused_replies == 0
    assert any(f"called {range_name(job.range_hash)}" in view for job in summarizer.jobs)


async def test_a_script_may_fail_and_then_answer():
    summarizer = ScriptedSummarizer([SummarizerError("down")] * 2)
    async with small(Talk().turns(40), summarizer=summarizer) as context:
        await context.compact()
        await context.wait_idle(60)  # a failed call is tried again after a moment
    assert len(summarizer.jobs) > 2
