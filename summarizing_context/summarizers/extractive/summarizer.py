"""The extractive summarizer, briefs of one to three lines, and all extractive passes of a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.errors import SummarizerError
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import CallStatistics, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.lines import key_lines
from summarizing_context.summarizers.extractive.sections import (
    NAMES,
    PRIORITY,
    Count,
    fit,
    is_rendered,
    nothing_readable,
    read_sections,
    shorten,
)
from summarizing_context.summarizers.extractive.summaries import (
    LEAF_SHARES,
    leaf_sections,
    rollup_sections,
    skim_sections,
)
from summarizing_context.summarizers.extractive.topics import excerpt_about, lines_about

RECIPE = "extractive/v9"  # another name whenever the same content would give other bytes
_ROLLUP_SHARES = (14, 30, 18, 14, 14, 6, 34)  # percent of the room for each section
_SKIM_SHARES = (20, 60, 25, 0, 25, 20, 15)


def summarize_extractively(
    content: str,
    *,
    kind: str = "segment",  # or "rollup"
    max_tokens: int,
    count: Count = estimate_text,
    yield_now: YieldNow = never_yield,
) -> str:
    """Return the summary of a job's content in the fixed sections, at most `max_tokens` (at least 1) by `count`.

    All of `content` is read; `yield_now` is called all along. The result is empty only where `content` is.
    """
    if not content:
        return ""
    if kind == "rollup":
        return fit(rollup_sections(content, max_tokens, count, yield_now), _ROLLUP_SHARES, max_tokens, count)
    return fit(leaf_sections(content, yield_now), LEAF_SHARES, max_tokens, count)


def skim(content: str, max_tokens: int, *, count: Count = estimate_text) -> str:
    """Return a small summary by plain searches over the whole content, for many segments at once."""
    return fit(skim_sections(content), _SKIM_SHARES, max_tokens, count) if content else ""


def brief_of(text: str, max_tokens: int = 60, *, count: Count = estimate_text) -> str:
    """Return one to three lines with the most important of a summary, or of a short segment that is its own summary.

    A line for each of the most important sections that fit, at most `max_tokens`.
    """
    if not text:
        return ""
    if is_rendered(text):
        text = skim(text, max_tokens=4 * max_tokens, count=count)
    newest = [[line.text for line in lines[:-5:-1]] for lines in read_sections(text)]
    lines: list[str] = []
    left = max_tokens
    for section in PRIORITY:
        if len(lines) == 3 or left < 6:
            break
        line = f"{NAMES[section]}:"
        for bullet in newest[section]:  # a bullet that only leads to something, with a colon, takes the next one along
            is_open = line.endswith(":")
            cost = count(f"{line} {bullet}\n" if is_open else f" · {bullet}")
            if cost <= left:
                line += f" {bullet}" if is_open else f" · {bullet}"
                left -= cost
        lines += [] if line.endswith(":") else [line]
    while lines and count("\n".join(lines)) > max_tokens:
        lines.pop()
    best = next((newest[section][0] for section in PRIORITY if newest[section]), "")
    return "\n".join(lines) or shorten(best or nothing_readable(text)[0].text, max_tokens, count)


def cut_to(summary: str, max_tokens: int) -> str:
    """Return a summary without the last lines of those sections that take most for their share; a brief where none is
    left."""
    by_heading = {f"## {name}": share for name, share in zip(NAMES, _ROLLUP_SHARES, strict=True)}
    parts = [part.rstrip("\n").split("\n") for part in re.split(r"^(?=## )", summary, flags=re.MULTILINE)]
    shares = [by_heading.get(part[0], min(_ROLLUP_SHARES)) for part in parts]
    while any(len(part) > 1 for part in parts):
        text = "\n\n".join("\n".join(part) for part in parts if len(part) > 1)
        if estimate_text(text) <= max_tokens:
            return text
        costs = [sum(estimate_text(f"{line}\n") for line in part[1:]) for part in parts]
        parts[max(range(len(parts)), key=lambda at: costs[at] / shares[at])].pop()
    return brief_of(summary, max_tokens=max_tokens)


class ExtractiveSummarizer:
    """Summarizes one job at a time in a worker thread, which it closes: a given one, or one of its own.

    Nothing limits it: it is always ready, and calls nobody.
    """

    recipe = RECIPE

    def __init__(self, *, count: Count, thread: WorkerThread | None = None) -> None:
        self._count = count
        self._thread = WorkerThread("extractive") if thread is None else thread
        self._closed = False

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        if self._closed:
            raise SummarizerError("the extractive summarizer is closed; open a new context to summarize again")
        sizes: dict[str, Any] = {"max_tokens": job.max_tokens, "count": self._count}
        read = partial(summarize_extractively, job.content, kind=job.kind, yield_now=self._thread.yield_now, **sizes)
        return SummaryReply(await self._thread.run(read), input_tokens=0, output_tokens=0)

    def ready_in(self) -> float:
        return 0.0

    def statistics(self) -> CallStatistics:
        return CallStatistics()

    async def close(self) -> None:
        """Drop the jobs that wait, let the running one finish, and end the thread. May be called twice."""
        self._closed = True
        await self._thread.close()


LinesAbout = Callable[[str, str, int], str]  # what a content says about a topic, in so many tokens


class Extracts(NamedTuple):
    """The extractive passes of a session, with every summarizer: thorough, quick, making a summary short, or as
    short as it has to be; about a topic, to be shown and to be read on. Sizes are estimated tokens."""

    thorough: Callable[..., str] = summarize_extractively
    skim: Callable[[str, int], str] = skim
    brief: Callable[[str, int], str] = brief_of
    cut: Callable[[str, int], str] = cut_to
    key_lines: Callable[[str, int], Sequence[str]] = key_lines  # of a text that a model does not get to read
    about: LinesAbout = lines_about
    excerpt: LinesAbout = excerpt_about
