"""within_budget, for messages of every shape: each string that a provider is sent counts, in whatever field."""

import json
import random
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.exact_counts import exact_counter

from .builders import Message, user
from .builders import count as quarter
from .judge import SMALL, watched
from .summarizers import Counting

# as the README says it
NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
IDS = frozenset({"id", "tool_call_id", "tool_use_id"})
FLAGS = frozenset({"role", "type", "name", "format", "media_type", "mimeType"})
FEW = 32  # numbers, flags and empty values that the framing pays for
BARE = (True, False, None, 0, 7, 0.25, "", [], {})
SENTENCE = "the parser reads a schema and keeps every row until the worker has written them to the table"


def words(rng: random.Random, size: int) -> str:
    kind = rng.random()
    if kind < 0.15:
        return "".join(rng.choices("ABCDEFGHIJKLMNOPabcdefghijklmnop0123456789+/", k=size * 4))
    if kind < 0.25:
        return "".join(rng.choices("数据库表行列读写", k=size))
    return " ".join(rng.choices(SENTENCE.split(), k=size))


def odd_value(rng: random.Random, size: int, depth: int = 0) -> Any:
    """A value that no shape knows."""
    if rng.random() < 0.1:
        return rng.choices(BARE, k=size * rng.choice((2, 20)))
    if depth > 2 or rng.random() < 0.4:
        return words(rng, size)
    inner = [odd_value(rng, max(1, size // 3), depth + 1) for _ in range(rng.randint(1, 3))]
    return inner if rng.random() < 0.4 else {f"field_{n}": value for n, value in enumerate(inner)}


DETAILS = [
    {"type": "reasoning.text", "text": "~", "signature": "~4", "format": "anthropic-claude-v1"},
    {"type": "reasoning.encrypted", "data": "~2", "id": "rs_1"},
    {"type": "reasoning.summary", "summary": "~3"},
]
THINKING: list[Message] = [  # as one host or another keeps it beside the content
    *({"reasoning": "~", "reasoning_details": [detail]} for detail in DETAILS),
    {"reasoning_details": DETAILS},
    {"reasoning_details": [{"type": "reasoning.text", "text": "~", "marks": "%"}]},
    {"reasoning": "~"},
    {"reasoning_content": "~", "thinking": "~1"},
    {"thinking_block": {"type": "thinking", "thinking": "~", "signature": "~3"}},
]
BLOCKS: list[Message] = [
    *({"type": kind, kind: "~", "citations": "%"} for kind in ("text", "refusal", "thinking", "output_text")),
    {"type": "output_text", "text": "~", "annotations": "%"},
    {"type": "thinking", "thinking": "~", "signature": "~2"},
    {"type": "redacted_thinking", "data": "~"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "~"}], "encrypted_content": "~"},
    {"type": "search_result", "source": "a", "content": [{"type": "text", "text": "~"}]},
    {"type": "container_upload", "payload": "%"},
]
SIGNED = {"google": {"thought_signature": "~"}}
FUNCTION = {"type": "function", "id": "#", "function": {"name": "read", "arguments": "~3"}, "extra_content": SIGNED}
USE = {"type": "tool_use", "id": "#", "name": "read", "input": {"path": "~3"}, "extra": "%"}
ROWS: list[Message] = [
    {"role": "user", "parts": [{"text": "~"}, {"inlineData": "%"}]},
    {"role": "user", "content": "~", "x_note": "%"},
    {"role": "assistant", "content": "~", "refusal": "~1"},
    *({"role": "assistant", "content": [one, other]} for one, other in pairwise(BLOCKS)),
    *({"role": "assistant", "content": None, "tool_calls": [FUNCTION]} | thinking for thinking in THINKING),
    *({"role": "assistant", "content": [block, USE]} for block in BLOCKS),
]


def odd_log(seed: int, size: int) -> list[Message]:
    """Messages of all shapes in any order. `~` is a text of a size, `~3` another of a third of it, `%` a value of any
    kind, `#` the id of a call."""
    rng, log = random.Random(seed), list[Message]()

    def filled(shape: Any) -> Any:
        if isinstance(shape, dict):
            return {name: filled(each) for name, each in shape.items()}
        if isinstance(shape, list):
            return [filled(each) for each in shape]
        if str(shape)[:1] == "~":
            return words(rng, size // int(shape[1:])) if shape[1:] else said
        return odd_value(rng, size) if shape == "%" else f"c{len(log)}" if shape == "#" else shape

    for shape in rng.sample(ROWS, len(ROWS)):
        said = words(rng, size)
        results: list[Message] = []
        if "tool_calls" in shape:
            results = [{"role": "tool", "tool_call_id": "#", "content": "~", "x_note": "%"}]
        elif USE in list(shape.get("content") or ()):
            answer = {"type": "tool_result", "tool_use_id": "#", "content": rng.sample(BLOCKS, 2), "extra": "%"}
            results = [{"role": "user", "content": [answer]}]
        log += filled([shape, *results])
        if rng.random() < 0.5:
            log[-1] |= {"metadata": {"note": words(rng, 1_000)}, "timestamp": "2026-11-20T10:00:00Z", "_seq": "7" * 900}
    return log


def sent(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Every string that is sent, and every long list of numbers, flags and nothing, with its field."""
    if isinstance(value, str) or (isinstance(value, list) and len(value) > FEW and all(one in BARE for one in value)):
        yield field, value
    elif isinstance(value, list):
        for item in value:
            yield from sent(item, field)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in NEVER_SENT and not name.startswith("_"):
                yield from sent(item, name)


def is_of_the_frame(field: str, text: str) -> bool:
    return field in IDS | FLAGS and text.isascii() and len(text) <= (8 if field in IDS else 24)


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
    [("quarter", 1, 90, 4_000), ("tiktoken", 2, 400, 4_000), ("tiktoken", 3, 25, 1_200), ("quarter", 5, 900, 16_000)],
)
async def test_no_view_of_odd_messages_is_over_its_budget(name: str, seed: int, size: int, budget: int) -> None:
    count, views, log = counter(name), 0, odd_log(seed, size)
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
    summarizer = Counting()
    async with watched(summarizer, budget=2_000, summarize_thinking=True) as judge:
        for number in range(40):
            text = f"MARK{number:03d} " + "and so on " * 40
            shape: Message = [
                {"reasoning": text},
                {"reasoning_details": [{"type": "reasoning.text", "text": text}]},
                {"annotations": [{"quoted": text}]},
                {"content": [{"type": "text", "text": "yes", "citations": [{"cited_text": text}]}]},
            ][number % 4]
            await judge.live([user("go on"), {"role": "assistant", "content": "done"} | shape], every=2)
        await judge.context.wait_idle()
    assert all(f"MARK{number:03d}" in summarizer.contents for number in range(30))
