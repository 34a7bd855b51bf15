"""Some servers use one id for several calls: a result belongs to the nearest call that waits for it."""

import json
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.messages.reading import read_message
from tests.behaviour.contexts import fill
from tests.laws.builders import call, user


def calls(command: str) -> dict[str, Any]:
    return call("openai", ("call_0", "run", {"command": command}))


async def test_of_two_calls_with_one_id_the_later_one_has_the_result():
    first, second = calls("ls"), calls("pwd")
    result = {"role": "tool", "tool_call_id": "call_0", "content": "/home/me"}
    async with open_context(Settings(token_counter="estimate")) as context:
        await fill(context, [user("Look."), first, second, result, user("Go on.")])
        view = await context.get_messages_for_request()
    at = view.index(second)
    assert view[at + 1] == result
    assert view.index(first) == at - 2
    assert view[at - 1]["tool_call_id"] == "call_0"
    assert view[at - 1]["content"] != "/home/me"


@pytest.mark.parametrize("named", [{"id": "c1"}, {}], ids=["one id", "no ids"])
async def test_a_listed_call_that_differs_from_the_block_of_its_id_is_counted(named: dict[str, str]):
    function = {"name": "send_mail", "arguments": json.dumps({"to": "bob and alice " * 3_000})}
    block = {"type": "tool_use", "name": "look", "input": {}, **named}
    row = {"role": "assistant", "content": [block], "tool_calls": [{"type": "function", "function": function, **named}]}
    async with open_context(Settings(token_counter="estimate")) as context:
        await fill(context, [user("Mail bob."), row, user("Go on.")])
        view = await context.get_messages_for_request(token_budget=3_000)
    assert len(json.dumps(view)) < 12_000


@pytest.mark.parametrize(("spelling", "value"), [("{ }", {}), ('{"a": 1.0}', {"a": 1}), ("[]\n", [])])
def test_a_listed_call_that_says_what_the_block_of_its_id_says_is_no_other(spelling: str, value: Any):
    block = {"type": "tool_use", "name": "look", "id": "c1", "input": value}
    listed = {"type": "function", "id": "c1", "function": {"name": "look", "arguments": spelling}}
    (part,) = read_message({"role": "assistant", "content": [block], "tool_calls": [listed]}).parts
    assert part.kind == "call"


def result_of(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": f"of {id}"}


def use_of(id: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": id, "name": "look", "input": {}}


async def test_a_result_of_no_call_is_a_note_and_the_second_call_of_an_id_gets_an_answer():
    calls_twice = {"role": "assistant", "content": [use_of("a"), use_of("a")]}
    answers = user([result_of("a"), result_of("b")])
    async with open_context(Settings(token_counter="estimate")) as context:
        await fill(context, [user("Look."), calls_twice, answers, user("Go on.")])
        view = await context.get_messages_for_request()
        assert context.statistics().repairs.keys() >= {"stand_in_result", "late_result_note"}
    blocks = [block for row in view if isinstance(row["content"], list) for block in row["content"]]
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ["a", "a"]


async def test_nothing_stands_between_a_call_and_its_result_though_an_empty_row_came_there():
    made = {"role": "assistant", "content": [use_of("srv", "server_tool_use"), use_of("b")]}
    rows = [user("Look."), made, {"role": "assistant", "content": ""}, user([result_of("b")]), user("Go on.")]
    async with open_context(Settings(token_counter="estimate")) as context:
        await fill(context, rows)
        view = await context.get_messages_for_request()
    at = next(at for at, row in enumerate(view) if use_of("b") in list(row["content"]))
    assert view[at + 1] == user([result_of("b")])
