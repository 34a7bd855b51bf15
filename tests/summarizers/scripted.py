"""A job for the tests of summarizers, and what a good reply to it is."""

from dataclasses import replace
from typing import Any

from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob

SECRET = "the launch code is 0000"
STEPS = "\n".join(f"step {i} done" for i in range(300))
CONTENT = f"### user\nPlease fix the build in a.py, {SECRET}.\n### assistant\n{STEPS}"
GOOD = "## Done\n- The build was fixed in a.py."
JOB = SummaryJob(
    kind="segment",
    instructions="Sum up the following messages in the fixed sections, and keep every number as it stands.",
    content=CONTENT,
    max_tokens=100,
    rank=0,
    start=0,
    stop=9,
    source_tokens=estimate_text(CONTENT),
    range_hash="0123456789abcdef",
)


def job(**changes: Any) -> SummaryJob:
    return replace(JOB, **changes)
