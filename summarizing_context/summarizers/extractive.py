"""The extractive summarizer: the default, with no key and no network.

The functions are pure and give the same bytes in any process; the class runs them in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from summarizing_context.core.drops import find_drops
from summarizing_context.errors import SummarizerError
from summarizing_context.ports import SummaryJob, SummaryReply
from summarizing_context.side_thread import SideThread
from summarizing_context.summarizers.blocks import is_rendered
from summarizing_context.summarizers.briefs import brief_sections
from summarizing_context.summarizers.leaves import leaf_sections
from summarizing_context.summarizers.listings import named_line
from summarizing_context.summarizers.parameters import SHIPPED, ExtractiveParameters
from summarizing_context.summarizers.rollups import rollup_sections
from summarizing_context.summarizers.sections import FACTS, fit
from summarizing_context.summarizers.skims import SKIM_SHARES, skim_sections

RECIPE = "extractive/v5"  # another name whenever the same content would give other bytes
_ROOM_FOR_NAMES = 200  # tokens; a shorter summary has none for values that it does not tell of


def summarize_extractively(
    content: str,
    *,
    kind: Literal["segment", "rollup"] = "segment",
    max_tokens: int,
    count: Callable[[str], int],
    parameters: ExtractiveParameters = SHIPPED,
) -> str:
    """The summary of a job's content in the fixed sections, at most `max_tokens` (at least 1) by `count`.

    All of `content` is read. The result is empty only where `content` is.
    """
    if not content:
        return ""
    strict = parameters.room.strict
    if kind == "rollup":
        merged = rollup_sections(content, max_tokens, count, parameters)
        return fit(merged, parameters.rollup, max_tokens, count, strict=strict)
    sections = leaf_sections(content, parameters)
    text = fit(sections, parameters.leaf, max_tokens, count, strict=strict)
    if max_tokens < _ROOM_FOR_NAMES or not (values := find_drops(content, text)):
        return text
    sections[FACTS] = [named_line(values, parameters), *sections[FACTS]]
    return fit(sections, parameters.leaf, max_tokens, count, strict=strict)


def skim(content: str, *, max_tokens: int, count: Callable[[str], int]) -> str:
    """A mini summary of a segment's content by a quick look over all of it; for many segments at once."""
    return fit(skim_sections(content), SKIM_SHARES, max_tokens, count) if content else ""


def brief_of(content_or_summary: str, *, max_tokens: int = 60, count: Callable[[str], int]) -> str:
    """One to three lines with the most important of a summary, or of a short segment that is its own summary."""
    if not content_or_summary:
        return ""
    text = content_or_summary
    if is_rendered(text):
        text = fit(skim_sections(text), SKIM_SHARES, 4 * max_tokens, count)
    return brief_sections(text, max_tokens, count)


class ExtractiveSummarizer:
    """Summarizes one job at a time in one worker thread, which starts with the first job."""

    def __init__(self, *, count: Callable[[str], int], parameters: ExtractiveParameters = SHIPPED) -> None:
        self.recipe = f"{RECIPE}, {parameters.name}" if parameters.name else RECIPE
        self._count = count
        self._parameters = parameters
        self._thread = SideThread("extractive")
        self._closed = False

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        if self._closed:
            raise SummarizerError("the extractive summarizer is closed; open a new context to summarize again")
        text = await self._thread.run(lambda: self._run(job))
        return SummaryReply(text, input_tokens=0, output_tokens=0)

    async def close(self) -> None:
        """Drop the jobs that wait, let the running one finish, and end the thread. May be called twice."""
        self._closed = True
        await self._thread.close()

    def _run(self, job: SummaryJob) -> str:
        return summarize_extractively(
            job.content,
            kind="rollup" if job.kind == "rollup" else "segment",
            max_tokens=job.max_tokens,
            count=self._count,
            parameters=self._parameters,
        )
