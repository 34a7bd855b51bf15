"""The tools of recall and of memory, as a host without an adapter uses them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SettingsError, memory_tool_schemas, open_context, recall_tool_schema
from tests.behaviour.contexts import opened
from tests.laws.builders import count, session, user

MEMORY_NAMES = ["memory_remember", "memory_search", "memory_forget"]
LOG = [user("The walrus is called Ursula."), *session(3, 60, rules="")]


@pytest.mark.parametrize(
    ("made", "names"),
    [(lambda *style: [recall_tool_schema(*style)], ["context_recall"]), (memory_tool_schemas, MEMORY_NAMES)],
    ids=["recall", "memory"],
)
def test_schemas_come_in_the_shapes_of_both_providers(made: Any, names: list[str]):
    plain = made()
    assert [tool["name"] for tool in plain] == [tool["name"] for tool in made("openai-responses")] == names
    schemas = [tool["input_schema"] for tool in plain]
    assert [tool["function"]["parameters"] for tool in made("openai")] == schemas
    assert [tool["parameters"] for tool in made("openai-responses")] == schemas
    assert all(set(schema.get("required", ())) <= schema["properties"].keys() for schema in schemas)
    assert json.loads(json.dumps(plain)) == plain
    schemas[0]["properties"].clear()
    assert made()[0]["input_schema"]["properties"]
    with pytest.raises(SettingsError, match="style"):
        made("xml")


async def test_a_query_or_a_node_is_answered_and_bounded():
    async with opened(LOG, max_tokens=4_000) as context:
        found = await context.call_recall_tool({"query": "walrus name"})
        assert "The walrus is called Ursula." in found
        for arguments in ({"node": 0}, '{"node": 0}', '{"node": "0-0", "detail": null}'):
            assert "The walrus is called Ursula." in await context.call_recall_tool(arguments)
        long = await context.call_recall_tool({"node": f"0..{len(LOG) - 1}", "max_tokens": 10**6})
        assert count(long) <= 1_000, "a quarter of the budget, so that the view shows it whole"
        lines = await context.call_recall_tool({"node": "0-20", "detail": "line", "max_tokens": "300"})
        assert count(lines) <= 300


async def test_the_cursor_of_an_answer_reads_on():
    async with opened(LOG, max_tokens=4_000) as context:
        arguments, seen = {"node": "0-40", "max_tokens": 400}, []
        for _ in range(100):
            text = await context.call_recall_tool(arguments)
            seen += [int(at) for at in re.findall(r"^\[message (\d+): [^\],]*\]", text, re.MULTILINE)]
            cursor = re.search(r"cursor='([^']+)'", text)
            if cursor is None:
                break
            arguments = {**arguments, "cursor": cursor[1]}
        assert list(dict.fromkeys(seen)) == list(range(41))


MISTAKES: list[Any] = [
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
    {"node": "5-3"},
    {"node": "0", "max_tokens": 10**5_000},
    {"node": "0", "cursor": "full:0:0:999999999999:000000"},
]


async def test_a_models_mistakes_are_answered_with_what_to_do():
    async with opened(LOG, max_tokens=4_000) as context:
        for arguments in MISTAKES:
            answer = await context.call_recall_tool(arguments)
            assert answer.startswith("context_recall needs other arguments: "), str(arguments)[:80]
            assert "Ursula" not in answer


async def test_what_a_model_notes_is_found_by_it_replaced_and_forgotten():
    async with open_context(Settings()) as context:
        call = context.call_memory_tool
        assert await call(MEMORY_NAMES[0], {"content": "CI runs on Buildkite.", "about": "CI"}) == "Remembered as m1."
        assert await call(MEMORY_NAMES[0], '{"content": "CI runs on Buildkite."}') == "This was known already, as m1."
        assert "in the place of" in await call(MEMORY_NAMES[0], {"content": "CI runs on Jenkins.", "about": "our CI"})
        found = await call(MEMORY_NAMES[1], {"query": "where does CI run?", "limit": None})
        assert '- m1: CI runs on Jenkins. (source: agent) (replaces: "CI runs on Buildkite.")' in found
        (memory,) = await context.memory.retrieve("CI")
        assert (memory.metadata["source"], memory.metadata["kind"]) == ("agent", "fact")
        assert "There is no memory 'm7'" in await call(MEMORY_NAMES[2], {"id": "m7"})
        assert await call(MEMORY_NAMES[2], {"id": "m1"}) == "Forgot m1."
        assert await call(MEMORY_NAMES[1], {"query": "CI"}) == "No memory holds any of these words."


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        (MEMORY_NAMES[0], {}, "`content` is missing"),
        (MEMORY_NAMES[0], {"content": " "}, "text"),
        (MEMORY_NAMES[0], {"content": 5}, "`content` is a text"),
        (MEMORY_NAMES[0], {"content": "x" * 2_001}, "longer than"),
        (MEMORY_NAMES[0], {"content": "x", "kind": "preference"}, "`kind` is one of fact, decision"),
        (MEMORY_NAMES[0], {"content": "half \ud83d"}, "half a character"),
        (MEMORY_NAMES[0], {"text": "x"}, "no argument"),
        (MEMORY_NAMES[1], {"query": "x", "limit": 0}, "`limit` is a number"),
        (MEMORY_NAMES[1], {"query": "x", "limit": True}, "`limit` is a number"),
        (MEMORY_NAMES[1], "{", "not JSON"),
        (MEMORY_NAMES[1], [], "not an object"),
        (MEMORY_NAMES[2], {"id": 5}, "`id` is a text"),
    ],
)
async def test_a_models_mistakes_are_told_in_the_answer(name: str, arguments: Any, says: str):
    async with open_context(Settings()) as context:
        told = await context.call_memory_tool(name, arguments)
        assert says in told
        assert "Nothing was done" in told
        assert await context.memory.retrieve("x") == []


async def test_another_tool_is_refused_and_a_reader_notes_nothing(tmp_path: Path):
    given = Settings(store=tmp_path / "a.db")
    async with open_context(given) as context:
        with pytest.raises(SettingsError, match="memory_remember"):
            await context.call_memory_tool("memory_dump", {})
    async with open_context(given, read_only=True) as context:
        assert "did nothing" in await context.call_memory_tool(MEMORY_NAMES[0], {"content": "x y z"})
