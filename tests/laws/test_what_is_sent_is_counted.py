"""within_budget, for messages of every shape: each string that a provider is sent counts, in whatever field."""

import json
import random
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.exact_counts import exact_counter

from .builders import Message, user
from .builders import count as quarter
from .judge import SMALL
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


def with_odd_fields(rng: random.Random, holder: dict[str, Any], size: int) -> dict[str, Any]:
    return holder | {rng.choice(["annotations", "citations", "extra", "x_note", "signature"]): odd_value(rng, size)}


def thinking_fields(rng: random.Random, size: int) -> dict[str, Any]:
    """Thinking beside the content, as one host or another keeps it."""
    said = words(rng, size)
    details = [
        {"type": "reasoning.text", "text": said, "signature": words(rng, size // 4), "format": "anthropic-claude-v1"},
        {"type": "reasoning.encrypted", "data": words(rng, size // 2), "id": "rs_1"},
        {"type": "reasoning.summary", "summary": words(rng, size // 3)},
    ]
    return rng.choice(
        [
            {"reasoning": said, "reasoning_details": rng.sample(details, rng.randint(1, 3))},
            {"reasoning_details": details},
            {"reasoning_details": [{"type": "reasoning.text", "text": said, "marks": odd_value(rng, size)}]},
            {"reasoning": said},
            {"reasoning_content": said, "thinking": words(rng, size)},
            {"thinking_block": {"type": "thinking", "thinking": said, "signature": words(rng, size // 3)}},
        ]
    )


def block(rng: random.Random, size: int) -> dict[str, Any]:
    text = words(rng, size)
    made: dict[str, Any] = rng.choice(
        [
            {"type": "text", "text": text},
            {"type": "output_text", "text": text},
            {"type": "refusal", "refusal": text},
            {"type": "thinking", "thinking": text, "signature": words(rng, size // 2)},
            {"type": "thinking", "thinking": text, "marks": odd_value(rng, size)},
            {"type": "redacted_thinking", "data": text},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": text},
            {"type": "search_result", "source": "a", "content": [{"type": "text", "text": text}]},
            {"type": "container_upload", "payload": odd_value(rng, size)},
        ]
    )
    return with_odd_fields(rng, made, size // 2) if rng.random() < 0.4 else made


def round_of_calls(rng: random.Random, number: int, size: int) -> Iterator[Message]:
    """A call and its result, in either dialect, with fields that no shape knows."""
    id, arguments = f"c{number}", {"path": words(rng, size // 3)}
    if rng.random() < 0.5:
        call = {"type": "function", "id": id, "function": {"name": "read", "arguments": str(arguments)}}
        call = call | {"extra_content": {"google": {"thought_signature": words(rng, size)}}}
        yield {"role": "assistant", "content": None, "tool_calls": [call]} | thinking_fields(rng, size)
        yield with_odd_fields(rng, {"role": "tool", "tool_call_id": id, "content": words(rng, size)}, size)
        return
    made = with_odd_fields(rng, {"type": "tool_use", "id": id, "name": "read", "input": arguments}, size)
    yield {"role": "assistant", "content": [block(rng, size), made]}
    results = [block(rng, size // 2) for _ in range(rng.randint(1, 3))]
    answer = with_odd_fields(rng, {"type": "tool_result", "tool_use_id": id, "content": results}, size)
    yield {"role": "user", "content": [answer]}


def odd_log(seed: int, rounds: int, size: int) -> list[Message]:
    rng = random.Random(seed)
    log: list[Message] = []
    for number in range(rounds):
        kind = number % 5
        if kind == 0:
            log.append({"role": "user", "parts": [{"text": words(rng, size)}, {"inlineData": odd_value(rng, size)}]})
        elif kind == 1:
            blocks = [block(rng, size) for _ in range(rng.randint(1, 3))]
            log.append({"role": "assistant", "content": blocks} | thinking_fields(rng, size))
        elif kind == 2:
            log.append(with_odd_fields(rng, {"role": "user", "content": words(rng, size)}, size))
        elif kind == 3:
            log += round_of_calls(rng, number, size)
        else:
            log.append({"role": "assistant", "content": words(rng, size), "refusal": words(rng, size)})
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
