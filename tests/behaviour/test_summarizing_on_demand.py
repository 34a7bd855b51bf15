"""Summaries that are asked for are made by the model, also of a past that fills no segment."""

from __future__ import annotations

import pytest

from summarizing_context import (
    Settings,
    SummarizingContext,
    SummaryJob,
    open_context,
)
from tests.laws.builders import Message, assistant, user


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
