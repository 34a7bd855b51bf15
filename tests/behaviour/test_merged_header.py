"""The header of a long session: one wide merge of the old segments, merges of four, then each newest one by itself."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour.contexts import reason, tiny
from tests.laws.builders import session
from tests.laws.summarizers import Counting, Failing

BUDGET = 2_500
small = partial(tiny, max_tokens=BUDGET, idle_after="never")


async def feed(context: SummarizingContext, messages: int) -> list[list[Any]]:
    """A settled view after every tenth message; the headers of those that activated."""
    headers = []
    for at, message in enumerate(session(seed=5, messages=messages)):
        await context.add_message(message)
        if at % 10 == 9:
            assert await context.wait_idle(60) or context.statistics().breaker == "open"
            await context.get_messages_for_request()
            if reason(context):
                headers.append([node for node in context.explain() if node.node is not None])
    return headers


def tokens(header: list[Any]) -> int:
    return sum(node.tokens for node in header)


async def test_after_two_hundred_segments_the_older_ones_are_merged_and_the_newest_stand_by_themselves():
    async with open_context(small(), summarizer=(summarizer := Counting("counting/1"))) as context:
        headers, moves = await feed(context, 1_100), 0
        figures = context.statistics()
    assert figures.segments >= 200
    for before, after in pairwise(headers):
        moved = after[0].segments > max(before[0].segments, 1)
        moves += moved
        merges = [node for node in before if node.segments > 1]
        assert moved or after[: len(merges)] == merges, "the merges that were there stay as they are"
        widths = [node.segments for node in after[1:]]
        assert widths == sorted(widths, reverse=True)
        assert {4, 1}.issuperset(widths)
        assert tokens(after) <= 0.4 * BUDGET  # 0.36, and a little more while a merge is made
    assert moves > 2
    assert figures.stand_ins_total == 0
    assert figures.max_passes <= 4  # floor(log4 200) + 1
    calls = [job for job in summarizer.jobs if job.kind == "rollup"]
    assert len(calls) <= figures.segments / 4 + 2 * moves  # no more merges are paid than views show, about


async def test_without_a_summarizer_that_answers_the_header_stays_within_its_share():
    settings = small(breaker_cooldown=1e4, breaker_failures=1, attempts=1)
    async with open_context(settings, summarizer=Failing()) as context:
        headers = await feed(context, 500)
    assert headers[-1][0].segments > 16
    assert {node.made_by for node in headers[-1]} == {"stand-in"}
    assert max(map(tokens, headers)) <= 0.5 * BUDGET


async def test_another_budget_costs_no_summary_anew(tmp_path: Path):
    large = Settings(max_tokens=100_000, start_at=0.001, store=tmp_path / "run.db", token_counter="estimate")
    first, again = Counting("counting/1"), Counting("counting/1")
    for settings, summarizer in ((large, first), (replace(large, max_tokens=8_000), again)):
        async with open_context(settings, summarizer=summarizer) as context:
            await context.set_messages(session(seed=8, messages=400))
            await context.get_messages_for_request()
            assert await context.wait_idle(60)
    assert len(first.segments) > 3
    assert again.segments == []
