"""Rows of a request: nothing that the host or a provider would repair, drop or refuse, whatever was logged."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import Message, TextBlock
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import MessageError
from tests.adapters.host import Row, mounted
from tests.adapters.validity import refusals

ASK: Row = {"role": "user", "content": "Go."}
IMAGE: Row = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
THOUGHT: Row = {"type": "thinking", "thinking": "hm"}
NO_TEXT, NOT_YET = "[no text]", "[no result of this call yet]"


def call(id: Any, **more: Any) -> Row:
    block = {"type": "tool_call", "id": id, "name": "read", "input": {"path": "a"}, **more}
    return {"role": "assistant", "content": [block]}


def result(id: Any, text: str = "done") -> Row:
    return {"role": "tool", "tool_call_id": id, "content": text}


async def sent(*rows: Row) -> list[Row]:
    """The request of a session that holds these rows, which the host and both providers take."""
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.set_messages(rows)
        found = await manager.get_messages_for_request()
    assert refusals(found) == []
    assert [Message(**row).role for row in found] == [row["role"] for row in found]
    return found


async def test_rows_of_the_hosts_own_shapes_go_out_as_they_are():
    loop = {**call("c1", visibility=None), "tool_calls": [{"id": "c1", "tool": "read", "arguments": {"path": "a"}}]}
    thought = {"role": "assistant", "content": [{**THOUGHT, "signature": None, "content": ["a", "b"]}, *texts("Yes.")]}
    done = {**result("c1"), "name": "read", "metadata": None}
    rows = [{"role": "system", "content": "Be kind."}, ASK, loop, done, thought, {"role": "user", "content": [IMAGE]}]
    assert await sent(*rows) == rows


async def test_tools_of_the_server_that_only_the_exact_copy_has_are_counted_and_come_back_as_given():
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "words " * 300}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "a", "title": "b " * 300}]}
    use = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    copy = {"anthropic": {"wire_content": [*texts("I look."), asked, found, use], "model": "m"}, "timestamp": "t"}
    said = {"role": "assistant", "content": [*texts("I look."), *call("c1")["content"]], "metadata": copy}
    rows = [ASK, said, result("c1")]
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.add_message(said)
        await manager.set_messages(rows)
        assert await manager.get_messages() == rows == await manager.get_messages_for_request()
        assert manager.statistics().history_tokens > 600
        small = await manager.get_messages_for_request(token_budget=500)
        assert refusals(small) == []
        assert "wire_content" not in str(small) or str([asked, found])[1:-1] in str(small), "both or neither"


def texts(*said: str) -> list[Row]:
    return [{"type": "text", "text": text} for text in said]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}, IMAGE),
        ({"type": "input_image", "image_url": "u://x"}, {"type": "image", "source": {"type": "url", "url": "u://x"}}),
        ({"type": "input_text", "text": "t"}, {"type": "text", "text": "t"}),
        ({"type": "text", "text": "t", "visibility": "all"}, {"type": "text", "text": "t"}),
        ({"type": "mystery", "word": "kept"}, {"type": "text", "text": '{"type":"mystery","word":"kept"}'}),
        ({"type": "redacted_thinking"}, {"type": "text", "text": "[redacted_thinking]"}),
    ],
)
async def test_blocks_of_other_kinds_are_translated(block, expected):
    assert (await sent({"role": "user", "content": [block]}))[0]["content"] == [expected]


async def test_an_id_that_was_used_before_gets_a_name_of_its_own():
    one, two = [call("c1"), result("c1", "one")], [call("c1"), result("c1", "two")]
    rows = await sent(ASK, *one, *two, call("a.b:c"), result("a.b:c"))
    assert [row["tool_call_id"] for row in rows if row["role"] == "tool"] == ["c1", "c1_2", "a_b_c"]
    assert [row["content"] for row in rows if row["role"] == "tool"] == ["one", "two", "done"]
    twice = {"role": "assistant", "content": [*call("x")["content"], *call("x")["content"]]}
    rows = await sent(ASK, twice, result("x", "one"), result("x", "two"))
    assert [row["tool_call_id"] for row in rows[2:]] == ["x", "x_2"]


@pytest.mark.parametrize("unsigned", [{}, {"signature": None}, {"signature": "", "content": []}])
async def test_thinking_that_nobody_takes_back_is_left_out(unsigned):
    thought = {**THOUGHT, **unsigned}
    state = {**THOUGHT, "content": ["encrypted", "id"]}
    rows = await sent(ASK, {"role": "assistant", "content": [thought, state, *texts("Well.")]}, ASK)
    assert rows[1]["content"] == [state, *texts("Well.")]
    assert (await sent(ASK, {"role": "assistant", "content": [thought]}, ASK))[1]["content"] == NO_TEXT
    called = {"role": "assistant", "content": [thought, *call("c1")["content"]]}
    assert (await sent(ASK, called, result("c1")))[1]["content"] == call("c1")["content"]


async def test_halves_of_characters_are_replaced_where_they_stand():
    half = "\ud83d"
    rows = await sent(
        {"role": "system", "content": half}, {"role": "user", "content": f"a{half}"}, call(half), result(half)
    )
    assert [row["content"] for row in rows[:2]] == ["\ufffd", "a\ufffd"]
    assert rows[3] == result(rows[2]["content"][0]["id"])


async def test_results_inside_a_users_row_become_rows_behind_their_calls():
    block = {"type": "tool_result", "tool_use_id": "c1", "content": texts("x"), "is_error": True}
    rows = await sent(ASK, call("c1"), {"role": "user", "content": [block, *texts("And?")]})
    assert rows[2] == {**result("c1"), "content": texts("x"), "is_error": True}
    assert rows[3] == {"role": "user", "content": texts("And?")}


async def test_calls_that_are_only_listed_become_blocks_and_those_of_a_users_row_text():
    function = {"name": "read", "arguments": '{"path": "a"}'}
    listed, python = (
        [{"id": "c1", "type": "function", "function": function}],
        {**function, "arguments": '{"path": "a.py"}'},
    )
    chat = {"role": "assistant", "content": "See.", "tool_calls": listed}
    own = [{"id": "c2", "tool": "read", "arguments": {"path": "a"}}]
    rows = await sent(ASK, chat, result("c1"), {"role": "assistant", "content": "", "tool_calls": own}, result("c2"))
    assert rows[1]["content"] == [*texts("See."), *call("c1")["content"]]
    assert rows[1]["tool_calls"] == [{"id": "c1", "tool": "read", "name": "read", "arguments": {"path": "a"}}]
    assert rows[3]["content"] == call("c2")["content"]
    of_user = (
        await sent(ASK, {"role": "user", "content": "", "tool_calls": [{**listed[0], "function": python}]}, ASK)
    )[1]
    assert ("a.py" in str(of_user["content"]), NO_TEXT in of_user["content"]) == (True, False)
    assert await sent(ASK, {**ASK, "tool_calls": 5}) == [ASK, ASK]


async def test_a_call_in_flight_is_shown_with_a_result_that_says_so_until_it_comes():
    async with mounted() as manager:
        for row in (ASK, call("c1")):
            await manager.add_message(row)
        assert (await manager.get_messages_for_request())[-1] == result("c1", NOT_YET)
        await manager.add_message(result("c1"))
        assert (await manager.get_messages_for_request())[-1]["content"] == "done"


@pytest.mark.parametrize("content", ["", "  \n", None, [], texts(" ")])
@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_no_text_is_empty(content, role):
    assert (await sent(ASK, {"role": role, "content": content}, ASK))[1]["content"] == NO_TEXT
    assert await sent({"role": "system", "content": content}, ASK) == [ASK]


async def test_the_first_row_is_a_users_and_an_answers_image_is_named():
    rows = await sent({"role": "system", "content": "Be kind."}, {"role": "assistant", "content": [IMAGE]}, ASK)
    said = ["Be kind.", "[the conversation begins with the assistant]", texts("[image]"), "Go."]
    assert [row["content"] for row in rows] == said


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = "text thinking redacted_thinking tool_call tool_use tool_result image image_url reasoning".split()  # noqa: SIM905
NAMES = ["text", "thinking", "signature", "data", "id", "name", "input", "tool_call_id", "tool_use_id", "output",
         "source", "content", "summary", "visibility", "arguments", "image_url"]  # fmt: skip
BLOCKS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(KINDS) | JSON,
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(BLOCKS | JSON, max_size=4) | JSON, st.sampled_from(["user", "assistant", "tool", "system"]))
def test_whatever_was_logged_the_host_accepts_it(content, role):
    async def shown() -> None:
        async with mounted({"token_counter": "estimate"}) as manager:
            with suppress(MessageError):
                await manager.set_messages([ASK, {"role": role, "content": content, "tool_call_id": "c"}])
            rows = await manager.get_messages_for_request() if len(await manager.get_messages()) else []
        assert [Message(**row).role for row in rows] == [row["role"] for row in rows]

    asyncio.run(shown())


async def test_values_that_are_no_json_are_written_down():
    async with mounted() as manager:
        await manager.add_message(
            {"role": "assistant", "content": [TextBlock(text="hello")], "odd": {3: (1, {...}), Path("a"): 1}}
        )
        await manager.set_messages(iter([*(await manager.get_messages()), Message(role="user", content="typed")]))
        arguments = {"by": float("nan"), "icon": "\ud83d\ude00", "most": [float("inf")], "of": {"b", "a", "c"}}
        await manager.add_message(
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "arguments": arguments}]}
        )
        first, second, third = await manager.get_messages()
        assert first["content"][0]["text"] == "hello"
        assert first["odd"] == {"3": [1, ["Ellipsis"]], "a": 1}
        assert second["content"] == "typed"
        written = {"by": "nan", "icon": "\U0001f600", "most": ["inf"], "of": ["a", "b", "c"]}
        assert third["tool_calls"][0]["arguments"] == written
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(MessageError):
            await manager.add_message({"role": "user", "content": endless})
