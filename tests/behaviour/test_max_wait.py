"""`max_wait`: an activation waits for the summaries that it would show stand-ins of, and holds up nothing else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour.contexts import fill
from tests.laws.builders import session
from tests.laws.summarizers import Counting


class Held(Counting):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def answer(self, job: Any) -> str:
        await self.may_answer.wait()
        return await super().answer(job)


@asynccontextmanager
async def filled(messages: int, **settings: Any) -> AsyncIterator[tuple[SummarizingContext, Held]]:
    model = Held()
    made = {"max_wait": 3_600, "token_counter": "estimate", "idle_after": "never", **settings}
    async with open_context(Settings(**made), summarizer=model) as context:
        await fill(context, session(messages=messages))
        yield context, model


async def turns(number: int = 100) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


Ask = Callable[[SummarizingContext], Awaitable[Any]]

ACTIVATIONS: dict[str, tuple[Ask, int, dict[str, Any]]] = {
    "messages": (lambda context: context.get_messages_for_request(), 40, {"max_messages": 20}),
    "tokens": (lambda context: context.get_messages_for_request(), 60, {"max_tokens": 1_500}),
    "summarize": (lambda context: context.summarize(5), 40, {}),
    "compress": (lambda context: context.compress(0.9), 40, {}),
    "focus": (lambda context: context.compact(focus="the port"), 40, {}),
}


@pytest.mark.parametrize(("ask", "messages", "settings"), ACTIVATIONS.values(), ids=ACTIVATIONS)
async def test_every_activation_waits_until_no_stand_in_is_shown(ask: Ask, messages: int, settings: dict[str, Any]):
    async with filled(messages, **settings) as (context, model):
        waiting = asyncio.ensure_future(ask(context))
        await turns()
        assert not waiting.done()
        model.may_answer.set()
        await waiting
        figures = context.statistics()
        assert (figures.activations, figures.stand_ins, figures.stand_ins_total) == (1, 0, 0)
        assert "model" in {node.made_by for node in context.explain()}
