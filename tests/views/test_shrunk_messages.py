"""Head and tail of long texts stay, and the cut says what is left out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.fences import fence
from summarizing_context.views.shrunk_messages import Price, shrink_message, shrink_note
from tests.laws.builders import assistant, call, result, user

PRICE = Price(estimate_text, 100)
LONG = " ".join(f"word{n}" for n in range(3_000))
IMAGE = {"type": "image", "source": {"type": "base64", "data": "A" * 999}}


def shrink(message: dict, cap: int = 100) -> dict:
    return shrink_message(message, PRICE.message(message), cap, PRICE).message


def test_small_parts_stay_whole_beside_long_ones():
    shown = shrink(call("openai", ("a", "read", {"path": "src/flag.py"}), text=LONG))
    assert shown["tool_calls"][0]["function"]["arguments"] == '{"path": "src/flag.py"}'
    short = {"type": "text", "text": "Look."}
    assert shrink(user([short, {"type": "text", "text": LONG}]))["content"][0] == short


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])
def test_long_arguments_keep_their_form_and_their_short_fields(dialect):
    shown = shrink(call(dialect, ("a", "write", {"path": "x.py", "text": LONG})))
    if dialect == "openai":
        arguments = json.loads(shown["tool_calls"][0]["function"]["arguments"])
    else:
        arguments = shown["content"][0]["input"]
    assert arguments["path"] == "x.py"
    assert "tokens left out" in arguments["text"]
    if dialect == "amplifier":
        assert shown["tool_calls"][0]["arguments"] == arguments


def test_arguments_that_are_no_json_are_cut_as_text():
    message = assistant("") | {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{" + LONG}}]}
    assert "left out" in shrink(message)["tool_calls"][0]["function"]["arguments"]


def test_the_other_keys_of_a_block_stay():
    block = {"type": "text", "text": LONG, "visibility": None, "cache_control": {"type": "ephemeral"}}
    (shown,) = shrink(user([block]))["content"]
    assert shown == block | {"text": shown["text"]}


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_result_keeps_its_call(dialect):
    message = result(dialect, "a", LONG)
    shown = shrink(message)
    if dialect == "openai":
        assert shown["tool_call_id"] == "a"
    else:
        assert shown["content"][0]["tool_use_id"] == "a"
    assert "word0 " in json.dumps(shown)


def test_thinking_is_dropped_whole():
    blocks = [{"type": "thinking", "thinking": LONG, "signature": "s"}, {"type": "text", "text": "So."}]
    assert shrink(assistant(blocks))["content"] == [{"type": "text", "text": "So."}]
    assert shrink(assistant("So.") | {"reasoning_content": LONG}) == assistant("So.")


def test_an_image_that_has_no_room_leaves_a_note_and_its_neighbours_alone():
    shown = shrink(user([{"type": "text", "text": "Look."}, IMAGE]), 50)
    assert shown["content"] == [{"type": "text", "text": "Look."}, {"type": "text", "text": "[image left out]"}]


@pytest.mark.parametrize("content", [None, "", "hm", [{"type": "text", "text": "hm"}]])
def test_what_stands_beside_the_content_is_cut_in_its_own_form(content):
    refused = {"role": "assistant", "content": content, "refusal": LONG}
    assert "left out" in shrink(refused)["refusal"]
    called = {"role": "assistant", "content": content, "function_call": {"name": "f", "arguments": LONG}}
    assert shrink(called)["function_call"]["name"] == "f"
    for message in (refused, called):
        assert PRICE.message(shrink(message)) <= 100


def test_a_note_is_cut_inside_its_fence():
    note = user(fence("late_result", LONG, call="a"))
    text = shrink_note(note, PRICE.message(note), 100, PRICE).message["content"]
    assert text.startswith('<late_result call="a">\nword0 ')
    assert text.endswith("word2999\n</late_result>")


TEXT = st.text(st.sampled_from('abc XY12\n.,{}世é\x1b"'), max_size=300).map(lambda text: text * 7)
BLOCK = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXT),
    st.builds(lambda text: {"type": "thinking", "thinking": text}, TEXT),
    st.builds(lambda text: {"type": "tool_use", "id": "a", "name": "f", "input": {"path": "x", "text": text}}, TEXT),
    st.builds(lambda text: {"type": "tool_result", "tool_use_id": "z", "content": text}, TEXT),
)
MESSAGES = st.one_of(
    st.builds(user, TEXT | st.lists(BLOCK, max_size=4)),
    st.builds(lambda text: result("openai", "a", text), TEXT | st.lists(BLOCK, max_size=3)),
    st.builds(lambda text, more: call("openai", ("a", "f", {"path": "x", "text": text}), text=more), TEXT, TEXT),
    st.builds(lambda text, more: assistant("") | {"content": text, "refusal": more}, st.none() | TEXT, TEXT),
    st.builds(lambda text: assistant("") | {"content": None, "function_call": {"name": "f", "arguments": text}}, TEXT),
)


@pytest.mark.parametrize("count", [estimate_text, len, lambda text: len(text) // 4], ids=["estimate", "len", "quarter"])
@given(message=MESSAGES, cap=st.integers(64, 300))
@settings(max_examples=80, deadline=None)
def test_a_shrunk_message_never_exceeds_its_cap_and_costs_what_it_says(count, message, cap):
    price = Price(count, 100)
    shown = shrink_message(message, price.message(message), cap, price)
    assert shown.tokens == price.message(shown.message)
    assert shown.tokens <= cap
    assert shown.message["role"] == message["role"]


MANY = {
    "words": user([{"type": "text", "text": f"line {n}"} for n in range(400)]),
    "files": user([IMAGE] * 400),
    "extras": user("hi") | {f"k{n}": f"v{n}" for n in range(400)},
    "result": user([{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}] * 400}]),
    "arguments": call("anthropic", ("a", "f", {f"k{n}": n for n in range(400)})),
}


@pytest.mark.parametrize("cap", [16, 40, 300])
@pytest.mark.parametrize("kind", MANY)
def test_very_many_small_parts_fit_any_cap_that_has_room_for_a_word(kind: str, cap: int):
    shown = shrink_message(MANY[kind], PRICE.message(MANY[kind]), cap, PRICE)
    assert shown.tokens == PRICE.message(shown.message) <= cap
    assert shown.message["content"]
