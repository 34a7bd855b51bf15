"""no_storm: one message that cannot be made smaller never causes activation after activation."""

from __future__ import annotations

import random
from typing import Any

import pytest

from .builders import Message, assistant, call, count, result, session, user, words
from .judge import ECONOMY, SMALL, Judge, watched
from .summarizers import Counting, Failing

pytestmark = pytest.mark.anyio
BUDGET, MIN_FREE = 4_000, 0.12
NEARLY = words(random.Random(41), BUDGET * 95 // 100)


def forty() -> list[Message]:
    ids = [f"f{n}" for n in range(40)]
    each = words(random.Random(42), BUDGET * 95 // 100 // 40)
    return [call("openai", *((i, "read", {}) for i in ids)), *(result("openai", i, each) for i in ids)]


HUGE = {
    "user text": [user(NEARLY)],
    "blocks": [user([{"type": "text", "text": NEARLY[n : n + 1_500]} for n in range(0, len(NEARLY), 1_500)])],
    "argument": [call("openai", ("h", "write", {"text": NEARLY})), result("openai", "h", "ok")],
    "result": [call("openai", ("h", "read", {})), result("openai", "h", NEARLY)],
    "result block": [call("anthropic", ("h", "read", {})), result("anthropic", "h", NEARLY)],
    "forty results": forty(),
    "assistant text": [user("tell"), assistant(NEARLY)],
    "system row": [{"role": "system", "content": NEARLY}],
}


async def many_views(judge: Judge, views: int) -> float:
    """Views with a little text between them; the number of activations that this justifies."""
    tokens, judge.thorough = 0, 25
    for number in range(views):
        message = (user if number % 2 else assistant)(f"step {number}")
        tokens += 4 + count(message["content"])
        await judge.add(message)
        await judge.view()
    return tokens / (MIN_FREE * BUDGET) + 1


@pytest.mark.parametrize(
    ("kind", "summarizer", "sizes"),
    [*((kind, one, SMALL) for kind in sorted(HUGE) for one in (Counting, Failing)), ("result", Counting, ECONOMY)],
)
async def test_a_huge_message_causes_no_storm_of_activations(
    kind: str, summarizer: type[Counting], sizes: dict[str, Any]
) -> None:
    async with watched(summarizer(), budget=BUDGET, **sizes) as judge:
        await judge.add(*session(43, 60))
        await judge.view()
        await judge.add(*HUGE[kind])
        await judge.view()
        before = judge.activations
        allowed = await many_views(judge, 300)
        assert judge.activations - before <= allowed
        assert judge.activations > 0


@pytest.mark.parametrize("kind", ["user text", "blocks", "result"])
async def test_a_thousand_views_after_a_huge_first_message(kind: str) -> None:
    """A delegated session: its only human message is the huge one."""
    async with watched(Counting(), budget=BUDGET) as judge:
        await judge.add(*HUGE[kind])
        await judge.view()
        allowed = await many_views(judge, 1_000)
        assert 0 < judge.activations <= allowed


async def test_views_without_new_messages_never_activate_again() -> None:
    async with watched(Failing(), budget=BUDGET) as judge:
        await judge.add(*session(44, 100), *HUGE["user text"])
        await judge.view()
        before = judge.activations
        first = await judge.view()
        for _ in range(200):
            assert await judge.view() == first
        assert judge.activations <= before + 1
