"""Summaries that are asked for are made by the model, also of a past that fills no segment."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from summarizing_context import (
    ActivationReport,
    Settings,
    SummarizingContext,
    SummaryJob,
    open_context,
)
from tests.laws.builders import Message, assistant, count, user


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
