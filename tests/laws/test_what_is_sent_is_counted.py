"""within_budget, for messages of every shape: each string that a provider is sent counts, in whatever field."""

from __future__ import annotations

import json
import random
from functools import cache, lru_cache
from typing import Any

import pytest

from summarizing_context import Settings, message_text_parts, open_context
from summarizing_context.messages.estimate import budget_tokens
from tests.exact_counts import exact_counter

from .builders import Message, user
from .judge import SMALL
from .odd_shapes import all_strings, long_lists, odd_log, odd_value, sent_texts, thinking_fields, words
from .summarizers import Counting

pytestmark = pytest.mark.anyio


@cache
def counter(name: str) -> Any:
    """A counter that counts each text once: one view after the other holds the same."""
    return lru_cache(maxsize=20_000)(budget_tokens if name == "estimate" else exact_counter().count)


def recount(view: list[Message], count: Any) -> int:
    """The larger of two counts: each text and 4 a message; each string value there is. Beside them, all long lists."""
    texts = sum(4 + sum(map(count, sent_texts(message))) for message in view)
    strings = sum(sum(map(count, all_strings(message))) for message in view)
    return max(texts, strings) + sum(map(count, long_lists(view)))


@pytest.mark.parametrize("name", ["estimate", "tiktoken"])
@pytest.mark.parametrize(
    ("seed", "size", "budget"), [(1, 60, 4_000), (2, 400, 4_000), (3, 25, 1_200), (4, 900, 16_000)]
)
async def test_no_view_of_odd_messages_is_over_its_budget(name: str, seed: int, size: int, budget: int) -> None:
    count, views, log = counter(name), 0, odd_log(seed, 35, size)
    async with open_context(Settings(max_tokens=budget, **SMALL), summarizer=Counting(), count_tokens=count) as context:
        for message in log:
            await context.add_message(message)
            if message["role"] != "assistant":
                view = await context.get_messages_for_request()
                assert recount(view, count) <= budget
                views += 1
        assert views > 15
        assert context.statistics().activations > 1
        assert await context.get_messages() == log


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "why " * 1_100},
        {"reasoning_details": [{"type": "reasoning.text", "text": "why " * 1_100, "signature": "c2ln" * 50}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "ZW5j" * 1_100}]},
        {"annotations": [{"type": "url_citation", "url_citation": {"title": "why " * 1_100}}]},
        {"content": None, "parts": [{"text": "why " * 1_100}]},
        {"refusal": "why " * 1_100},
        {"x_new_field": {"deep": [[{"er": "why " * 1_100}]]}},
        {"content": [{"type": "brand_new", "body": "why " * 1_100}]},
        {"content": [{"type": "text", "text": "yes", "citations": [{"cited_text": "why " * 1_100}]}]},
    ],
)
async def test_rows_whose_text_stands_in_an_odd_field_are_counted_shrunk_and_covered(fields: Message) -> None:
    async with open_context(Settings(max_tokens=4_000, **SMALL), summarizer=Counting()) as context:
        for number in range(30):
            await context.add_message(user(f"step {number}"))
            await context.add_message({"role": "assistant", "content": f"done {number}"} | fields)
            view = await context.get_messages_for_request()
            assert recount(view, counter("tiktoken")) <= 4_000
        figures = context.statistics()
        assert figures.activations + figures.repairs.get("shrunk", 0) > 10
        assert context.unseen_tokens() == 0


FLAGS = ("filename", "name", "tool", "status", "visibility", "caller", "format", "detail", "media_type")


@pytest.mark.parametrize(
    "row",
    [
        user("go on") | {flag: f"x9K{at}pQ-7zL" for at, flag in enumerate(FLAGS)},
        user([{"type": "text", "text": "", "name": "q8Zr-internal_only", "status": "w7X_pending"}] * 50),
        user([{"type": "text", "text": "a", "visibility": "internal-developer-only"}] * 50),
        user([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 50),
        user([{"type": "text", "text": "a"}] * 50),
    ],
)
async def test_short_flags_and_the_types_of_many_blocks_are_counted(row: Message) -> None:
    async with open_context(Settings(max_tokens=4_000, **SMALL), count_tokens=counter("tiktoken")) as context:
        for number in range(60):
            await context.add_message(user(f"step {number}"))
            await context.add_message({"role": "assistant", "content": "yes"})
            await context.add_message(row)
            assert recount(await context.get_messages_for_request(), counter("tiktoken")) <= 4_000
        assert context.statistics().activations > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706"},
        dict.fromkeys(("name", "status", "detail", "filename", "caller"), "ᎠᏕ" * 10),
    ],
)
async def test_names_and_flags_that_are_not_short_are_counted(fields: Message) -> None:
    async with open_context(Settings(max_tokens=2_000, **SMALL), summarizer=Counting()) as context:
        for number in range(60):
            await context.add_message(user(f"step {number}") | fields)
            view = await context.get_messages_for_request()
            assert recount(view, counter("tiktoken")) <= 2_000
        assert context.statistics().activations > 0


@pytest.mark.parametrize("seed", range(8))
def test_each_string_that_is_sent_is_among_the_parts_that_are_counted(seed: int) -> None:
    for message in odd_log(seed, 20, 30):
        counted = "\n".join(message_text_parts(message))
        for text in sent_texts(message):
            assert text in counted or json.dumps(text, ensure_ascii=False)[1:-1] in counted
        assert "7" * 900 not in counted


@pytest.mark.parametrize("name", ["estimate", "tiktoken"])
@pytest.mark.parametrize("seed", range(4))
def test_a_message_of_any_shape_counts_what_is_sent_of_it(seed: int, name: str) -> None:
    count = counter(name)
    for message in odd_log(seed, 40, 30):
        assert 4 + sum(map(count, message_text_parts(message))) >= recount([message], count)


async def test_what_a_model_can_read_in_an_odd_field_is_given_to_the_summarizer() -> None:
    marks = [f"MARK{number:03d}" for number in range(40)]
    summarizer = Counting()
    async with open_context(Settings(max_tokens=2_000, **SMALL), summarizer=summarizer) as context:
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


async def test_a_call_listed_with_other_arguments_than_its_block_counts_beside_it() -> None:
    shown = {"type": "tool_call", "id": "a", "name": "read", "input": {"path": "x"}}
    same = {"id": "a", "tool": "read", "arguments": {"path": "x"}}
    other = {"id": "a", "tool": "read", "arguments": {"path": "y " * 500}}
    once = message_text_parts({"role": "assistant", "content": [shown], "tool_calls": [same]})
    assert once == ["read", '{"path":"x"}', "a", "a"]
    assert "y " * 500 in "".join(message_text_parts({"role": "assistant", "content": [shown], "tool_calls": [other]}))


async def test_a_call_listed_under_the_id_of_a_block_with_another_name_counts_beside_it() -> None:
    shown = {"type": "tool_call", "id": "a", "name": "read", "input": {}}
    parts = message_text_parts(
        {"role": "assistant", "content": [shown], "tool_calls": [{"id": "a", "name": "write " * 500, "arguments": {}}]}
    )
    assert "write " * 500 in parts


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking", "reasoning_details"])
async def test_thinking_beside_a_result_is_counted_shrunk_and_read(field: str) -> None:
    summarizer = Counting()
    async with open_context(Settings(max_tokens=2_000, **SMALL), summarizer=summarizer) as context:
        for number in range(30):
            await context.add_message(user(f"step {number}"))
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            await context.add_message({"role": "assistant", "content": None, "tool_calls": [call]})
            said = f"MARK{number:03d} " + "why " * (2_000 if number % 3 == 0 else 100)
            await context.add_message({"role": "tool", "tool_call_id": f"c{number}", "content": "ok", field: said})
            assert recount(await context.get_messages_for_request(), counter("tiktoken")) <= 2_000
        await context.wait_idle()
        seen = "".join(job.content for job in summarizer.segments)
    assert all(f"MARK{number:03d}" in seen for number in range(20))


NUMBERS = [0.12345678] * 2_000
FLAGS_AND_NOTHING = [True, False, None, "", [], {}] * 300


@pytest.mark.parametrize(
    "row",
    [
        {"role": "assistant", "content": "yes", "reasoning": {"vector": NUMBERS}},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "so", "logprobs": NUMBERS}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "QUJD"}, "mask": NUMBERS}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "so", "flags": FLAGS_AND_NOTHING}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "so", "index": [7] * 2_000}]},
        {"role": "assistant", "content": "yes", "reasoning_details": [{"type": "reasoning", "f": FLAGS_AND_NOTHING}]},
        {"role": "assistant", "content": "yes", "reasoning": {f"key_{at}": "v" for at in range(2_000)}},
        {"role": "user", "content": [{"type": "image", "source": {"data": "QUJD"}, "flags": FLAGS_AND_NOTHING}]},
        {"role": "user", "content": "yes", "x_new_field": FLAGS_AND_NOTHING},
        {"role": "user", "content": "yes"} | {f"key_{at}": at for at in range(2_000)},
        {"role": "user", "content": [{"type": "text", "text": "yes"} | {f"key_{at}": at for at in range(2_000)}]},
        {"role": "user", "content": "yes", "a key of some words " * 400: 1},
    ],
    ids=[
        *("reasoning", "thinking", "image", "flags in thinking", "frame of thinking", "flags in details"),
        *("names in reasoning", "flags of an image", "flags in a field", "fields", "fields of a block", "name"),
    ],
)
async def test_numbers_flags_and_names_count_where_they_are_more_than_a_frame(row: Message) -> None:
    count = counter("tiktoken")
    assert sum(map(count, message_text_parts(row))) > 0.4 * count(json.dumps(row))
    async with open_context(Settings(max_tokens=1_000), count_tokens=count) as context:
        for message in (user("begin"), row, user("go on")):
            await context.add_message(message)
        view = await context.get_messages_for_request()
    assert view[-1] == user("go on")
    assert count(json.dumps(view)) < 2_000


@pytest.mark.parametrize(
    "row",
    [
        {"role": "assistant", "content": "yes", "refusal": None, "annotations": [], "audio": None, "logprobs": None},
        {
            "role": "assistant",
            "content": "yes",
            "reasoning_details": [{"type": "reasoning.text", "text": "", "index": 0}],
        },
    ],
)
def test_what_every_reply_of_a_provider_holds_costs_nothing(row: Message) -> None:
    assert sum(map(counter("tiktoken"), message_text_parts(row))) <= 6


@pytest.mark.parametrize("name", ["estimate", "tiktoken"])
@pytest.mark.parametrize(
    "text",
    [
        "\n" * 300,
        "if x:\n\treturn y\n\n" * 60,
        "\n".join(["", "x = 1", "    y"] * 60),
        "\t" * 80 + "x",
        'she said "no", "no" and """no""" ' * 40,
        "C:\\new\\table\\beta\\" * 40,
        "\x1b[0m\x00\x08\x0c\r\n" * 40,
        "Проверки\nне проходят.\n" * 40,
    ],
)
def test_a_text_in_an_unknown_field_counts_at_least_what_it_counts_by_itself(text: str, name: str) -> None:
    count = counter(name)
    for value in ({"deep": [text]}, [{"a": text, "b": text}]):
        parts = message_text_parts({"role": "user", "content": "hi", "x_new_field": value})
        assert sum(map(count, parts)) >= count("hi") + sum(map(count, sent_texts(value)))


async def test_tools_loaded_on_the_way_are_counted_with_the_message_that_loads_them() -> None:
    items = [{"type": "tool_search_output", "tools": [{"name": "read", "description": "reads a file " * 100}]}]
    message = {"role": "assistant", "content": "Loading.", "metadata": {"openai:tool_search_items": items, "note": "x"}}
    parts = message_text_parts(message)
    assert parts[0] == "Loading."
    assert json.loads("".join(parts[1:])) == items
    async with open_context(Settings(max_tokens=4_000), summarizer=Counting()) as context:
        await context.add_message(user("begin"))
        await context.add_message(message)
        await context.add_message(user("go on"))
        await context.get_messages_for_request()
        view = context.last_view
        assert view is not None
        assert view.tokens > 300


def test_odd_values_and_thinking_differ_from_seed_to_seed() -> None:
    assert odd_value(random.Random(1), 20) != odd_value(random.Random(2), 20)
    assert thinking_fields(random.Random(1), 20) != thinking_fields(random.Random(2), 20)
    assert words(random.Random(1), 20) != words(random.Random(2), 20)


LONG = "x" * 30_000


@pytest.mark.parametrize(
    "rows",
    [
        [{"role": "assistant", "content": None, "tool_calls": [{"id": LONG, "function": {"name": "f"}}]}],
        [{"role": "assistant", "content": [{"type": "tool_use", "id": LONG, "name": "f", "input": {}}]}],
        [{"role": "tool", "tool_call_id": LONG, "content": "ok"}],
        [{"role": "tool", "tool_call_id": "a", "name": LONG, "content": "ok"}],
        [{"role": "user", "content": [{"type": LONG, "text": "hi"}]}],
        [{"role": "user", "id": LONG, "content": "hi"}],
        [{"role": "assistant", "tool_call_id": LONG, "content": "hi"}],
        [{"role": "user", "content": [{"type": "text", "id": LONG, "text": "hi"}]}],
        [{"role": "user", "content": "hi", LONG: "v"}],
        [{"role": "user", "content": "hi"} | {f"key_{n}": "v" for n in range(2_000)}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/" + LONG}}]}],
        [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", LONG: "QUJD"}}]}],
    ],
)
async def test_a_frame_of_any_length_leaves_room_for_a_view(rows: list[Message]) -> None:
    async with open_context(Settings(max_tokens=1_000, token_counter="estimate")) as context:
        for row in (user("begin"), *rows):
            await context.add_message(row)
            assert len(json.dumps(await context.get_messages_for_request())) < 5_000
        await context.add_message(user("go on"))
        view = await context.get_messages_for_request()
        assert view[-1] == user("go on")
        assert recount(view, budget_tokens) <= 1_000


WORDS = "word " * 800


@pytest.mark.parametrize("calls", [{"x": WORDS}, WORDS, {"y": [[WORDS]]}], ids=["map", "text", "nest"])
async def test_calls_that_are_no_list_count_as_any_odd_field_does(calls: Any) -> None:
    """Sixty rows of them fit as little as sixty rows of text."""
    row = {"role": "assistant", "content": "step", "tool_calls": calls}
    read = "".join(message_text_parts(row))
    assert (calls if isinstance(calls, str) else json.dumps(calls, separators=(",", ":"))) in read
    async with open_context(Settings(max_tokens=4_000, token_counter="estimate")) as context:
        for _ in range(60):
            await context.add_message(row)
        view = await context.get_messages_for_request()
    assert view[-1]["role"] == "assistant"
    assert len(json.dumps(view)) < 40_000
