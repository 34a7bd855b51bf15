"""within_budget: with system rows and 40 tokens there is a view, whatever the messages are made of, by any counter.
The work for a view grows with what is in it, not faster: counted in calls, never timed."""

import itertools
import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from summarizing_context import Settings, message_text_parts, open_context

from .amounts import ALL
from .builders import Message, assistant, call, count, result, system, user
from .checkers import prefix_problems, tool_safe_problems, view_tokens
from .shapes import THINKING_BLOCKS, blocks, canonical, plain_text


def _texts(n: int) -> list[Message]:
    return [{"type": "text", "text": f"line {i} of the listing"} for i in range(n)]


def _result(id: str, content: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def odd_ends(n: int) -> dict[str, list[Message]]:
    """Of each shape, what ends a log with so many things of it."""
    ids = [f"c{i}" for i in range(n)]
    calls = call("anthropic", *((i, "ls", {}) for i in ids))
    fields = {f"k{i}": f"value {i}" for i in range(n)}
    thought = {"type": "thinking", "thinking": "so " * n, "signature": "s"}
    thinking = [thought, {"type": "redacted_thinking", "data": "x"}]
    function = {"function_call": {"name": "f" * n, "arguments": json.dumps(fields)}}
    listing = result("openai", "c", _texts(n))
    several = [*(_result(i, [*_texts(2), {"type": "image"}]) for i in ids), *_texts(n), "end", 7, None]
    return {
        "long type": [user("see") | {"type": "kind " * n}],
        "odd type": [user("see") | {"type": fields}],
        "loaded tools": [assistant("loaded") | {"metadata": {"openai:tool_search_items": _texts(n)}}],
        "text blocks": [user(_texts(n))],
        "bare strings": [user(["word"] * n)],
        "said blocks": [assistant(_texts(n))],
        "unknown blocks": [user([{"type": "weird", "n": i, "inner": [i]} for i in range(n)])],
        "images": [user([{"type": "image_url", "image_url": {"url": f"http://x/{i}"}} for i in range(n)])],
        "results of blocks": [call("openai", ("c", "ls", {})), listing],
        "result blocks": [call("anthropic", ("c", "ls", {})), user([_result("c", _texts(n))])],
        "one row of results": [calls, user([_result(i, f"line {i} of it") for i in ids])],
        "rows of results": [calls, *(user([_result(i, f"line {i} of it")]) for i in ids)],
        "results with words": [calls, *(user([_result(i, "ok"), {"type": "text", "text": f"on {i}"}]) for i in ids)],
        "calls in flight": [call("openai", *((i, "ls", {"path": "x"}) for i in ids))],
        "calls in flight as blocks": [calls],
        "system blocks": [system(_texts(n))],
        "argument fields": [call("anthropic", ("c", "ls", fields))],
        "argument keys": [call("anthropic", ("c", "ls", {"key" * n: 1, "other" * n: 2}))],
        "fields as text": [call("openai", ("c", "ls", fields))],
        "long names": [call("openai", ("c", "name" * n, {})), result("openai", "c", "ok")],
        "signed thinking": [{"role": "assistant", "content": [*thinking, *_texts(n), *calls["content"][:3]]}],
        "refusal and function call": [{"role": "assistant", "content": None, "refusal": "no " * n, **function}],
        "result without a call": [user([_result(i, f"line {i}") for i in ids])],
        "mixed": [calls, user(several)],
        "late results": [calls, user("never mind"), *(user([_result(i, f"line {i}")]) for i in ids[:40])],
        "reminders": [{**user(f"note {i}"), "ephemeral": True} for i in range(n)],
    }  # fmt: skip


def odd_log(shape: str, n: int) -> list[Message]:
    return [RULES, user("hi there"), assistant("hello"), *odd_ends(n)[shape]]


RULES = system("Be brief.")
COUNTERS: dict[str, Callable[[str], int]] = {"quarter": count, "len": len, "words": lambda text: len(text.split())}
IMAGE_TOKENS = 1_600


def lawless(view: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """What a provider would refuse, beside calls without results: texts of nothing, and thinking that was cut."""
    thought = {canonical(b) for row in log for b in blocks(row) if b.get("type") in THINKING_BLOCKS}
    problems = tool_safe_problems(view)
    problems += ["a row is empty" for row in view if not any(map(row.get, ("content", "tool_calls", "refusal")))]
    for block in (block for row in view for block in blocks(row)):
        if block.get("type") in THINKING_BLOCKS and canonical(block) not in thought:
            problems.append("thinking is not the log's")
        if block.get("type") in ("text", "tool_result") and not plain_text(block):
            problems.append("a block is empty")
    return problems


def shows_newest(view: Sequence[Message], newest: Message) -> bool:
    """The last row is the newest message, or says that the newest calls and results are left out."""
    said = str(view[-1]["content"])
    return view[-1]["role"] == newest["role"] or said.endswith("left out]") or "late_result" in said or "…" in said


MANY, SEVERAL = (200, 30) if ALL else (50, 12)
EVERY = itertools.product(odd_ends(1), COUNTERS)
SOME = zip(odd_ends(1), itertools.cycle(COUNTERS), strict=False)  # each shape once, with one counter after the other


@pytest.mark.parametrize(("shape", "counter"), [*(EVERY if ALL else SOME)])
async def test_any_message_has_a_view_in_any_budget(shape: str, counter: str) -> None:
    counted = COUNTERS[counter]
    least = view_tokens([RULES], counted, IMAGE_TOKENS, message_text_parts) + 40
    rng = random.Random(f"{shape} {counter}")
    large = rng.choice([least, rng.randint(1_000, 20_000)])
    cases = [(1, least), (1, least + rng.randint(1, 60)), (SEVERAL, least), (SEVERAL, rng.randint(200, 900))]
    for n, budget in [*cases, (MANY, large)]:
        await drive(odd_log(shape, n), budget, counted)


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


GROWTH = 2.6  # of what is done, when there is twice as much to do


async def steps_of(log: list[Message], seen: int = 0) -> int:
    """Functions that return in this thread while a view is made of a log, after a view behind each of the messages
    `seen`; cProfile counts other threads as well, from Python 3.12 on."""
    taken = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal taken
        taken += event in ("return", "c_return")

    async with open_context(Settings(max_tokens=500, strategy="truncate"), count_tokens=count) as context:
        for message in log[:seen]:
            await context.add_message(message)
            await context.get_messages_for_request()
        for message in log[seen:]:
            await context.add_message(message)
        sys.setprofile(note)
        try:
            assert await context.get_messages_for_request()
        finally:
            sys.setprofile(None)
    return taken


FEWEST = {"text blocks": 100, "rows of results": 50, "calls in flight": 100, "mixed": 30}


@pytest.mark.parametrize("shape", FEWEST)
async def test_twice_the_parts_take_about_twice_the_steps(shape: str) -> None:
    taken = [await steps_of(odd_log(shape, FEWEST[shape] * times)) for times in ((1, 2, 4) if ALL else (1, 2))]
    assert all(more <= GROWTH * less for less, more in itertools.pairwise(taken)), taken


async def test_what_came_since_the_last_view_is_not_read_where_the_next_one_cannot_show_it() -> None:
    few, many = [await steps_of([user(f"message {at} of a long import") for at in range(n)], 60) for n in (560, 1_060)]
    assert many - few < 40 * 500, (few, many)  # where it is read, about 150 a message
