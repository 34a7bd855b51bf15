"""A segment's summary is written by one who knows what the human wanted then."""

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.testing import ScriptedSummarizer
from tests.laws.builders import assistant, user

SMALL = Settings(
    max_tokens=4_000, idle_after="never", start_at=0.0, segment_min=200, segment_target=400, segment_max=800
)


async def requests(opening: str, correction: str, **options: object) -> list[SummaryJob]:
    model = ScriptedSummarizer()
    async with open_context(SMALL, summarizer=model, **options) as context:
        await context.add_message(user(opening))
        for step in range(40):
            if step == 20:
                await context.add_message(user(correction))
            await context.add_message(assistant(f"Step {step}: " + "boats carry bread along " * 8))
        await context.wait_idle()
    return [job for job in model.jobs if job.kind == "segment"]


async def test_a_segments_request_holds_the_opening_request_and_the_newest_words_before_it():
    jobs = await requests("Build the harbour.", "No, build a bridge.")
    first, *others = jobs
    assert "Build the harbour." in first.content
    assert first.context == ""
    assert all("Build the harbour." in job.context for job in others)
    late = [job for job in others if job.start > 21]
    assert late
    assert all("No, build a bridge." in job.context for job in late)
    assert not any("bridge" in job.context for job in others if job.start < 21)


async def test_the_context_is_part_of_the_name_of_a_summary():
    one, other = await requests("Build it.", "Go on."), await requests("Break it.", "Go on.")
    assert [job.content for job in one[1:]] == [job.content for job in other[1:]]
    assert all(a.range_hash != b.range_hash for a, b in zip(one[1:], other[1:], strict=True))
    again = await requests("Build it.", "Go on.")
    assert [job.range_hash for job in again] == [job.range_hash for job in one]


async def test_a_long_request_is_clipped_and_redacted():
    jobs = await requests("secret " * 900, "Go on.", redact=lambda text: text.replace("secret", "hidden"))
    assert all("secret" not in job.context for job in jobs)
    assert all(len(job.context) < 4_000 for job in jobs)
    assert any("hidden" in job.context for job in jobs)
