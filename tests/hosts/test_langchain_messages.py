"""LangChain's messages as rows of the log, and views as messages again."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from summarizing_context import MessageError
from summarizing_context.adapters.langchain.messages import KEY, History
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.validation import check_message, encode_message

CALL = {"name": "read", "args": {"path": "a.py"}, "id": "call_1", "type": "tool_call"}
BROKEN = {"name": "read", "args": '{"path": ', "id": "call_2", "error": "no JSON", "type": "invalid_tool_call"}

HISTORY = [
    SystemMessage("Be kind."),
    HumanMessage("Read both.", name="ana"),
    AIMessage(
        [
            {"type": "text", "text": "I do."},
            {"type": "tool_use", "id": "call_1", "name": "read", "input": CALL["args"]},
        ],
        tool_calls=[CALL],
        invalid_tool_calls=[BROKEN],
        additional_kwargs={"tool_calls": ["as the provider wrote them"], "other": 1},
        id="m3",
    ),
    ToolMessage("No such file.", tool_call_id="call_1", status="error", artifact=object()),
    ToolMessage([{"type": "text", "text": "Malformed."}], tool_call_id="call_2"),
    ChatMessage("Careful.", role="developer"),
    AIMessage("Both failed."),
]


def plain(message: Any) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != KEY}


def test_each_message_is_a_row_that_has_its_calls_once():
    rows = [plain(row) for row in History(HISTORY).rows]
    assert [row["role"] for row in rows] == ["developer", "user", "assistant", "tool", "tool", "developer", "assistant"]
    assert (rows[1]["name"], rows[3]["status"]) == ("ana", "error")
    assert rows[2]["content"] == [{"type": "text", "text": "I do."}]
    arguments = [call["function"]["arguments"] for call in rows[2]["tool_calls"]]
    assert arguments == ['{"path": "a.py"}', '{"path": ']
    assert plain(rows[4])["tool_call_id"] == "call_2"


def test_a_view_that_shows_all_is_the_same_objects():
    history = History(HISTORY)
    found = history.messages_of([dict(row) for row in history.rows])
    assert [one is other for one, other in zip(found, HISTORY, strict=True)] == [True] * len(HISTORY)


def test_messages_that_say_the_same_are_told_apart_by_their_order():
    twins = [HumanMessage("Go on.", id=str(number)) for number in range(3)]
    history = History(twins)
    assert [message.id for message in history.messages_of(history.rows[1:])] == ["1", "2"]


def test_a_changed_row_keeps_what_the_view_does_not_speak_of():
    history = History(HISTORY)
    row = history.rows[2]
    (found,) = history.messages_of([{**row, "content": "I…", "tool_calls": row["tool_calls"][:1]}])
    assert isinstance(found, AIMessage)
    assert (found.id, found.tool_calls, found.invalid_tool_calls) == ("m3", [CALL], [])
    assert found.additional_kwargs == {"other": 1}
    assert found.content == [{"type": "text", "text": "I…"}, HISTORY[2].content[1]]
    (result,) = history.messages_of([{**history.rows[3], "content": "No…"}])
    assert (result.content, result.status, result.artifact) == ("No…", "error", HISTORY[3].artifact)


def test_a_call_with_shortened_arguments_has_no_block_with_the_whole_ones():
    history = History(HISTORY)
    short = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "…"}'}}
    (found,) = history.messages_of([{**history.rows[2], "tool_calls": [short]}])
    assert found.content == [{"type": "text", "text": "I do."}]
    assert convert_to_openai_messages([found])[0]["tool_calls"] == [short]


def test_rows_of_no_message_become_messages_of_their_role():
    call = {"id": "call_9", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    rows = [
        {"role": "user", "content": "<history>"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_9", "content": "lost", "status": "error"},
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": "Careful."},
    ]
    found = History([]).messages_of(rows)
    assert [type(message) for message in found] == [HumanMessage, AIMessage, ToolMessage, SystemMessage, ChatMessage]
    assert found[1].tool_calls[0]["id"] == found[2].tool_call_id == "call_9"
    assert (found[1].content, found[2].status) == ("", "error")


def test_keys_follow_what_is_said_and_not_the_ids():
    keys = History([HumanMessage("Go on.", id="1"), HumanMessage("Go on.", id="2"), HumanMessage("Stop.", id="1")]).keys
    assert keys[0] == keys[1] != keys[2]


def test_what_json_cannot_say_stays_out_of_the_log_and_goes_out_as_it_came():
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG" * 9_000}}}
    odd = {"type": "json", "json": {"pair": (1, 2), "score": float("nan"), "set": {3}, 4: object()}}
    asked = HumanMessage([{"text": "What is this?"}, image, odd, "Tell me."])
    history = History([asked, HumanMessage([{"text": "What is this?"}, image])])
    rows = [check_message(row) for row in history.rows]
    assert rows == history.rows, "what the log gives back is what was given to it"
    assert len(encode_message(rows[0])) < 1_000
    assert [part.kind for part in read_message(rows[0]).parts].count("media") == 1
    assert history.messages_of(rows)[0] is asked
    assert History([asked]).keys == history.keys[:1], "the same in every request"
    cut = {**rows[0], "content": [{"text": "What…"}, *rows[0]["content"][1:3]]}
    assert history.messages_of([cut])[0].content == [{"text": "What…"}, image, odd]
    other = {"image": {"format": "png", "source": {"bytes": b"other"}}}
    assert History([HumanMessage([{"text": "What is this?"}, other])]).keys != history.keys[1:]


def test_what_cannot_be_a_row_is_told_by_its_place():
    with pytest.raises(MessageError, match="message 1: FunctionMessage cannot be sent"):
        History([HumanMessage("Hello."), FunctionMessage("8", name="add")])
