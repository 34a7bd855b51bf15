"""Summaries in views: made before they are shown where there is room or `max_wait`; the header of a long session."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour import contexts
from tests.behaviour.contexts import Held, Wordy, said, tiny
from tests.laws.builders import Message, count, session
from tests.laws.summarizers import Counting, Failing

begun = partial(contexts.begun, idle_after="never")
long = partial(begun, of=tiny, max_tokens=(BUDGET := 2_500), count_tokens=None)
CAP = 150


async def headers(context: SummarizingContext, log: Iterable[Message], *, every: int = 1) -> list[list[Any]]:
    """Add messages, with a settled view after each so many: the headers of those that activated."""
    found = []
    for at, message in enumerate(log, 1):
        await context.add_message(message)
        if at % every == 0:
            assert await context.wait_idle(60) or context.statistics().breaker == "open"
            segments = context.statistics().segments
            context.should_compress()
            assert context.statistics().segments == segments, "to ask whether it would activate closes none"
            if (await context.next_view()).activation is not None:
                found.append(context.explain())
    return found


async def test_a_model_has_summarized_what_a_view_covers_and_it_is_shown_whole():
    """A segment for which a view has no room ends early; steps may fill a large part of it."""
    sizes = {"segment_min": 3_000, "segment_target": 3_500, "segment_max": 4_000, "summary_max_tokens": CAP}
    log = (said(at, " ".join(f"word{at * 31 + word}" for word in range(12))) for at in range(300))
    async with begun(summarizer=(model := Wordy("model/1", 4.4)), **sizes) as context:
        newest = [header[-1] for header in await headers(context, log, every=2)]
    assert len(newest) > 5
    assert {node.made_by for node in newest} == {"model"}
    assert max(count(node.text) for node in newest) > CAP  # as long as the model wrote it
    contents = [job.content for job in model.segments]
    assert len(contents) == len(set(contents))
    async with begun(max_tokens=1_500, summarizer=Counting("model/1")) as context:
        found = await headers(context, (said(at, f"word{at} " * 110) for at in range(120)))
    shown = [node.made_by for header in found for node in header]
    assert (len(shown) > 20, set(shown)) == (True, {"model"})


async def test_a_view_goes_on_in_the_room_above_its_high_water_while_a_summary_is_missing():
    async with begun(summarizer=(model := Held("held/1"))) as context:
        for at in range(200):
            await context.add_message(said(at, "some words " * 12))
            view = await context.next_view()
            if model.may_answer.is_set():
                break
            if view.tokens > 0.92 * 2_000:
                assert view.activation is None
                model.may_answer.set()
                assert await context.wait_idle(60)
        assert view.activation.reason == "high_water"
        assert {node.made_by for node in context.explain()} == {"model"}


ACTIVATIONS: dict[str, tuple[Callable[[Any], Awaitable[Any]], int, dict[str, Any]]] = {
    "messages": (lambda context: context.get_messages_for_request(), 40, {"max_messages": 20}),
    "tokens": (lambda context: context.get_messages_for_request(), 60, {"max_tokens": 1_500}),
    "summarize": (lambda context: context.summarize(5), 40, {}),
    "compress": (lambda context: context.compress(0.9), 40, {}),
    "focus": (lambda context: context.compact(focus="the port"), 40, {}),
}


@pytest.mark.parametrize(("ask", "messages", "settings"), ACTIVATIONS.values(), ids=ACTIVATIONS)
async def test_every_activation_waits_until_no_stand_in_is_shown(ask: Any, messages: int, settings: dict[str, Any]):
    given = {"of": Settings, "count_tokens": None, "max_wait": 3_600, **settings}
    async with begun(session(messages=messages), summarizer=(model := Held()), **given) as context:
        waiting = asyncio.ensure_future(ask(context))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        model.may_answer.set()
        await waiting
        figures = context.statistics()
        assert (figures.activations, figures.stand_ins, figures.stand_ins_total) == (1, 0, 0)
        assert "model" in {node.made_by for node in context.explain()}


# The header of a long session: one wide merge of the old segments, merges of four, then each newest one by itself.


def tokens(header: list[Any]) -> int:
    return sum(node.tokens for node in header)


async def test_after_two_hundred_segments_the_older_ones_are_merged_and_the_newest_stand_by_themselves():
    async with long(summarizer=(summarizer := Counting("counting/1"))) as context:
        found, moves = await headers(context, session(5, 1_100), every=10), 0
        figures = context.statistics()
    assert figures.segments >= 200
    for before, after in pairwise(found):
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
    async with long(breaker_cooldown=1e4, breaker_failures=1, attempts=1, summarizer=Failing()) as context:
        found = await headers(context, session(5, 500), every=10)
    assert found[-1][0].segments > 16
    assert {node.made_by for node in found[-1]} == {"stand-in"}
    assert max(map(tokens, found)) <= 0.5 * BUDGET


async def test_another_budget_costs_no_summary_anew(tmp_path: Path):
    large = Settings(max_tokens=100_000, start_at=0.001, store=tmp_path / "run.db", token_counter="estimate")
    first, again = Counting("counting/1"), Counting("counting/1")
    for settings, summarizer in ((large, first), (replace(large, max_tokens=8_000), again)):
        async with open_context(settings, summarizer=summarizer) as context:
            await context.set_messages(session(seed=8, messages=400))
            await context.get_messages_for_request()
            assert await context.wait_idle(60)
    assert (len(first.segments) > 3, again.segments) == (True, [])
