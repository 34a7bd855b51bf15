"""no_storm: after one message that cannot be made smaller few of fifty requests, or of a thousand, are activations."""

import random

import pytest

from .amounts import REQUESTS
from .builders import Message, assistant, call, count, result, session, system, user, words
from .judge import watched
from .summarizers import Counting, Failing
from .test_tail_is_untouched import huge

BUDGET, MIN_FREE = 4_000, 0.12
NEARLY = words(random.Random(41), BUDGET * 95 // 100)


def forty() -> list[Message]:
    ids = [f"f{n}" for n in range(40)]
    each = words(random.Random(42), BUDGET * 95 // 100 // 40)
    return [call("openai", *((i, "read", {}) for i in ids)), *(result("openai", i, each) for i in ids)]


PLACES = ("user", "blocks", "argument-openai", "result-openai", "result-anthropic")
HUGE = {
    **{place: huge(place, NEARLY) for place in PLACES},
    "forty results": forty(),
    "assistant": [user("tell"), assistant(NEARLY)],
    "system": [system(NEARLY)],
}
OTHERS = [("argument-openai", "truncate"), ("forty results", "summarize"), ("user", "truncate")]


@pytest.mark.parametrize(("kind", "strategy"), [*((kind, "hierarchical") for kind in sorted(HUGE)), *OTHERS])
async def test_many_requests_after_a_huge_message_cause_no_storm(kind: str, strategy: str) -> None:
    summarizer = Failing() if strategy == "hierarchical" else Counting()
    async with watched(summarizer, budget=BUDGET, strategy=strategy) as judge:
        await judge.add(*session(43, 60))
        await judge.view()
        await judge.add(*HUGE[kind])
        await judge.view()
        before, tokens, judge.thorough = judge.context.statistics().activations, 0, 10
        first = await judge.view()
        for _ in range(50):  # without a new message
            assert await judge.context.get_messages_for_request() == first
        for number in range(REQUESTS):  # with a little text between them; some are judged
            message = (user if number % 2 else assistant)(f"step {number}")
            tokens += 4 + count(message["content"])
            await judge.add(message)
            if number % 50 == 0:
                await judge.view()
            await judge.context.get_messages_for_request()
            assert judge.context.last_view.tokens <= BUDGET
        assert 0 < before >= judge.context.statistics().activations - tokens / (MIN_FREE * BUDGET) - 1
