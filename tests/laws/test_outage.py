"""After an outage of ten minutes every gap is filled exactly once; meanwhile the breaker bounds the calls."""

from collections import Counter
from typing import Any

from tests.behaviour.contexts import Clock

from .builders import session
from .judge import watched
from .summarizers import Counting

MINUTES, STEP = 10, 3.0  # of the outage; seconds from one message to the next
COOLDOWN, FAILURES, CONCURRENCY = 30.0, 4, 4
OPTIONS: dict[str, Any] = {
    "breaker_failures": FAILURES, "breaker_cooldown": COOLDOWN, "concurrency": CONCURRENCY, "idle_after": "never",
    "attempts": 1,  # more would wait in real seconds
}  # fmt: skip
MOST_CALLS = FAILURES + CONCURRENCY + MINUTES * 60 / COOLDOWN + 1  # to open the breaker, and a probe a cooldown


class Line(Counting):
    """A model behind a line that can be cut: what was asked while it was cut is counted apart."""

    is_cut, lost = False, 0

    async def answer(self, job: Any) -> str:
        if self.is_cut:
            self.lost += 1
            raise RuntimeError("the model is out")
        return await super().answer(job)


async def test_after_ten_minutes_every_gap_is_filled_exactly_once() -> None:
    line, clock, during = Line(), Clock(1_000.0), int(MINUTES * 60 / STEP)
    async with watched(line, budget=2_000, clock=clock, **OPTIONS) as judge:
        judge.thorough, log = 10, session(81, 480, size=40)

        async def live(start: int, stop: int) -> Any:
            for message in log[start:stop]:
                clock.time += STEP
                await judge.add(message)
                await judge.view()
                await judge.context.wait_idle(120)
            return judge.context.statistics()

        before = await live(0, 120)
        assert before.summaries_pending == before.stand_ins == 0
        assert before.segments > 3
        line.is_cut = True
        broken = await live(120, 120 + during)
        assert broken.breaker in ("open", "half_open")
        assert broken.stand_ins > 0
        assert broken.summaries_pending > 5
        line.is_cut = False
        await live(120 + during, len(log))

        # Every gap is filled, and what stood in for the model is gone with the next activation.
        clock.time += COOLDOWN
        for compacts in (False, True, True):  # the first may cover a piece of the open segment, to be summarized then
            if compacts:
                await judge.context.compact()
            await judge.view()
            await judge.context.wait_idle(120)
        after = judge.context.statistics()
        assert (after.breaker, after.summaries_pending, after.stand_ins) == ("closed", 0, 0)
        assert after.summaries_ready == after.segments > 20
        assert judge.covered > 300
        assert judge.refused == 0
        await judge.check_log()
        segments = {(node.start, node.stop) for node in judge.context.summaries()}
        assert judge.context.unseen_tokens() == 0
    answered = Counter((job.kind, job.range_hash) for job in line.jobs)
    assert set(answered.values()) == {1}
    ranges = {(job.start, job.stop) for job in line.segments}
    assert segments <= ranges
    assert len(ranges - segments) <= 2  # pieces of the open segment, which compacting has covered
    assert any(job.kind == "rollup" for job in line.jobs)
    assert 4 <= line.lost <= MOST_CALLS
