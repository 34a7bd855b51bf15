"""within_budget: with system rows and 40 tokens there is a view, whatever the messages are made of, by any counter."""

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from summarizing_context import Settings, message_text_parts, open_context

from .amounts import ALL
from .builders import Message, assistant, count, system, user
from .checkers import prefix_problems, tool_safe_problems, view_tokens
from .many_parts import SHAPES, odd_log
from .shapes import THINKING_BLOCKS, blocks, canonical, plain_text

COUNTERS: dict[str, Callable[[str], int]] = {"quarter": count, "len": len, "words": lambda text: len(text.split())}
IMAGE_TOKENS = 1_600


def lawless(view: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """What a provider would refuse, beside calls without results: texts of nothing, and thinking that was cut."""
    problems = tool_safe_problems(view)
    thought = {canonical(b) for row in log for b in blocks(row) if b.get("type") in THINKING_BLOCKS}
    for at, row in enumerate(view):
        content = row.get("content")
        if not content and not row.get("tool_calls") and not row.get("refusal"):
            problems.append(f"row {at} is empty")
        for block in blocks(row):
            if block.get("type") in THINKING_BLOCKS and canonical(block) not in thought:
                problems.append(f"row {at} has thinking that is not the log's")
            if block.get("type") in ("text", "tool_result") and not plain_text(block):
                problems.append(f"row {at} has an empty block")
    return problems


def shows_newest(view: Sequence[Message], newest: Message) -> bool:
    """The last row is the newest message, or says that the newest calls and results are left out."""
    last = view[-1]
    if last["role"] == newest["role"]:
        return True
    return str(last["content"]).endswith("left out]") or "late_result" in str(last["content"]) or "…" in str(last)


EVERY = [(shape, counter) for shape in SHAPES for counter in COUNTERS]
MANY, SEVERAL = (200, 30) if ALL else (50, 12)
SOME = list(zip(SHAPES, itertools.cycle(COUNTERS)))  # each shape once, with one counter after the other


@pytest.mark.parametrize(("shape", "counter"), EVERY if ALL else SOME)
async def test_any_message_has_a_view_in_any_budget(shape: str, counter: str) -> None:
    counted = COUNTERS[counter]
    least = view_tokens([system("Be brief.")], counted, IMAGE_TOKENS, message_text_parts) + 40
    rng = random.Random(f"{shape} {counter}")
    for n, budget in ((1, least), (1, least + rng.randint(1, 60)), (SEVERAL, least), (SEVERAL, rng.randint(200, 900))):
        await drive(odd_log(shape, n), budget, counted)
    await drive(odd_log(shape, MANY), rng.choice([least, rng.randint(1_000, 20_000)]), counted)


async def drive(log: list[Message], budget: int, counted: Callable[[str], int]) -> None:
    """A view after some of the messages and after each of a few more, judged."""
    rows = [*log, assistant("fine"), user("next")]
    settings = Settings(max_tokens=budget, image_tokens=IMAGE_TOKENS)
    async with open_context(settings, count_tokens=counted) as context:
        before: list[Message] = []
        for at, row in enumerate(rows):
            await context.add_message(row)
            if 5 <= at < len(log) - 1 and at % 71:
                continue
            view = await context.get_messages_for_request()
            where = f"{at} of {len(rows)} rows, budget {budget}"
            assert view_tokens(view, counted, IMAGE_TOKENS, message_text_parts) <= budget, where
            assert lawless(view, rows[: at + 1]) == [], where
            assert shows_newest(view, row), where
            if context.last_view.activation is None:
                assert prefix_problems(before, view) == [], where
            before = view
