"""Rows: what comes in becomes JSON, what goes out is accepted by the host's `Message`."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core import Message, TextBlock
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import MessageError
from summarizing_context.adapters.amplifier.manager import SummarizingContextManager
from summarizing_context.adapters.amplifier.messages import as_json, as_row

pytestmark = pytest.mark.anyio
CALL = {"type": "tool_call", "id": "c1", "name": "read", "input": {"path": "a"}, "visibility": None}


@pytest.mark.parametrize(
    "row",
    [
        {"role": "user", "content": "text"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "t"}, CALL],
            "tool_calls": [{"id": "c1", "tool": "read"}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done", "name": "read", "metadata": None},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm", "signature": None, "content": ["a", "b"]}],
        },
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "QUJD"}}]},
    ],
)
def test_a_row_of_the_hosts_own_shape_goes_out_as_it_is(row: dict[str, Any]) -> None:
    assert as_row(row) is row
    Message(**row)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            {"type": "tool_use", "id": "c", "name": "n", "input": {}},
            {"type": "tool_call", "id": "c", "name": "n", "input": {}},
        ),
        (
            {"type": "tool_result", "tool_use_id": "c", "content": "r", "is_error": True},
            {"type": "tool_result", "is_error": True, "tool_call_id": "c", "output": "r"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        ),
        ({"type": "input_image", "image_url": "u://x"}, {"type": "image", "source": {"type": "url", "url": "u://x"}}),
        ({"type": "input_text", "text": "t"}, {"type": "text", "text": "t"}),
        ("bare", {"type": "text", "text": "bare"}),
        ({"type": "text", "text": "t", "visibility": "all"}, {"type": "text", "text": "t"}),
        ({"type": "mystery", "word": "kept"}, {"type": "text", "text": '{"type":"mystery","word":"kept"}'}),
        ({"type": "redacted_thinking"}, {"type": "text", "text": "[redacted_thinking]"}),
        ({"type": []}, {"type": "text", "text": '{"type":[]}'}),
    ],
)
def test_blocks_of_other_kinds_are_translated(block: Any, expected: dict[str, Any]) -> None:
    row = as_row({"role": "user", "content": [block]})
    assert row["content"] == [expected]
    Message(**row)


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": {"a": 1}},
        {"role": "narrator", "content": "x"},
        {"role": "tool", "content": "x", "tool_call_id": 7, "name": [1], "metadata": "no"},
    ],
)
def test_odd_rows_are_accepted_too(odd: dict[str, Any]) -> None:
    before = dict(odd)
    Message(**as_row(odd))
    assert odd == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = [
    "text",
    "thinking",
    "redacted_thinking",
    "tool_call",
    "tool_use",
    "tool_result",
    "image",
    "image_url",
    "reasoning",
]
NAMES = ["text", "thinking", "signature", "data", "id", "name", "input", "tool_call_id", "tool_use_id", "output",
         "source", "content", "summary", "visibility", "arguments", "image_url"]  # fmt: skip
BLOCKS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(KINDS) | JSON,
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(BLOCKS | JSON, max_size=4), st.sampled_from(["user", "assistant", "tool", "odd"]))
def test_whatever_was_logged_the_host_accepts_it(content: list[Any], role: str) -> None:
    Message(**as_row({"role": role, "content": content}))


async def test_every_row_of_a_view_is_accepted_after_shrinking_and_repairs() -> None:
    manager = SummarizingContextManager(
        max_tokens=900, segment_min=100, segment_target=200, segment_max=400, summary_max_tokens=20
    )
    for number in range(40):
        arguments = {"path": f"f{number}", "text": "long words " * 200}
        block = {**CALL, "id": f"c{number}", "input": arguments}
        listed = [{"id": f"c{number}", "tool": "read", "arguments": arguments}]
        await manager.add_message({"role": "assistant", "content": [block], "tool_calls": listed, "metadata": None})
        if number % 5:
            await manager.add_message({"role": "tool", "tool_call_id": f"c{number}", "content": "result " * 300})
        await manager.add_message({"role": "user", "content": None if number % 7 == 0 else f"go on {number}"})
        rows = await manager.get_messages_for_request()
        assert [Message(**row).role for row in rows] == [row["role"] for row in rows]
    assert manager.statistics().repairs.keys() >= {"shrunk", "stand_in_result", "content_none"}
    await manager.close()


async def test_values_that_are_no_json_are_written_down() -> None:
    manager = SummarizingContextManager()
    await manager.add_message({"role": "assistant", "content": [TextBlock(text="hello")], "odd": {3: (1, {...})}})
    await manager.set_messages(iter([*(await manager.get_messages()), Message(role="user", content="typed")]))
    first, second = await manager.get_messages()
    assert first["content"][0]["text"] == "hello"
    assert first["odd"] == {"3": [1, ["Ellipsis"]]}
    assert second["content"] == "typed"
    await manager.close()


async def test_numbers_and_characters_that_json_does_not_know_are_written_down_in_any_place() -> None:
    manager = SummarizingContextManager()
    call = {
        "id": "c",
        "tool": "scale",
        "arguments": {"by": float("nan"), "icon": "\ud83d\ude00", "most": [float("inf")]},
    }
    await manager.add_message({"role": "assistant", "content": "", "tool_calls": [call]})
    (row,) = await manager.get_messages()
    assert row["tool_calls"][0]["arguments"] == {"by": "nan", "icon": "\U0001f600", "most": ["inf"]}
    await manager.close()


def test_sets_are_written_in_one_order() -> None:
    assert as_json({"b", "a", "c"}) == ["a", "b", "c"]


async def test_a_value_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    manager = SummarizingContextManager()
    with pytest.raises(MessageError):
        await manager.add_message({"role": "user", "content": endless})
    await manager.close()
