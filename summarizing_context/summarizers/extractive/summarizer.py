"""The extractive summarizer, briefs of one to three lines, and all extractive passes of a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.errors import SummarizerError
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.summarizers.base import NO_CALLS, CallStatistics, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.figures import LEAF, ROLLUP, STRICT_SHARE
from summarizing_context.summarizers.extractive.rollups import rollup_sections
from summarizing_context.summarizers.extractive.sections import (
    NAMES,
    PRIORITY,
    Count,
    Sections,
    fit,
    is_rendered,
    nothing_readable,
    read_sections,
    shorten,
)
from summarizing_context.summarizers.extractive.segments import SKIM_SHARES, leaf_sections, skim_sections
from summarizing_context.summarizers.extractive.topics import excerpt_about, key_lines, lines_about

_MOST_LINES = 3

_MOST_TRIED = 4  # bullets of one section

_LEAST = 6  # tokens for which another bullet is worth a try

_AT_HEADING = re.compile(r"^(?=## )", re.MULTILINE)

_SHARES = {f"## {name}": share for name, share in zip(NAMES, ROLLUP, strict=True)}  # by heading


def brief_sections(summary: str, max_tokens: int, count: Count) -> str:
    """A brief of at most `max_tokens`: one line for each of the most important sections that fit."""
    sections = read_sections(summary)
    lines: list[str] = []
    left = max_tokens
    for section in PRIORITY:
        if len(lines) == _MOST_LINES or left < _LEAST:
            break
        line, left = _section_line(section, _by_importance(sections, section), left, count)
        if line:
            lines.append(line)
    while lines and count("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines) if lines else _best(sections, summary, max_tokens, count)


def _by_importance(sections: Sections, section: int) -> list[str]:
    return [line.text for line in sections[section]][::-1][:_MOST_TRIED]


def _section_line(section: int, texts: list[str], left: int, count: Count) -> tuple[str, int]:
    line = f"{NAMES[section]}:"
    for text in texts:
        cost = count(f"{line} {text}\n" if line.endswith(":") else f" · {text}")
        if cost <= left:
            line += f" {text}" if line.endswith(":") else f" · {text}"
            left -= cost
    return ("" if line.endswith(":") else line), left


def _best(sections: Sections, summary: str, max_tokens: int, count: Count) -> str:
    texts = [text for section in PRIORITY for text in _by_importance(sections, section)[:1]]
    return shorten(texts[0] if texts else nothing_readable(summary)[0].text, max_tokens, count)


RECIPE = "extractive/v9"  # another name whenever the same content would give other bytes


def summarize_extractively(
    content: str,
    *,
    kind: Literal["segment", "rollup"] = "segment",
    max_tokens: int,
    count: Callable[[str], int],
    yield_now: YieldNow = never_yield,
) -> str:
    """The summary of a job's content in the fixed sections, at most `max_tokens` (at least 1) by `count`.

    All of `content` is read; `yield_now` is called all along. The result is empty only where `content` is.
    """
    if not content:
        return ""
    if kind == "rollup":
        merged = rollup_sections(content, max_tokens, count, yield_now)
        return fit(merged, ROLLUP, max_tokens, count, strict=STRICT_SHARE)
    sections = leaf_sections(content, yield_now)
    return fit(sections, LEAF, max_tokens, count, strict=STRICT_SHARE)


def skim(content: str, *, max_tokens: int, count: Callable[[str], int]) -> str:
    """A small summary by plain searches over the whole content, for many segments at once."""
    return fit(skim_sections(content), SKIM_SHARES, max_tokens, count) if content else ""


def brief_of(content_or_summary: str, *, max_tokens: int = 60, count: Callable[[str], int]) -> str:
    """One to three lines with the most important of a summary, or of a short segment that is its own summary."""
    if not content_or_summary:
        return ""
    text = content_or_summary
    if is_rendered(text):
        text = fit(skim_sections(text), SKIM_SHARES, 4 * max_tokens, count)
    return brief_sections(text, max_tokens, count)


def cut_to(summary: str, *, max_tokens: int, count: Callable[[str], int]) -> str:
    """A summary without the last lines of those sections that take most for their share; a brief where none is left."""
    parts = [part.rstrip("\n").split("\n") for part in _AT_HEADING.split(summary)]
    shares = [_SHARES.get(part[0], min(ROLLUP)) for part in parts]
    costs = [[count(f"{line}\n") for line in part] for part in parts]
    while any(len(part) > 1 for part in parts):
        text = "\n\n".join("\n".join(part) for part in parts if len(part) > 1)
        if count(text) <= max_tokens:
            return text
        at = max(range(len(parts)), key=lambda at: sum(costs[at][1:]) / shares[at])
        parts[at].pop()
        costs[at].pop()
    return brief_of(summary, max_tokens=max_tokens, count=count)


class ExtractiveSummarizer:
    """Summarizes one job at a time in a worker thread, which it closes: a given one, or one of its own.

    Nothing limits it: it is always ready, and calls nobody.
    """

    def __init__(
        self,
        *,
        count: Callable[[str], int],
        thread: WorkerThread | None = None,
    ) -> None:
        self.recipe = RECIPE
        self._count = count
        self._thread = WorkerThread("extractive") if thread is None else thread
        self._closed = False

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        if self._closed:
            raise SummarizerError("the extractive summarizer is closed; open a new context to summarize again")
        text = await self._thread.run(lambda: self._run(job))
        return SummaryReply(text, input_tokens=0, output_tokens=0)

    def ready_in(self) -> float:
        return 0.0

    def statistics(self) -> CallStatistics:
        return NO_CALLS

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
            yield_now=self._thread.yield_now,
        )


LinesAbout = Callable[[str, str, int], str]  # what a content says about a topic, in so many tokens


class Extract(Protocol):
    """The extractive pass over a rendered content; reads all of it. A background thread calls `yield_now` meanwhile."""

    def __call__(self, content: str, *, kind: str, max_tokens: int, yield_now: YieldNow = ...) -> str: ...


class Extracts(NamedTuple):
    """The extractive passes of a session, with every summarizer: thorough, quick, making a summary short, or as
    short as it has to be; about a topic, to be shown and to be read on. Sizes are estimated tokens."""

    thorough: Extract
    skim: Callable[[str, int], str]
    brief: Callable[[str, int], str]
    cut: Callable[[str, int], str]
    key_lines: Callable[[str, int], Sequence[str]]  # of a text that a model does not get to read
    about: LinesAbout
    excerpt: LinesAbout


def make_extracts() -> Extracts:
    """The passes by these parameters."""

    def thorough(content: str, *, kind: str, max_tokens: int, yield_now: YieldNow = never_yield) -> str:
        made = partial(summarize_extractively, kind="rollup" if kind == "rollup" else "segment")
        return made(content, max_tokens=max_tokens, count=estimate_text, yield_now=yield_now)

    return Extracts(
        thorough,
        lambda content, most: skim(content, max_tokens=most, count=estimate_text),
        lambda text, most: brief_of(text, max_tokens=most, count=estimate_text),
        lambda text, most: cut_to(text, max_tokens=most, count=estimate_text),
        lambda text, most: key_lines(text, max_tokens=most, count=estimate_text),
        lambda content, topic, most: lines_about(content, topic, max_tokens=most, count=estimate_text),
        lambda content, topic, most: excerpt_about(content, topic, max_tokens=most, count=estimate_text),
    )
