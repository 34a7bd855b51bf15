"""Summaries that are asked for are made by the model, also of a past that fills no segment."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from summarizing_context import (
    ActivationReport,
    Settings,
    SummarizingContext,
    SummaryJob,
    open_context,
)
from tests.laws.builders import Message, assistant, count, session, user


class Model:
    """Summarizes each job in a line that names its place, and remembers it; it finds no rules."""

    recipe = "model/1"

    def __init__(self) -> None:
        self.jobs: list[SummaryJob] = []

    async def summarize(self, job: SummaryJob) -> str:
        return "none" if job.kind == "rules" else await self.answer(job)

    async def answer(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        return f"- what the model says of {job.start} to {job.stop}"


def small_talk(messages: int = 60) -> list[Message]:
    """Messages of about 17 tokens."""
    say = [user, assistant]
    return [say[n % 2](f"Small talk number {n}: nice weather today, is it not?") for n in range(messages)]


async def fill(context: SummarizingContext, log: list[Message]) -> None:
    for message in log:
        await context.add_message(message)


def makers(context: SummarizingContext) -> list[str]:
    return [node.made_by for node in context.explain()]


@pytest.mark.parametrize("messages", [24, 60, 300])
async def test_summarizing_on_demand_uses_the_model(messages: int):
    model = Model()
    async with open_context(Settings(), summarizer=model) as context:
        await fill(context, small_talk(messages))
        assert (await context.summarize()).activated
        assert model.jobs == []  # the caller did not wait for it
        assert context.statistics().stand_ins == len(makers(context)) > 0
        assert await context.wait_idle(120)
        assert (await context.summarize()).activated  # asked again, it is shown
        assert set(makers(context)) == {"model"}
        assert context.statistics().stand_ins == 0
        assert not (await context.summarize()).activated
        shown = str(await context.get_messages_for_request())
        assert "what the model says of 0 to" in shown


Ask = Callable[[SummarizingContext], Awaitable[ActivationReport]]
ASKED: list[Ask] = [
    lambda context: context.summarize(),
    lambda context: context.summarize(3),
    lambda context: context.summarize(25),
    lambda context: context.compact(),
    lambda context: context.make_space(7_000),
]


def prose(seed: int) -> list[Message]:
    """Between 25 and 120 messages of various lengths."""
    rng, words = (
        random.Random(seed),
        ["harbour", "boat", "sails", "tomorrow", "wind", "and", "rain", "under", "bridges"],
    )
    most, say = rng.choice([30, 90, 200]), [user, assistant]
    return [say[n % 2](" ".join(rng.choices(words, k=rng.randint(3, most)))) for n in range(rng.randint(25, 120))]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("ask", ASKED)
async def test_asked_again_no_stand_in_is_left_wherever_the_view_was_cut(ask: Ask, seed: int):
    model = Model()
    async with open_context(Settings(max_tokens=8_000), summarizer=model, count_tokens=count) as context:
        await fill(context, prose(seed))
        await ask(context)
        assert await context.wait_idle(120)
        await ask(context)
        assert context.statistics().stand_ins == 0
        assert await context.wait_idle(120)
        asked = len(model.jobs)
        assert not (await ask(context)).activated  # nothing was said since
        assert await context.wait_idle(120)
        assert len(model.jobs) == asked


@pytest.mark.parametrize("model", [None, Model()])
async def test_summarizing_never_makes_a_view_larger(model: Model | None):
    for seed in range(6):
        rng = random.Random(seed)
        async with open_context(Settings(), summarizer=model) as context:
            sizes = [rng.randint(1, 25) for _ in range(rng.randint(12, 40))]
            await fill(context, [(user, assistant)[n % 2]("sun " * size) for n, size in enumerate(sizes)])
            for keep in (10, 10, 4):
                await context.get_messages_for_request()
                before = context.last_view.tokens
                await context.summarize(keep)
                await context.get_messages_for_request()
                assert context.last_view.tokens <= before
                assert await context.wait_idle(120)


async def test_compacting_on_demand_uses_the_model():
    model = Model()
    async with open_context(Settings(max_tokens=8_000, start_at=1.0), summarizer=model, count_tokens=count) as context:
        await fill(context, session(3, 60))
        assert (await context.compact(focus="the port")).activated
        assert context.statistics().stand_ins
        for _ in range(4):
            assert await context.wait_idle(120)
            await context.compact()
        assert model.jobs
        assert {"stand-in", "provisional"}.isdisjoint(makers(context))


async def test_a_past_that_is_covered_for_its_age_is_summarized_by_the_model():
    now, model = [0.0], Model()
    settings = Settings(max_tokens=20_000, idle_after=300.0, start_at=1.0, low_water=0.05)
    async with open_context(settings, summarizer=model, clock=lambda: now[0]) as context:
        await fill(context, small_talk(500))
        await context.get_messages_for_request()
        now[0] = 301.0
        await context.get_messages_for_request()
        assert context.statistics().activations_by_reason == {"idle": 1}
        assert context.statistics().stand_ins > 0
        assert await context.wait_idle(120)
        assert model.jobs
        stop = context.explain()[-1].stop
        for _ in range(2):  # further pauses: the cache is cold, so what is ready by now is shown, once
            now[0] += 301.0
            asked = await context.should_compact()
            await context.get_messages_for_request()
            assert asked == (context.last_view.activation is not None)
            assert context.statistics().stand_ins == 0
            assert context.explain()[-1].stop == stop
        assert context.statistics().activations_by_reason == {"idle": 2}


@pytest.mark.parametrize("most", [20, 50])
async def test_a_count_of_messages_shows_a_models_summary_from_the_second_activation_on(most: int):
    model, seen = Model(), 0
    async with open_context(Settings(max_messages=most), summarizer=model) as context:
        for message in small_talk(200):
            await context.add_message(message)
            view = await context.get_messages_for_request()
            assert len(view) <= most
            await context.wait_idle(120)
            if context.statistics().activations > 1:
                seen += 1
                assert set(makers(context)) == {"model"}
                assert context.statistics().stand_ins == 0
        assert seen > most
        assert 0 < len(model.jobs) <= 200 / (most // 2) + context.statistics().segments


# asking whether it is time


@pytest.mark.parametrize(
    "changed",
    [
        {"max_messages": 20},
        {"max_messages": 9, "keep_recent": 4},
        {"max_tokens": 1_500},
        {"max_tokens": 2_000, "strategy": "truncate"},
        {
            "max_tokens": 6_000,
            "idle_after": 5.0,
            "low_water": 0.05,
            "segment_min": 200,
            "segment_target": 400,
            "summary_max_tokens": 40,
        },
    ],
)
async def test_asking_knows_every_reason_for_which_the_next_view_covers_more(changed: dict[str, Any]):
    now, covered = [0.0], 0
    async with open_context(Settings(**changed), clock=lambda: now[0], count_tokens=count) as context:
        for at, message in enumerate(session(5, 150)):
            await context.add_message(message)
            now[0] += 9.0 if at % 40 == 39 else 1.0
            before = [node.stop for node in context.explain()][-1:]
            figures = context.statistics()
            asked = await context.should_compact()
            assert context.should_compress() == asked
            assert context.statistics().activations == figures.activations
            await context.get_messages_for_request()
            after = [node.stop for node in context.explain()][-1:]
            assert asked == (after != before), at
            covered += asked
        assert covered > 1
