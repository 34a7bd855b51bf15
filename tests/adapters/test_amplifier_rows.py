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
from tests.adapters.host import Row, mounted, refusals
from tests.laws.builders import assistant, system, user

ASK = user("Go.")
IMAGE: Row = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
THOUGHT: Row = {"type": "thinking", "thinking": "hm"}
STATE = {**THOUGHT, "content": ["encrypted", "id"]}
NO_TEXT, NOT_YET = "[no text]", "[no result of this call yet]"


def texts(*said: str) -> list[Row]:
    return [{"type": "text", "text": text} for text in said]


def use(*ids: Any) -> list[Row]:
    return [{"type": "tool_call", "id": id, "name": "read", "input": {"path": "a"}} for id in ids]


def result(id: Any, said: Any = "done", **more: Any) -> Row:
    return {"role": "tool", "tool_call_id": id, "content": said, **more}


async def sent(*rows: Row) -> list[Row]:
    """The request of a session that holds these rows, which the host and both providers take."""
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.set_messages(rows)
        found = await manager.get_messages_for_request()
    assert refusals(found) == []
    assert [Message(**row).role for row in found] == [row["role"] for row in found]
    return found


OWN = [{"id": "c1", "tool": "read", "arguments": {"path": "a"}}]


@pytest.mark.parametrize(
    "rows",
    [
        [system("Be kind."), ASK, user([IMAGE])],
        [ASK, {**assistant(use("c1")), "tool_calls": OWN}, result("c1", name="read", metadata=None)],
        [ASK, assistant([{**THOUGHT, "signature": None, "content": ["a", "b"]}, *texts("Yes.")]), ASK],
    ],
)
async def test_rows_of_the_hosts_own_shapes_go_out_as_they_are(rows):
    assert await sent(*rows) == rows


FUNCTION = {"name": "read", "arguments": '{"path": "a"}'}
LISTED = [{"id": "c1", "type": "function", "function": FUNCTION}]
INSIDE = {"type": "tool_result", "tool_use_id": "c1", "content": texts("x"), "is_error": True}
UNSIGNED = [{**THOUGHT, **more} for more in ({}, {"signature": None}, {"signature": "", "content": []})]
OTHER_SHAPES: dict[str, tuple[list[Row], list[Any]]] = {
    "an id again": (
        [assistant(use("c1")), result("c1")] * 2,
        [use("c1"), ("c1", "done"), use("c1_2"), ("c1_2", "done")],
    ),
    "an id twice": ([assistant(use("x", "x")), *[result("x")] * 2], [use("x", "x_2"), ("x", "done"), ("x_2", "done")]),
    "an odd id": ([assistant(use("a.b:c")), result("a.b:c")], [use("a_b_c"), ("a_b_c", "done")]),
    "unsigned thinking": ([assistant([*UNSIGNED, STATE, *texts("Well.")]), ASK], [[STATE, *texts("Well.")], "Go."]),
    "unsigned thinking alone": ([assistant([THOUGHT]), ASK], [NO_TEXT, "Go."]),
    "unsigned thinking of a call": ([assistant([THOUGHT, *use("c1")]), result("c1")], [use("c1"), ("c1", "done")]),
    "results inside a user's row": (
        [assistant(use("c1")), user([INSIDE, *texts("And?")])],
        [use("c1"), ("c1", texts("x"), True), texts("And?")],
    ),
    "listed calls": (
        [{**assistant("See."), "tool_calls": LISTED}, result("c1")],
        [[*texts("See."), *use("c1")], ("c1", "done")],
    ),
    "the host's listed calls": ([{**assistant(""), "tool_calls": OWN}, result("c1")], [use("c1"), ("c1", "done")]),
    "no list of calls": ([{**ASK, "tool_calls": 5}], ["Go."]),
    "half a character": ([user("a\ud83d")], ["a\ufffd"]),
    "an image's address": (
        [user([{"type": "input_image", "image_url": "u://x"}])],
        [[{"type": "image", "source": {"type": "url", "url": "u://x"}}]],
    ),
    "an image": ([user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}])], [[IMAGE]]),
    "input text": ([user([{"type": "input_text", "text": "t"}])], [texts("t")]),
    "other fields": ([user([{"type": "text", "text": "t", "visibility": "all"}])], [texts("t")]),
    "another block": ([user([{"type": "mystery", "word": "kept"}])], [texts('{"type":"mystery","word":"kept"}')]),
    "hidden thinking": ([user([{"type": "redacted_thinking"}])], [texts("[redacted_thinking]")]),
}


@pytest.mark.parametrize(("rows", "expected"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
async def test_rows_of_other_shapes_go_out_as_the_host_has_them(rows, expected):
    asked, *found = await sent(ASK, *rows)
    fields = ("tool_call_id", "content", "is_error")
    said = [tuple(row[name] for name in fields if name in row) for row in found]
    assert (asked, [one[0] if len(one) == 1 else one for one in said]) == (ASK, expected)


@pytest.mark.parametrize("content", ["", "  \n", None, [], texts(" ")])
async def test_no_text_is_empty(content):
    for role in ("user", "assistant"):
        assert (await sent(ASK, {"role": role, "content": content}, ASK))[1]["content"] == NO_TEXT
    assert await sent({"role": "system", "content": content}, ASK) == [ASK]


async def test_the_first_row_is_a_users_an_answers_image_is_named_and_half_a_character_and_a_users_calls_are_written():
    rows = await sent(system("\ud83d"), assistant([IMAGE]), ASK)
    said = ["\ufffd", "[the conversation begins with the assistant]", texts("[image]"), "Go."]
    assert [row["content"] for row in rows] == said
    rows = await sent(ASK, assistant(use("\ud83d")), result("\ud83d"))
    assert rows[2] == result(rows[1]["content"][0]["id"])
    python = [{**LISTED[0], "function": {**FUNCTION, "arguments": '{"path": "a.py"}'}}]
    of_user = (await sent(ASK, {**user(""), "tool_calls": python}, ASK))[1]
    assert ("a.py" in str(of_user["content"]), NO_TEXT in of_user["content"]) == (True, False)


async def test_tools_of_the_server_that_only_the_exact_copy_has_are_counted_and_come_back_as_given():
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "words " * 600}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "a"}]}
    call = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    copy = {"anthropic": {"wire_content": [*texts("I look."), asked, found, call], "model": "m"}, "timestamp": "t"}
    rows = [ASK, {**assistant([*texts("I look."), *use("c1")]), "metadata": copy}, result("c1")]
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.set_messages(rows)
        assert await manager.get_messages() == rows == await manager.get_messages_for_request()
        assert manager.statistics().history_tokens > 600


async def test_a_call_in_flight_is_shown_with_a_result_that_says_so_until_it_comes():
    async with mounted() as manager:
        for row in (ASK, assistant(use("c1"))):
            await manager.add_message(row)
        assert (await manager.get_messages_for_request())[-1] == result("c1", NOT_YET)
        await manager.add_message(result("c1"))
        assert (await manager.get_messages_for_request())[-1]["content"] == "done"


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
    arguments = {"by": float("nan"), "icon": "\ud83d\ude00", "most": [float("inf")], "of": {"b", "a", "c"}}
    async with mounted() as manager:
        await manager.add_message({**assistant([TextBlock(text="hello")]), "odd": {3: (1, {...}), Path("a"): 1}})
        await manager.set_messages(iter([*(await manager.get_messages()), Message(role="user", content="typed")]))
        await manager.add_message({**assistant(""), "tool_calls": [{"id": "c", "arguments": arguments}]})
        first, second, third = await manager.get_messages()
        assert (first["content"][0]["text"], first["odd"]) == ("hello", {"3": [1, ["Ellipsis"]], "a": 1})
        assert second["content"] == "typed"
        written = {"by": "nan", "icon": "\U0001f600", "most": ["inf"], "of": ["a", "b", "c"]}
        assert third["tool_calls"][0]["arguments"] == written
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(MessageError):
            await manager.add_message(user(endless))
