"""The requests that a prompt is sent with, made from real messages: every part with its tokens.

The session runs as it would, on the real planner; a summarizer that calls nobody notes the jobs and answers with an
extractive summary, so that rollups have children to merge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from summarizing_context.assembly import open_context
from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.messages import message_text_parts
from summarizing_context.errors import SettingsError
from summarizing_context.ports import SummaryJob
from summarizing_context.prompt_library import Prompt
from summarizing_context.settings import Settings
from summarizing_context.summarizers.extractive import summarize_extractively
from summarizing_context.summarizers.providers import fenced

RENDERED = ("segment", "rollup", "focus")
_LEAST_BUDGET = 1_000  # tokens


class RequestPart(NamedTuple):
    """One part of a request, exactly as it is sent."""

    slot: str  # "system" or "user"
    name: str
    fixed: bool  # the same with every request
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """One request, and the messages that it is about."""

    prompt: str
    rank: int
    start: int
    stop: int
    number: int  # which of its kind, from 1
    among: int
    max_tokens: int  # cap of the answer
    parts: tuple[RequestPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    @property
    def fixed_tokens(self) -> int:
        return sum(part.tokens for part in self.parts if part.fixed)


class Recorder:
    """Notes what it is asked, and answers with an extractive summary."""

    def __init__(self) -> None:
        self.jobs: list[SummaryJob] = []

    async def summarize(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        return summarize_extractively(
            job.content,
            kind="rollup" if job.kind == "rollup" else "segment",
            max_tokens=job.max_tokens,
            count=estimate_text,
        )


async def jobs_for(
    messages: Sequence[dict[str, Any]], settings: Settings, *, purpose: str, topic: str = "", rank: int = 1
) -> list[SummaryJob]:
    """The jobs of one purpose that a session with these messages asks for, oldest first."""
    recorder = Recorder()
    quiet = replace(settings, store=":memory:", session_id="render", start_at=0.0, idle_after=None)
    if purpose == "focus":  # a note is about what is covered: cover about half
        history = sum(estimate_text(text) for message in messages for text in message_text_parts(message))
        quiet = replace(quiet, max_tokens=max(history // 2, _LEAST_BUDGET))
    async with open_context(quiet, summarizer=recorder) as context:
        await context.set_messages(list(messages))
        await context.wait_idle()
        summaries = len(recorder.jobs)
        if purpose == "focus":
            await context.compact(focus=topic)
            await context.wait_idle()
    if purpose == "focus":
        found = [job for job in recorder.jobs[summaries:] if job.content.startswith("### topic")]
    else:
        wanted = 0 if purpose == "segment" else rank
        found = [job for job in recorder.jobs if job.rank == wanted and not job.content.startswith("### topic")]
    return sorted(found, key=lambda job: job.start)


def render_request(prompt: Prompt, jobs: Sequence[SummaryJob], number: int, count: Callable[[str], int]) -> Rendered:
    """The request for one of the jobs, `number` from 1, with another prompt's instructions."""
    if not jobs:
        raise SettingsError(f"these messages ask for no {prompt.name}; take a longer transcript")
    if not 1 <= number <= len(jobs):
        raise SettingsError(f"there is no number {number}: these messages ask for {len(jobs)} of them, from 1")
    job = jobs[number - 1]
    instructions = prompt.render_for_rank(job.rank, max_tokens=job.max_tokens)
    sent = fenced(job)
    opening, _, rest = sent.partition("\n")
    record, _, closing = rest.rpartition("\n")
    parts = [
        ("system", "instructions", True, instructions),
        ("user", "opening of the fence", True, f"{opening}\n"),
        ("user", "record", False, record),
        ("user", "end of the fence", True, f"\n{closing}"),
    ]
    return Rendered(
        prompt=f"{prompt.name}/v{prompt.version}",
        rank=job.rank,
        start=job.start,
        stop=job.stop,
        number=number,
        among=len(jobs),
        max_tokens=job.max_tokens,
        parts=tuple(RequestPart(slot, name, fixed, count(text), text) for slot, name, fixed, text in parts),
    )
