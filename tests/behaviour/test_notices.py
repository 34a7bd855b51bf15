"""What a session tells of activations and summaries: events to an observer, and lines in the log."""

import logging
import re
from typing import Any

import pytest

from summarizing_context import Settings, SummaryJob, SummaryReply, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import Clock, Heard

SECRET = "zanzibar"
LOGGER = "summarizing_context"


async def run_session() -> Heard:
    """A session that is summarized and has one activation, each message with the secret."""
    heard, clock = Heard(), Clock(100.0)

    def reply(job: SummaryJob) -> SummaryReply:  # which takes two seconds
        clock.time += 2 if job.kind != "rules" else 0
        return SummaryReply(f"- The word is {SECRET}.", 1_200, 30, cached_tokens=100)

    model: Any = ScriptedSummarizer(reply)
    model.model = "small-1"
    settings = Settings(max_tokens=4_000, session_id="s1", attempts=1, concurrency=1)
    async with open_context(settings, events=heard, summarizer=model, clock=clock) as context:
        for step in range(120):
            role = "assistant" if step % 2 else "user"
            await context.add_message({"role": role, "content": f"Step {step}: {SECRET}. " + "I read it. " * 40})
        await context.wait_idle()
        await context.get_messages_for_request()
    return heard


async def test_an_event_tells_what_made_a_summary_its_tokens_and_how_long_it_took():
    heard = await run_session()
    ready = heard.of("summary_ready")
    assert len(ready) > 1
    for data in ready:
        del data["range_hash"], data["rank"]
        made = {"made_by": "model", "provider": None, "model": "small-1", "duration": 2.0}
        assert data == {**made, "input_tokens": 1_200, "output_tokens": 30, "cached_tokens": 100}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


async def test_at_info_each_activation_and_each_summary_is_a_line_without_text(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, LOGGER):
        heard = await run_session()
    summaries = [line for line in lines(caplog) if ": summary " in line]
    assert len(summaries) == len(heard.of("summary_ready")) > 1
    for line in summaries:
        assert re.fullmatch(r"s1: summary [0-9a-f]{8} of rank \d by small-1 in 2\.000 s, 1200 tokens in, 30 out", line)
    [activation] = [line for line in lines(caplog) if ": activation " in line]
    [told] = heard.of("activation")
    assert activation == (
        f"s1: activation (high_water) in 0.000 s: {told['tokens_before']} tokens to {told['tokens_after']}, "
        f"{told['messages']} messages, {told['header_blocks']} summaries, {told['stand_ins']} stand-ins"
    )
    assert SECRET not in caplog.text
