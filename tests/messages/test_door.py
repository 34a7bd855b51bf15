"""What may enter the log, and that it comes out as it went in."""

from __future__ import annotations

import json
import marshal
from collections import UserDict
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.errors import MessageError
from summarizing_context.messages import validation
from summarizing_context.messages.validation import (
    MAX_DEPTH,
    canonical_json,
    check_message,
    check_messages,
    decode_in_steps,
    decode_message,
    encode_message,
    parse_message,
    snapshot,
    text_length,
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
    assert decode_message(stored) == decode_in_steps(stored) == message


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
    assert decode_message(stored) == decode_in_steps(stored) == message


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
        check_messages([user("a"), {"content": "b"}])


@pytest.mark.parametrize("wrong", [None, 5, "text", b"x", {"role": "user"}])
def test_a_list_of_messages_has_to_be_one(wrong):
    with pytest.raises(MessageError, match="list of messages"):
        check_messages(wrong)


def test_messages_may_come_from_any_iterable():
    assert check_messages(iter([user("a")])) == [user("a")]


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=5))
@settings(max_examples=60, deadline=None)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value):
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(backwards)
    assert json.loads(canonical_json(value)) == value


def test_text_length_tells_long_contents_from_short_ones():
    assert text_length(user("x" * 1_000)) == 1_004
    assert text_length(user([{"type": "text", "text": "x" * 1_000}])) > 1_000
    assert text_length({"role": "user"}) == 4


def test_a_long_text_inside_a_call_is_written_down_beside_the_loop_and_not_for_its_length(
    monkeypatch: pytest.MonkeyPatch,
):
    written: list[object] = []
    monkeypatch.setattr(validation, "encode_message", lambda message: written.append(message) or b"")
    function = {"name": "write", "arguments": "x" * 300_000}
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": function}]}
    assert parse_message(message) == (message, None)
    assert written == []


@pytest.mark.parametrize(
    "long",
    [
        {"content": "x" * 900},
        {"content": [{"type": "text", "text": "x" * 900}]},
        {"content": None, "reasoning_details": [{"text": "x" * 900}]},
        {"content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "x" * 900}}]},
    ],
)
def test_the_length_of_a_message_is_that_of_all_its_fields(long):
    assert 900 <= text_length({"role": "assistant", **long}) < 1_100


def wide(last: object) -> dict[str, object]:
    return {"role": "user", "content": [*({"type": "text", "text": f"line {at}"} for at in range(600)), last]}


def test_a_wide_message_of_plain_values_is_copied_at_once():
    message = wide({"type": "text", "text": "\ud800 half"})
    copy = snapshot(message)
    assert copy is not None
    message["content"].clear()
    assert check_message(copy()) == wide({"type": "text", "text": "\ud800 half"})


@pytest.mark.parametrize(
    "message",
    [{"role": "user", "content": ["hi"]}, wide(object()), wide(type("Text", (str,), {})()), {**wide(""), 1: "key"}],
)
def test_other_messages_are_not(message: object):
    assert snapshot(message) is None


def test_what_no_message_may_hold_is_refused_of_a_copy_too():
    for value in (("a", "tuple"), float("nan"), {1: "key"}, b"bytes"):
        copy = snapshot(wide(value))
        assert copy is not None
        with pytest.raises(MessageError):
            check_message(copy())


LINES = [{"type": "text", "text": f"line {at}"} for at in range(5_000)]
WIDE = {
    "blocks": {"content": LINES},
    "blocks of a result": {"content": [{"type": "tool_result", "tool_use_id": "a", "content": LINES}]},
    "fields of arguments": {
        "content": [{"type": "tool_use", "id": "a", "input": {f"line {at}": at for at in range(9_000)}}]
    },
    "fields": {f"line {at}": f"value {at}" for at in range(5_000)},
}


@pytest.mark.parametrize("kind", WIDE)
def test_a_wide_message_is_copied_in_short_steps(kind: str, monkeypatch: pytest.MonkeyPatch):
    message = {"role": "user"} | WIDE[kind]
    size, steps, loads = len(marshal.dumps(message)), list[int](), marshal.loads
    copy = snapshot(message)
    assert copy is not None
    monkeypatch.setattr(marshal, "loads", lambda data: (steps.append(len(data)), loads(data))[1])
    assert copy() == message
    assert max(steps) < size / 5


@pytest.mark.parametrize("text", ['line \\ " of it\n', "\ud83d\ude00", "é\u2028 \ud800", "x", "\ud800"])
@pytest.mark.parametrize("shift", range(3))
def test_a_long_text_is_read_run_by_run(text: str, shift: int, monkeypatch: pytest.MonkeyPatch):
    runs: list[int] = []
    scan = json.decoder.scanstring

    def noted(text: str, *how: Any) -> tuple[str, int]:
        found: tuple[str, int] = scan(text, *how)
        runs.append(len(found[0]))
        return found

    monkeypatch.setattr(json.decoder, "scanstring", noted)
    message = {"role": "user", "content": "a" * shift + text * 100_000}
    for data in (json.dumps(message).encode(), encode_message(message)):
        expected = json.loads(data)
        runs.clear()
        assert decode_in_steps(data) == expected
        assert len(runs) > 3
        assert max(runs) < 500_000
    with pytest.raises(ValueError, match="does not end"):
        decode_in_steps(json.dumps(message).encode()[:-3])
