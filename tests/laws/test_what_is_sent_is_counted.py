"""within_budget, for messages of every shape: each string that a provider is sent counts, in whatever field."""

import json
from functools import cache, lru_cache
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.exact_counts import exact_counter

from .builders import Message, user
from .builders import count as quarter
from .judge import SMALL
from .odd_shapes import is_of_the_frame, odd_log, sent
from .summarizers import Counting


@cache
def counter(name: str) -> Any:
    """A counter that counts each text once: one view after the other holds the same."""
    return lru_cache(maxsize=20_000)(quarter if name == "quarter" else exact_counter().count)


def recount(view: list[Message], count: Any) -> int:
    """The larger of two counts: each text and 4 a message; each string value there is. Beside them, all long lists."""
    found = [*sent(view)]
    strings = [(field, value) for field, value in found if isinstance(value, str)]
    texts = sum(count(text) for field, text in strings if not is_of_the_frame(field, text))
    lists = sum(count(json.dumps(value, separators=(",", ":"))) for _, value in found if isinstance(value, list))
    return max(4 * len(view) + texts, sum(count(text) for _, text in strings)) + lists


@pytest.mark.parametrize(
    ("name", "seed", "size", "budget"),
    [("quarter", 1, 60, 4_000), ("tiktoken", 2, 400, 4_000), ("tiktoken", 3, 25, 1_200), ("quarter", 4, 900, 16_000)],
)
async def test_no_view_of_odd_messages_is_over_its_budget(name: str, seed: int, size: int, budget: int) -> None:
    count, views, log = counter(name), 0, odd_log(seed, 26, size)
    async with open_context(Settings(max_tokens=budget, **SMALL), summarizer=Counting(), count_tokens=count) as context:
        for message in log:
            await context.add_message(message)
            if message["role"] != "assistant":
                await context.wait_idle()
                view = await context.get_messages_for_request()
                assert recount(view, count) <= budget
                views += 1
        assert views > 10
        assert context.statistics().activations > 1
        assert await context.get_messages() == log


async def test_what_a_model_can_read_in_an_odd_field_is_given_to_the_summarizer() -> None:
    marks = [f"MARK{number:03d}" for number in range(40)]
    summarizer = Counting()
    settings = Settings(max_tokens=2_000, summarize_thinking=True, **SMALL)
    async with open_context(settings, summarizer=summarizer) as context:
        for number, mark in enumerate(marks):
            text = f"{mark} " + "and so on " * 40
            shape = [
                {"reasoning": text},
                {"reasoning_details": [{"type": "reasoning.text", "text": text}]},
                {"annotations": [{"quoted": text}]},
                {"content": [{"type": "text", "text": "yes", "citations": [{"cited_text": text}]}]},
            ][number % 4]
            await context.add_message(user("go on"))
            await context.add_message({"role": "assistant", "content": "done"} | shape)
            await context.get_messages_for_request()
        await context.wait_idle()
        seen = "".join(job.content for job in summarizer.segments)
    assert all(mark in seen for mark in marks[:30])
