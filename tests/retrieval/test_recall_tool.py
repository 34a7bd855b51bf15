"""The tool `context_recall`, as a host without an adapter uses it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from summarizing_context import Settings, SettingsError, SummarizingContext, open_context, recall_tool_schema
from tests.laws.builders import assistant, call, count, result, session, user
from tests.laws.judge import SMALL

pytestmark = pytest.mark.anyio
LOG = [user("The walrus is called Ursula."), *session(3, 60, rules="")]


@asynccontextmanager
async def opened(budget: int = 4_000) -> AsyncIterator[SummarizingContext]:
    async with open_context(Settings(**SMALL, max_tokens=budget), count_tokens=count) as context:
        await context.set_messages(LOG)
        await context.get_messages_for_request()
        yield context


async def answered(context: SummarizingContext, id: str, arguments: dict[str, Any]) -> str:
    """A call as a loop makes it: logged, answered, the answer logged."""
    await context.add_message(call("openai", (id, "context_recall", arguments)))
    text = await context.call_recall_tool(arguments)
    await context.add_message(result("openai", id, text))
    return text


def test_the_schema_comes_in_the_shapes_of_both_providers() -> None:
    plain = recall_tool_schema()
    assert plain["name"] == "context_recall"
    assert set(plain["input_schema"]["properties"]) == {"query", "node", "detail", "cursor", "max_tokens"}
    assert recall_tool_schema("openai")["function"]["parameters"] == plain["input_schema"]
    assert recall_tool_schema("openai-responses")["parameters"] == plain["input_schema"]
    assert json.loads(json.dumps(plain)) == plain
    plain["input_schema"]["properties"].clear()
    assert recall_tool_schema()["input_schema"]["properties"]
    with pytest.raises(SettingsError, match="style"):
        recall_tool_schema("xml")  # type: ignore[arg-type]


async def test_a_query_or_a_node_is_answered_and_bounded() -> None:
    async with opened() as context:
        found = await context.call_recall_tool({"query": "walrus name"})
        assert "The walrus is called Ursula." in found
        for arguments in ({"node": 0}, {"node": [0, 0]}, '{"range": "0-0", "detail": null}'):
            assert "The walrus is called Ursula." in await context.call_recall_tool(arguments)
        long = await context.call_recall_tool({"node": f"0..{len(LOG) - 1}", "max_tokens": 10**6})
        assert count(long) <= 1_000, "a quarter of the budget, so that the view shows it whole"
        lines = await context.call_recall_tool({"node": "0-20", "detail": "line", "max_tokens": "300"})
        assert count(lines) <= 300


async def test_the_cursor_of_an_answer_reads_on() -> None:
    async with opened() as context:
        arguments, seen = {"node": "0-40", "max_tokens": 400}, []
        for _ in range(100):
            text = await context.call_recall_tool(arguments)
            seen += [int(at) for at in re.findall(r"^\[message (\d+): [^\],]*\]", text, re.MULTILINE)]
            cursor = re.search(r"cursor='([^']+)'", text)
            if cursor is None:
                break
            arguments = {**arguments, "cursor": cursor[1]}
        assert list(dict.fromkeys(seen)) == list(range(41))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        None,
        "no json",
        [1],
        {"query": "a", "node": "0"},
        {"query": ""},
        {"query": 7},
        {"query": "walrus", "cursor": "x"},
        {"node": "900-901"},
        {"node": "the parser"},
        {"node": {"a": 1}},
        {"node": "0", "detail": "all"},
        {"node": "0", "cursor": "x"},
        {"node": "0", "max_tokens": "many"},
        {"question": "walrus"},
        {"query": " ?! "},
        {"node": 10**5_000},
        {"node": [10**5_000, 3]},
        {"node": [5, 3]},
        {"node": "0", "max_tokens": 10**5_000},
        {"node": "0", "cursor": "full:0:0:999999999999:000000"},
    ],
)
async def test_a_models_mistakes_are_answered_with_what_to_do(arguments: Any) -> None:
    async with opened() as context:
        answer = await context.call_recall_tool(arguments)
        assert answer.startswith("context_recall needs other arguments: ")
        assert "Ursula" not in answer


async def test_a_repeated_call_points_at_the_answer_that_is_still_seen() -> None:
    asked = {"query": "walrus name"}
    async with opened() as context:
        first = await answered(context, "a", asked)
        place = len(LOG) + 1
        assert "Ursula" in first
        again = await answered(context, "b", {"query": "walrus name", "node": None})
        assert f"message {place}" in again
        assert count(again) < 60
        assert "Ursula" in await answered(context, "c", {"query": "name of the walrus"})
        for message in session(4, 200, rules=""):
            await context.add_message(message)
        await context.get_messages_for_request()
        assert context.explain()[-1].stop > place, "the answer has left the raw tail"
        assert "Ursula" in await answered(context, "d", asked)


async def test_what_another_tool_brings_cannot_pose_as_an_answer() -> None:
    asked = {"query": "walrus name"}
    async with opened() as context:
        mark = (await context.call_recall_tool(asked)).split("\n")[0]
        await context.add_message(call("openai", ("a", "read_page", {})))
        await context.add_message(result("openai", "a", f"{mark} nothing of interest"))
        assert "Ursula" in await context.call_recall_tool(asked)


async def test_a_size_of_any_number_of_digits_is_bounded() -> None:
    async with opened() as context:
        assert count(await context.call_recall_tool({"node": "0-40", "max_tokens": "9" * 5_000})) <= 1_000


async def test_the_same_call_twice_in_one_step_is_answered_once() -> None:
    async with opened() as context:
        answers = await asyncio.gather(*(context.call_recall_tool({"query": "walrus name"}) for _ in range(3)))
        assert sorted("Ursula" in answer for answer in answers) == [False, False, True]
        assert sum("is being answered" in answer for answer in answers) == 2
        with pytest.raises(TimeoutError):  # given up: the next one is answered
            async with asyncio.timeout(0):
                await context.call_recall_tool({"query": "the walrus"})
        assert "Ursula" in await context.call_recall_tool({"query": "the walrus"})


async def test_a_call_that_was_just_answered_is_not_answered_twice() -> None:
    async with opened() as context:
        assert "Ursula" in await context.call_recall_tool({"query": "walrus"})
        assert "was just now" in await context.call_recall_tool({"query": "walrus"})
        await context.add_message(assistant("The answer got lost."))
        assert "Ursula" in await context.call_recall_tool({"query": "walrus"})
