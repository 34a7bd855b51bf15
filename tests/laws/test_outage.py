"""After an outage of ten minutes every gap is filled exactly once; meanwhile the breaker bounds the calls."""

from __future__ import annotations

from collections import Counter
from typing import Any

from summarizing_context import Settings, open_context

from .builders import count
from .judge import Judge
from .outage import BUDGET, MOST_CALLS, OPTIONS, Clock, outage
from .summarizers import Recovering


class Line(Recovering):
    """A model behind a line that can be cut: what was asked while it was cut is counted apart."""

    def __init__(self) -> None:
        super().__init__()
        self.well, self.lost = True, 0

    def cut(self, down: bool) -> None:
        self.well = not down

    async def answer(self, job: Any) -> str:
        self.lost += not self.well
        return await super().answer(job)


async def test_after_ten_minutes_every_gap_is_filled_exactly_once() -> None:
    line, clock = Line(), Clock()
    async with open_context(Settings(**OPTIONS), summarizer=line, count_tokens=count, clock=clock) as context:
        await outage(Judge(context, budget=BUDGET), clock, line.cut)
        segments = {(node.start, node.stop) for node in context.summaries()}
        assert context.unseen_tokens() == 0
    answered = Counter((job.kind, job.range_hash) for job in line.jobs)
    assert set(answered.values()) == {1}
    ranges = {(job.start, job.stop) for job in line.segments}
    assert segments <= ranges
    assert len(ranges - segments) <= 2  # pieces of the open segment, which compacting has covered
    assert any(job.kind == "rollup" for job in line.jobs)
    assert 4 <= line.lost <= MOST_CALLS
