"""Summarizers for tests: one that counts, and one for each way to fail."""

import re
from typing import Any

import anyio

from summarizing_context.testing import range_name


def short_summary(job: Any) -> str:
    """A lawful summary of a handful of tokens that differs from job to job."""
    return f"## Done\n- part {range_name(job.range_hash)} of rank {job.rank}"


class Counting:
    """Keeps every job, and apart those for rules, of which it finds none. With a recipe its summaries are shared."""

    def __init__(self, recipe: str | None = None) -> None:
        if recipe is not None:
            self.recipe = recipe
        self.jobs: list[Any] = []
        self.rule_jobs: list[Any] = []

    async def summarize(self, job: Any) -> Any:
        if job.kind != "rules":
            return await self.answer(job)
        self.rule_jobs.append(job)
        return "none"

    @property
    def calls(self) -> int:
        return len(self.jobs)

    @property
    def segments(self) -> list[Any]:
        return [job for job in self.jobs if job.kind == "segment"]

    @property
    def contents(self) -> str:
        return "\n".join(job.content for job in self.jobs)

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        await anyio.lowlevel.checkpoint()
        return short_summary(job)


class Sleeping(Counting):
    """Never answers: it waits for an event that nobody sets."""

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        await anyio.Event().wait()
        raise AssertionError("nobody sets the event")


class Failing(Counting):
    """Raises, always."""

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        raise RuntimeError("the model is out")


class Provenance(Counting):
    """Says in each summary which markers its input held, as joined ranges, `mk0000003x..mk0000009x`, so that every
    literal is one of its source's; `passes n` is one more than the highest in the input."""

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        passes = 1 + max((int(n) for n in re.findall(r"passes (\d+)", job.content)), default=0)
        told = ", ".join(f"mk{a:07}x..mk{b:07}x" for a, b in joined(provenance(job.content)))
        return f"## Facts\n- passes {passes}, markers {told}"


def provenance(text: str) -> list[tuple[int, int]]:
    """Ranges of markers in a text, raw or told by a summary."""
    return [(int(a), int(b or a)) for a, b in re.findall(r"mk(\d{7})x(?:\.\.mk(\d{7})x)?", text)]


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few ranges as possible."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        first, last = out.pop() if out and low <= out[-1][1] + 1 else (low, high)
        out.append((first, max(last, high)))
    return out
