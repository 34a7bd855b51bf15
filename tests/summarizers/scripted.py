"""Builders for the tests of the resilient summarizer: a clock that tests turn, jobs, and scripted summarizers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel

from summarizing_context import Settings
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.resilience import ResilientSummarizer
from tests.behaviour.contexts import Clock

SECRET = "the launch code is 0000"
STEPS = "\n".join(f"step {i} done" for i in range(300))
CONTENT = f"### user\nPlease fix the build in a.py, {SECRET}.\n### assistant\n{STEPS}"
GOOD = "## Done\n- The build was fixed in a.py."

Step = object | BaseException | Callable[[SummaryJob], Awaitable[object]]


class SleepingClock(Clock):
    """Time moves only when a test, or `sleep`, moves it."""

    def __init__(self) -> None:
        super().__init__(1_000.0)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await anyio.lowlevel.checkpoint()


@dataclass
class ScriptedSummarizer:
    """Answers each call with the next step, the last one for ever: what to reply, to raise, or to await."""

    steps: list[Step]
    asked: list[SummaryJob] = field(default_factory=list)

    async def summarize(self, job: SummaryJob) -> Any:
        step = self.steps[min(len(self.asked), len(self.steps) - 1)]
        self.asked.append(job)
        if isinstance(step, BaseException):
            raise step
        return await step(job) if callable(step) else step


def job(**changes: Any) -> SummaryJob:
    plain = SummaryJob(
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
    return replace(plain, **changes)


def resilient(*steps: Step, **limits: Any) -> tuple[ResilientSummarizer, ScriptedSummarizer, SleepingClock]:
    """A resilient summarizer around a scripted one, with its clock."""
    inner, clock = ScriptedSummarizer(list(steps)), SleepingClock()
    outer = ResilientSummarizer(inner, settings=Settings(**limits), clock=clock, sleep=clock.sleep)
    return outer, inner, clock


async def never(_: SummaryJob) -> str:
    await anyio.sleep_forever()
    raise AssertionError("not reached")
