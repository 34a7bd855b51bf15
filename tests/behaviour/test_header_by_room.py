"""The header is sized by the room that system rows leave, and fair by what its blocks stand for."""

import random
from typing import NamedTuple

import pytest

from summarizing_context import Settings, SummaryJob, open_context
from summarizing_context.log.tree import HeaderNode
from summarizing_context.testing import ScriptedSummarizer, default_summary

ROOMS = [  # a budget, the share of it that a system row takes, and segments
    (8_000, 0.0, 1), (8_000, 0.0, 40), (8_000, 0.7, 16), (8_000, 0.7, 40), (32_000, 0.0, 16), (32_000, 0.5, 40),
]  # fmt: skip
WORDS = ["boats", "carry", "bread", "along", "quiet", "rivers", "while", "early", "lamps", "shine", "over", "bridges"]


class Cell(NamedTuple):
    room: int  # tokens beside the system row
    merges: list[HeaderNode]
    leaves: list[HeaderNode]

    @property
    def merged(self) -> int:
        return sum(node.tokens for node in self.merges)

    @property
    def tokens(self) -> int:
        return self.merged + sum(node.tokens for node in self.leaves)

    @property
    def is_fair(self) -> bool:
        """What is merged stands whole, or it takes at least half, unless it stands for the smaller part."""
        if all(merge.form == "full" for merge in self.merges):
            return not self.merges or all(leaf.form == "full" for leaf in self.leaves)
        behind = sum(leaf.stop - leaf.start for leaf in self.leaves)
        return sum(merge.stop - merge.start for merge in self.merges) <= behind or 2 * self.merged >= 0.9 * self.tokens


def at_length(job: SummaryJob) -> str:
    """A summary of about the length that it may have."""
    dice = random.Random(job.range_hash)
    words = (dice.choice(WORDS) for _ in range(6 * (job.max_tokens // 12 - 5)))
    lines = (f"\n- {' '.join(six)}" for six in zip(*[words] * 6, strict=False))
    return default_summary(job) + ("".join(lines) if job.kind in ("segment", "rollup") else "")


async def cell(budget: int, system: float, segments: int) -> Cell:
    dice, fixed = random.Random(7), int(system * budget)
    settings = Settings(max_tokens=budget, idle_after="never", start_at=0.0)
    async with open_context(
        settings, summarizer=ScriptedSummarizer(at_length), count_tokens=lambda text: len(text) // 4
    ) as context:
        if fixed:
            await context.add_message({"role": "system", "content": "rule" * (fixed - 8)})
        number = 0
        while context.statistics().segments < segments:
            words = " ".join(f"word{dice.randrange(999)}" for _ in range(640))
            await context.add_message({"role": ("user", "assistant")[number % 2], "content": words})
            number += 1
        for _ in range(4):
            await context.wait_idle()
            await context.summarize(1)
        nodes = context.explain()
        merges = [node for node in nodes if node.segments > 1]
        return Cell(budget - fixed, merges, [node for node in nodes if node not in merges])


@pytest.mark.parametrize(("budget", "system", "segments"), ROOMS)
async def test_the_merge_keeps_its_share_in_any_room(budget: int, system: float, segments: int):
    found = await cell(budget, system, segments)
    assert found.is_fair
    assert found.tokens <= 0.55 * found.room
    assert len(found.leaves) + len(found.merges) > 0
    if segments >= 16 and found.room >= 4_000:
        assert found.tokens >= 0.11 * found.room, "no room stays empty beside what could be told"
