"""What may enter the log, and that it comes out as it went in."""

from __future__ import annotations

import json
from collections import UserDict
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.errors import MessageError
from summarizing_context.messages.validation import (
    MAX_DEPTH,
    canonical_json,
    check_message,
    decode_message,
    encode_message,
    parse_message,
    parse_messages,
)
from tests.making import JSON, ODD_MESSAGES, user


class Word(StrEnum):
    USER = "user"


class Number(IntEnum):
    TWO = 2


def nested(levels: int) -> object:
    value: object = "deep"
    for _ in range(levels):
        value = [value]
    return value


@given(ODD_MESSAGES)
@settings(max_examples=150, deadline=None)
def test_a_checked_message_is_what_json_would_give_back(message):
    assert check_message(message) == message == json.loads(json.dumps(message))
    stored = encode_message(check_message(message))
    assert decode_message(stored) == message


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=8), max_size=3), st.text(max_size=20))
@settings(max_examples=150, deadline=None)
def test_lone_surrogates_pass_and_pairs_of_them_are_refused_as_json_would_join_them(rest, text):
    message = {**rest, "role": "user", "content": text}
    try:
        checked = check_message(message)
    except MessageError:
        assert json.loads(json.dumps(message)) != message
    else:
        assert decode_message(encode_message(checked)) == json.loads(json.dumps(message)) == message


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "text",
        b"bytes",
        [],
        ("role", "user"),
        {},
        {"content": "no role"},
        {"role": None},
        {"role": ""},
        {"role": 5},
        {"role": "user", "content": float("nan")},
        {"role": "user", "content": float("inf")},
        {"role": "user", "content": ("a", "tuple")},
        {"role": "user", "content": {"a", "set"}},
        {"role": "user", "content": b"bytes"},
        {"role": "user", "content": object()},
        {"role": "user", 5: "key"},
        {"role": "user", "content": {None: 1}},
        {"role": "user", "content": 1 << 20_000},
        {"role": "user", "content": "\ud83d\ude00"},
        {"role": "user", "content": nested(MAX_DEPTH)},
        {"role": "user", "content": UserDict(a=1)},
    ],
)
def test_what_is_no_message_is_refused(wrong):
    with pytest.raises(MessageError):
        check_message(wrong)


def test_the_refusal_says_where_and_not_what():
    with pytest.raises(MessageError, match=r"content\[1\]\.input") as refused:
        check_message({"role": "user", "content": [{}, {"input": {"secret words"}}]})
    assert "secret words" not in str(refused.value)


WRONG = st.sampled_from([float("nan"), {1}, b"secret", 1 << 20_000, "\ud83d\ude00", nested(MAX_DEPTH), object])
SECRET = st.integers(1, 100_000).map(lambda times: "Jane Doe 4111 " * (1 + times // 1_000))


@given(
    WRONG,
    st.lists(
        st.one_of(SECRET, st.none(), SECRET.map(lambda key: (key,)), SECRET.map(str.encode)), min_size=1, max_size=9
    ),
)
@settings(max_examples=150, deadline=None)
def test_no_refusal_quotes_a_key_or_a_value_however_long(wrong, keys):
    value = wrong
    for key in keys:
        value = [value] if key is None else {"other": "secret", key: value}
    with pytest.raises(MessageError, match="message") as refused:
        check_message({"role": "user", "content": [{"type": "text"}, value]})
    said = str(refused.value)
    assert "Jane" not in said
    assert "secret" not in said
    assert len(said) < 300
    assert "message.content[1]" in said


def test_depth_up_to_the_limit_passes_and_round_trips():
    message = {"role": "user", "content": nested(MAX_DEPTH - 1)}
    stored = encode_message(check_message(message))
    assert decode_message(stored) == message


def test_the_copy_shares_nothing_with_the_original():
    message = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    checked = check_message(message)
    message["content"][0]["text"] = "b"
    message["content"].append("c")
    assert checked == {"role": "user", "content": [{"type": "text", "text": "a"}]}


def test_subclasses_become_plain_values():
    checked = check_message(UserDict({"role": Word.USER, "content": [Number.TWO]}))
    assert (type(checked), type(checked["role"]), type(checked["content"][0])) == (dict, str, int)


def test_several_messages_are_refused_by_their_place():
    with pytest.raises(MessageError, match="message 1"):
        parse_messages([user("a"), {"content": "b"}])


@pytest.mark.parametrize("wrong", [None, 5, "text", b"x", {"role": "user"}])
def test_a_list_of_messages_has_to_be_one(wrong):
    with pytest.raises(MessageError, match="list of messages"):
        parse_messages(wrong)


def test_messages_may_come_from_any_iterable():
    assert [message for message, _ in parse_messages(iter([user("a")]))] == [user("a")]


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=5))
@settings(max_examples=60, deadline=None)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value):
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(backwards)
    assert json.loads(canonical_json(value)) == value


MANY = [{"type": "text", "text": f"line {at}"} for at in range(5_000)]


@pytest.mark.parametrize(
    "message",
    [
        user("hi"),
        user("x" * 3_000_000),
        user("\ud800 half of a character" * 20),
        user(MANY),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": MANY}]},
        {"role": "assistant", "content": "so", "reasoning": {"vector": [0.25, -1, 10**18, 1e300] * 5_000}},
        {"role": "user", "content": nested(MAX_DEPTH - 1)},
    ],
    ids=list("abcdefg"),
)
def test_a_message_of_any_size_is_parsed_into_a_copy_and_its_bytes(message):
    expected = json.dumps(message)
    copy, data = parse_message(message)
    message["content"] = None
    assert json.dumps(copy) == json.dumps(decode_message(data)) == expected


@pytest.mark.parametrize("wide", [[], ["x"] * 1_000], ids=["one", "many"])
@pytest.mark.parametrize(
    "wrong", [("a", "tuple"), float("nan"), {1: "key"}, b"bytes", nested(MAX_DEPTH), 1 << 20_000], ids=list("abcdef")
)
def test_what_no_message_may_hold_is_refused_in_a_wide_message_too(wide, wrong):
    with pytest.raises(MessageError):
        parse_message(user([*wide, wrong]))
