"""nothing_unseen: what has left the raw tail was given whole to a summarizer. A marker stands every 40 characters."""

from __future__ import annotations

import random
import re

import pytest

from .builders import DIALECTS, Message, assistant, call, marked, result, session, user
from .judge import Judge, watched
from .shapes import canonical
from .summarizers import Counting, Sleeping

pytestmark = pytest.mark.anyio


class Markers:
    """Writes marked messages and remembers in which log entry each marker is."""

    def __init__(self, seed: int, dialect: str) -> None:
        self.rng, self.dialect = random.Random(seed), dialect
        self.entry: dict[str, int] = {}
        self.calls = 0

    def text(self, entry: int, tokens: int) -> str:
        text, marks = marked(len(self.entry), tokens)
        self.entry.update(dict.fromkeys(marks, entry))
        return text

    def turn(self, entry: int) -> list[Message]:
        """An ask, a call with marked arguments, results (now and then a very long one), an answer."""
        self.calls += 1
        sizes = [self.rng.randint(20, 120) for _ in range(4)]
        long = self.rng.choice((60, 60, 60, 3_000))
        a, b = f"c{self.calls}a", f"c{self.calls}b"
        made = call(
            self.dialect,
            (a, "edit", {"path": "x.py", "text": self.text(entry + 1, sizes[1])}),
            (b, "read", {"path": "y.py"}),
        )
        return [
            user(self.text(entry, sizes[0])),
            made,
            result(self.dialect, a, self.text(entry + 2, long)),
            result(self.dialect, b, self.text(entry + 3, sizes[2])),
            assistant(self.text(entry + 4, sizes[3])),
        ]


def found(text: str) -> set[str]:
    return set(re.findall(r"mk\d{7}x", text))


async def unseen(judge: Judge, markers: Markers, summarizer: Counting) -> set[str]:
    """Markers of closed segments that no summarizer read; judged after the worker came to rest."""
    await judge.context.wait_idle()
    view = await judge.view()
    frontier = max((job.stop for job in summarizer.segments), default=0)
    read = found(summarizer.contents) | found(canonical(view))
    return {mark for mark, entry in markers.entry.items() if entry < frontier and mark not in read}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_marker_that_left_the_view_was_read_by_a_summarizer(dialect: str) -> None:
    summarizer, markers = Counting(), Markers(27, dialect)
    async with watched(summarizer, budget=4_000) as judge:
        for _ in range(60):
            await judge.add(*markers.turn(len(judge.log)))
            assert await unseen(judge, markers, summarizer) == set()
        gone = set(markers.entry) - found(canonical(judge.last))
        assert len(gone) > 2_000
        await judge.add(*session(28, 60, rules="", size=100))  # closes the last segment that holds markers
        await judge.context.wait_idle()
        assert set(markers.entry) - found(summarizer.contents) - found(canonical(await judge.view())) == set()
        assert judge.activations > 5
        assert judge.repairs["shrunk"] > 0


async def test_what_was_covered_before_its_summary_is_read_later_all_the_same() -> None:
    summarizer, markers = Counting(), Markers(29, "openai")
    async with watched(summarizer, budget=4_000) as judge:
        for _ in range(60):
            await judge.add(*markers.turn(len(judge.log)))
            await judge.view()  # live: the worker gets no time of its own
        await judge.add(*session(30, 60, rules="", size=100))
        await judge.context.wait_idle()
        assert set(markers.entry) - found(summarizer.contents) - found(canonical(await judge.view())) == set()
        assert judge.activations > 5


async def test_with_a_dead_summarizer_stand_ins_cover_what_no_model_read() -> None:
    summarizer, markers = Sleeping(), Markers(31, "anthropic")
    async with watched(summarizer, budget=4_000) as judge:
        for _ in range(40):
            await judge.add(*markers.turn(len(judge.log)))
            await judge.view()
        statistics = judge.context.statistics()
        assert statistics.stand_ins > 0
        assert statistics.stand_ins_total >= statistics.stand_ins
        assert judge.covered > 50


async def test_a_job_holds_its_whole_range_and_ranges_have_no_gap() -> None:
    summarizer = Counting()
    async with watched(summarizer, budget=3_000) as judge:
        await judge.add(*session(32, 300))
        await judge.view()
        await judge.context.wait_idle()
        ranges = sorted({(job.start, job.stop) for job in summarizer.segments})
        assert len(ranges) > 10
        place = 1  # the leading system row is in no segment
        for start, stop in ranges:
            assert start <= place <= stop  # leaves of one large group may tell the same range
            place = max(place, stop)
        assert place > 200
        for job in summarizer.jobs:
            assert job.prompt == f"{job.instructions}\n\n{job.content}"
            assert job.source_tokens > 0
            assert job.max_tokens > 0
