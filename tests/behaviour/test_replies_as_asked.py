"""What a summarizer is asked with, and that a reply as long as it was asked for is taken, in rooms of any size."""

from typing import Any

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.messages.tokens import estimate_text
from tests.behaviour.contexts import begun, said
from tests.laws.builders import assistant, user
from tests.laws.summarizers import Counting


class Full(Counting):
    """Writes as many tokens as it was asked for, by the built-in estimate."""

    async def answer(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        words = [word for word in job.content.split() if word.startswith("word")]
        lines = ["## Done"]
        for at in range(0, len(words), 5):
            line = f"- did {' and '.join(words[at : at + 5])}"
            if estimate_text("\n".join([*lines, line])) > job.max_tokens:
                break
            lines.append(line)
        return "\n".join(lines)


@pytest.mark.parametrize("budget", [3_000, 4_000, 6_000, 16_000])
async def test_a_reply_as_long_as_it_was_asked_for_is_taken(budget: int):
    model = Full("full/1")
    settings = Settings(max_tokens=budget, token_counter="estimate", idle_after="never")
    async with open_context(settings, summarizer=model) as context:
        for turn in range(300):
            await context.add_message(said(turn, " ".join(f"word{turn * 61 + word}" for word in range(60))))
            assert await context.wait_idle(60)
            await context.get_messages_for_request()
        assert {job.kind for job in model.jobs} >= {"segment", "rollup"}
        assert context.statistics().refused_replies == 0


async def requests(opening: str, correction: str, **options: Any) -> list[SummaryJob]:
    """The jobs for segments of a session in which the human wants something else half-way."""
    model = Counting()
    steps = [assistant(f"Step {step}: " + "boats carry bread along " * 8) for step in range(40)]
    log = [user(opening), *steps[:20], user(correction), *steps[20:]]
    sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800}
    given = {"max_tokens": 4_000, "idle_after": "never", "start_at": 0.0, "count_tokens": None, **sizes, **options}
    async with begun(log, of=Settings, summarizer=model, **given) as context:
        await context.wait_idle()
    return model.segments


async def test_a_segments_request_holds_the_opening_request_and_the_newest_words_before_it():
    first, *others = jobs = await requests("Build the harbour.", "No, build a bridge.")
    assert "Build the harbour." in first.content
    assert first.context == ""
    assert all("Build the harbour." in job.context for job in others)
    late = [job for job in others if job.start > 21]
    assert late
    assert all("No, build a bridge." in job.context for job in late)
    assert not any("bridge" in job.context for job in others if job.start < 21)
    # it is part of the name of a summary
    again = await requests("Build the harbour.", "No, build a bridge.")
    assert [job.range_hash for job in again] == [job.range_hash for job in jobs]
    _, *changed = await requests("Break the harbour.", "No, build a bridge.")
    assert [job.content for job in changed] == [job.content for job in others]
    assert all(a.range_hash != b.range_hash for a, b in zip(others, changed, strict=True))
    # a long one is clipped and redacted
    jobs = await requests("secret " * 900, "Go on.", redact=lambda text: text.replace("secret", "hidden"))
    assert all("secret" not in job.context and len(job.context) < 4_000 for job in jobs)
    assert any("hidden" in job.context for job in jobs)
