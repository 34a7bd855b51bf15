"""Some servers use one id for several calls: a result belongs to the nearest call that waits for it."""

import json
from typing import Any

import pytest

from summarizing_context import Settings
from summarizing_context.messages.reading import read_message
from tests.behaviour.contexts import begun
from tests.laws.builders import Message, assistant, call, result, results, user
from tests.laws.shapes import answered_ids


async def view_of(*rows: Message, budget: int | None = None) -> list[Message]:
    """The view of a session with these rows."""
    async with begun([user("Look."), *rows, user("Go on.")], of=Settings, count_tokens=None) as context:
        return await context.get_messages_for_request(token_budget=budget)


async def test_of_two_calls_with_one_id_the_later_one_has_the_result():
    first, second = (call("openai", ("call_0", "run", {"command": command})) for command in ("ls", "pwd"))
    answer = result("openai", "call_0", "/home/me")
    view = await view_of(first, second, answer)
    at = view.index(second)
    assert view[at + 1] == answer
    assert view.index(first) == at - 2
    assert view[at - 1]["tool_call_id"] == "call_0"
    assert view[at - 1]["content"] != "/home/me"


@pytest.mark.parametrize("named", [{"id": "c1"}, {}], ids=["one id", "no ids"])
async def test_a_listed_call_that_differs_from_the_block_of_its_id_is_counted(named: dict[str, str]):
    function = {"name": "send_mail", "arguments": json.dumps({"to": "bob and alice " * 3_000})}
    block = {"type": "tool_use", "name": "look", "input": {}, **named}
    row = {"role": "assistant", "content": [block], "tool_calls": [{"type": "function", "function": function, **named}]}
    assert len(json.dumps(await view_of(row, budget=3_000))) < 12_000


@pytest.mark.parametrize(("spelling", "value"), [("{ }", {}), ('{"a": 1.0}', {"a": 1}), ("[]\n", [])])
def test_a_listed_call_that_says_what_the_block_of_its_id_says_is_no_other(spelling: str, value: Any):
    block = {"type": "tool_use", "name": "look", "id": "c1", "input": value}
    listed = {"type": "function", "id": "c1", "function": {"name": "look", "arguments": spelling}}
    (part,) = read_message({"role": "assistant", "content": [block], "tool_calls": [listed]}).parts
    assert part.kind == "call"


async def test_a_result_of_no_call_is_a_note_and_the_second_call_of_an_id_gets_an_answer():
    look = {"type": "tool_use", "name": "look", "input": {}}
    view = await view_of(assistant([look | {"id": "a"}] * 2), results(("a", "of a"), ("b", "of b")))
    assert [id for row in view for id in answered_ids(row)] == ["a", "a"]
    assert ["of b" in str(row) for row in view if not answered_ids(row)].count(True) == 1
    # nothing stands between a call and its result, though an empty row came there
    made = assistant([look | {"id": "srv", "type": "server_tool_use"}, look | {"id": "b"}])
    view = await view_of(made, assistant(""), results(("b", "of b")))
    at = next(at for at, row in enumerate(view) if look | {"id": "b"} in list(row["content"]))
    assert view[at + 1] == results(("b", "of b"))
