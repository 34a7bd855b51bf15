"""Virtual time: a clock that moves only when told, and a summarizer that answers when its time has come."""

from __future__ import annotations

import asyncio
import heapq

from anyio import to_thread

from evals.performance.simulation.workload import Texts
from summarizing_context import SummaryJob, SummaryReply
from summarizing_context.messages.estimate import estimate_text

_GLANCE = 0.0002  # real seconds
_TURNS = 40  # of the event loop, for what an answer sets going


class Clock:
    """Seconds that pass by `advance`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Event]] = []
        self._number = 0

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Until so much virtual time has passed."""
        self._number += 1
        event = asyncio.Event()
        heapq.heappush(self._waiting, (self._now + seconds, self._number, event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass; whoever waits for a moment on the way goes on at that moment."""
        end = self._now + seconds
        while self._waiting and self._waiting[0][0] <= end:
            self._now, _, event = heapq.heappop(self._waiting)
            event.set()
            await _turns(_TURNS)
        self._now = end
        await _turns(3)


class Summarizer:
    """Answers after a model's time, with a text of a model's length. It counts what it was given and gave."""

    def __init__(self, clock: Clock, ratio: int, seed: int) -> None:
        self._clock = clock
        self._ratio = ratio  # tokens of a segment for one of its summary
        self._texts = Texts(f"summaries {seed}")
        self._instructions: dict[str, int] = {}
        self.calls = self.input_tokens = self.output_tokens = self.content_tokens = 0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        wanted = job.source_tokens // self._ratio if job.rank == 0 else job.max_tokens
        tokens = 2 if job.kind == "rules" else max(20, min(wanted, job.max_tokens) - 10)
        fixed = self._instructions.setdefault(job.instructions, estimate_text(job.instructions))
        self.calls += 1
        self.content_tokens += job.source_tokens
        self.input_tokens += fixed + job.source_tokens
        self.output_tokens += tokens
        await self._clock.sleep(1.5 + tokens / 60)
        done = f"## Done\n- {job.start} to {job.stop}: "
        text = "none" if job.kind == "rules" else done + self._texts.text(tokens - 8)
        return SummaryReply(text, fixed + job.source_tokens, tokens)


async def _turns(count: int) -> None:
    """Turns of the loop after the last thread has ended: what is checked in one takes no virtual time."""
    threads = to_thread.current_default_thread_limiter()
    left = count
    while left:
        await asyncio.sleep(_GLANCE if threads.borrowed_tokens else 0)
        left = count if threads.borrowed_tokens else left - 1
