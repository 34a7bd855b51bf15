"""What a session tells of activations and summaries: events to an observer, and lines in the log."""

import logging
import re
from typing import Any

import pytest

from summarizing_context import Settings, SummaryJob, SummaryReply
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import Clock, Heard, begun, said

SECRET = "zanzibar"
LOGGER = "summarizing_context"


async def test_at_info_each_activation_and_each_summary_is_a_line_without_text(caplog: pytest.LogCaptureFixture):
    heard, clock = Heard(), Clock(100.0)

    def reply(job: SummaryJob) -> SummaryReply:  # which takes two seconds
        clock.time += 2 if job.kind != "rules" else 0
        return SummaryReply(f"- The word is {SECRET}.", 1_200, 30, cached_tokens=100)

    model: Any = ScriptedSummarizer(reply)
    model.model = "small-1"
    log = [said(step, f"{SECRET}. " + "I read it. " * 40) for step in range(120)]
    watched = {"events": heard, "summarizer": model, "clock": clock, "count_tokens": None}
    given = {"max_tokens": 4_000, "session_id": "s1", "attempts": 1, "concurrency": 1}
    with caplog.at_level(logging.INFO, LOGGER):
        async with begun(log, of=Settings, **given, **watched) as context:
            await context.wait_idle()
            await context.get_messages_for_request()
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    summaries = [line for line in lines if ": summary " in line]
    assert len(summaries) == len(heard.of("summary_ready")) > 1
    line = r"s1: summary [0-9a-f]{8} of rank \d by small-1 in 2\.000 s, 1200 tokens in, 30 out"
    assert all(re.fullmatch(line, summary) for summary in summaries)
    [activation] = [line for line in lines if ": activation " in line]
    [told] = heard.of("activation")
    assert activation == (
        f"s1: activation (high_water) in 0.000 s: {told['tokens_before']} tokens to {told['tokens_after']}, "
        f"{told['messages']} messages, {told['header_blocks']} summaries, {told['stand_ins']} stand-ins"
    )
    assert SECRET not in caplog.text
    for data in heard.of("summary_ready"):  # an event tells what made it, its tokens and how long it took
        del data["range_hash"], data["rank"]
        made = {"made_by": "model", "provider": None, "model": "small-1", "duration": 2.0}
        assert data == {**made, "input_tokens": 1_200, "output_tokens": 30, "cached_tokens": 100}
