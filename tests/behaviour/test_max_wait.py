"""`max_wait`: an activation waits for the summaries that it would show stand-ins of, and holds up nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from summarizing_context import Settings
from tests.behaviour.contexts import Held, begun
from tests.laws.builders import session

ACTIVATIONS: dict[str, tuple[Callable[[Any], Awaitable[Any]], int, dict[str, Any]]] = {
    "messages": (lambda context: context.get_messages_for_request(), 40, {"max_messages": 20}),
    "tokens": (lambda context: context.get_messages_for_request(), 60, {"max_tokens": 1_500}),
    "summarize": (lambda context: context.summarize(5), 40, {}),
    "compress": (lambda context: context.compress(0.9), 40, {}),
    "focus": (lambda context: context.compact(focus="the port"), 40, {}),
}


@pytest.mark.parametrize(("ask", "messages", "settings"), ACTIVATIONS.values(), ids=ACTIVATIONS)
async def test_every_activation_waits_until_no_stand_in_is_shown(ask: Any, messages: int, settings: dict[str, Any]):
    given = {"summarizer": (model := Held()), "count_tokens": None, "idle_after": "never", "max_wait": 3_600}
    async with begun(session(messages=messages), of=Settings, token_counter="estimate", **given, **settings) as context:
        waiting = asyncio.ensure_future(ask(context))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not waiting.done()
        model.may_answer.set()
        await waiting
        figures = context.statistics()
        assert (figures.activations, figures.stand_ins, figures.stand_ins_total) == (1, 0, 0)
        assert "model" in {node.made_by for node in context.explain()}
