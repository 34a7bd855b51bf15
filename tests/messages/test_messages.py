"""What is read in messages of each dialect."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from summarizing_context.errors import MessageError
from summarizing_context.messages.parts import call_id
from summarizing_context.messages.reading import is_reminder, message_text_parts, read_message
from tests.making import ODD_MESSAGES, answer, assistant, call, one_call, result, system, user

DIALECTS = pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])


def kinds(message: dict) -> list[str]:
    return [part.kind for part in read_message(message).parts]


@given(ODD_MESSAGES)
@settings(max_examples=150, deadline=None)
def test_reading_never_raises_and_calls_and_answers_stand_in_the_parts(message):
    reading = read_message(message)
    assert set(reading.calls) <= {part.id for part in reading.parts if part.kind == "call"}
    assert set(reading.answers) <= {part.id for part in reading.parts if part.kind == "result"}
    assert all(isinstance(text, str) for text in reading.texts)
    assert hash(reading) == hash(read_message(message))


@DIALECTS
def test_calls_are_read_in_order_with_name_and_arguments(dialect):
    message = call(dialect, ("a", "read", {"path": "x"}), ("b", "run", {}), text="Look.")
    reading = read_message(message)
    assert reading.calls == ("a", "b")
    assert reading.texts == ["Look.", "read", '{"path":"x"}', "run", "{}"] or reading.texts[2] == '{"path": "x"}'


@DIALECTS
def test_a_result_answers_its_call_and_is_no_human_text(dialect):
    reading = read_message(result(dialect, "a", "1 passed"))
    assert (reading.answers, reading.texts, reading.human) == (("a",), ["1 passed"], False)


def test_a_call_listed_beside_its_block_counts_once():
    message = call("amplifier", ("a", "read", {"path": "x"}))
    assert message["tool_calls"]
    assert read_message(message).calls == ("a",)


def test_a_call_answered_in_its_own_message_binds_nothing():
    blocks = [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "tool_result", "tool_use_id": "a"}]
    reading = read_message(assistant(blocks))
    assert (reading.calls, reading.answers) == ((), ())


@pytest.mark.parametrize("odd", [[], {}, 5, None, True])
def test_a_block_whose_type_is_no_string_is_read_as_opaque(odd):
    assert kinds(user([{"type": odd, "text": "x"}])) == ["opaque"]
    assert kinds({"role": "tool", "tool_call_id": "a", "content": [{"type": odd}]}) == ["result"]
    assert kinds(assistant([{"type": odd}]) | {"tool_calls": [{"id": odd, "function": {}}]}) == ["opaque", "call"]


def test_failures_are_seen_in_blocks_and_in_messages():
    failed = result("anthropic", "a", "boom", failed=True)
    assert read_message(failed).parts[0].failed
    assert read_message(answer("a") | {"status": "error"}).parts[0].failed
    assert not read_message(answer("a")).parts[0].failed


def test_signatures_and_encrypted_thinking_are_not_text():
    blocks = [
        {"type": "thinking", "thinking": "let me see", "signature": "x" * 500},
        {"type": "redacted_thinking", "data": "y" * 500},
    ]
    assert read_message(assistant(blocks)).texts == ["let me see"]


def test_what_nobody_reads_is_charged_all_the_same():
    blocks = [
        {"type": "thinking", "thinking": "let me see", "signature": "x" * 500},
        {"type": "redacted_thinking", "data": "y" * 500},
        {"type": "blob", "data": "z" * 500},
    ]
    assert set(message_text_parts(assistant(blocks))) >= {"let me see", "x" * 500, "y" * 500, "z" * 500}


def test_thinking_that_stands_in_two_fields_is_read_once_and_charged_twice():
    said = {"reasoning": "why not", "reasoning_details": [{"type": "reasoning.text", "text": "why not"}]}
    assert read_message(assistant("yes") | said).texts == ["why not", "yes"]
    assert message_text_parts(assistant("yes") | said) == ["why not", "yes", "why not", "reasoning.text"]


@pytest.mark.parametrize(
    "noted",
    [
        {"metadata": {"note": "a long story " * 50}},
        {"timestamp": "2026-11-20T10:00:00Z", "created_at": 5, "usage": {"input_tokens": 5}},
        {"_seq": "7" * 500},
        {"annotations": [], "refusal": None, "is_error": False, "index": 3},
    ],
)
def test_notes_that_are_never_sent_and_empty_fields_are_not_charged(noted):
    assert message_text_parts(assistant("yes") | noted) == ["yes"]


def test_the_framing_pays_for_the_role_and_one_type_and_all_else_of_the_frame_is_charged_but_read_by_nobody():
    flags = {"id": "msg_1", "name": "Kim", "status": "completed", "tool_call_id": "a"}
    assert message_text_parts(assistant("yes") | flags) == ["yes", "msg_1", "Kim", "completed", "a"]
    assert read_message(assistant("yes") | flags).texts == ["yes"]
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert message_text_parts(user([block, block])) == ["a", "a", "ephemeral", "text", "ephemeral"]
    called = [{"type": "function", "id": at, "function": {"name": "f", "arguments": "{}"}} for at in ("c1", "c2")]
    assert message_text_parts({"role": "assistant", "content": None, "tool_calls": called}) == [
        *("f", "{}", "f", "{}"),
        *("c1", "function", "c2"),
    ]


def test_a_frame_too_long_for_any_provider_counts():
    assert message_text_parts(assistant("yes") | {"id": "m" * 65}) == ["yes", "id", "m" * 65]
    assert "c" * 65 in message_text_parts(one_call("c" * 65, dialect="anthropic"))


def test_the_text_parts_of_gemini_are_texts_and_its_other_parts_are_read_as_they_are():
    message = {"role": "user", "parts": [{"text": "look"}, {"functionResponse": {"name": "f", "response": {"a": "b"}}}]}
    reading = read_message(message)
    assert (reading.texts[0], reading.human) == ("look", True)
    assert kinds(message) == ["text", "opaque"]


def test_thinking_beside_the_content_is_read_once():
    message = assistant([{"type": "thinking", "thinking": "hm"}]) | {"reasoning_content": "hm"}
    assert read_message(message).texts == ["hm"]
    assert read_message(assistant("yes") | {"reasoning_content": "hm"}).texts == ["hm", "yes"]


def test_media_are_counted_and_their_bytes_are_not_text():
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 2_000}}
    reading = read_message(user([image, {"type": "text", "text": "this"}]))
    assert (reading.media, reading.texts) == (1, ["this"])
    other = read_message(user([{"type": "image", "source": {"type": "base64", "data": "B" * 2_000}}]))
    assert other.parts[0].media != reading.parts[0].media


def test_base64_in_unknown_blocks_is_left_out_and_the_rest_is_read():
    (text,) = read_message(user([{"type": "blob", "name": "plan.pdf", "data": "A" * 5_000}])).texts
    assert "plan.pdf" in text
    assert len(text) < 100


def test_refusals_and_legacy_calls_are_read_after_the_content():
    message = {"role": "assistant", "content": "hm", "refusal": "no", "function_call": {"name": "f"}}
    assert read_message(message).texts == ["hm", "no", '{"name":"f"}']


@pytest.mark.parametrize(
    ("message", "human"),
    [
        (user("hello"), True),
        (user("  <system-reminder>be quick</system-reminder>"), False),
        (user("hello") | {"metadata": {"source": "hook"}}, False),
        (user([{"type": "text", "text": "<system-reminder>x"}, {"type": "text", "text": "but I say"}]), True),
        (assistant("hello"), False),
        (system("hello"), False),
        (user(""), False),
    ],
)
def test_human_words_are_told_from_reminders_and_hooks(message, human):
    assert read_message(message).human is human


def test_flags_are_read_at_the_top_and_in_the_metadata():
    assert read_message(user("x") | {"critical": True}).critical
    assert read_message(user("x") | {"metadata": {"critical": True}}).critical
    assert read_message(user("x") | {"ephemeral": True}).ephemeral
    assert read_message(user("x") | {"metadata": {"ephemeral": True}}).ephemeral
    assert not read_message(user("x") | {"metadata": {"ephemeral": True, "persisted": True}}).ephemeral


def test_a_call_or_result_is_never_ephemeral():
    assert not read_message(one_call("a") | {"ephemeral": True}).ephemeral
    assert not read_message(answer("a") | {"ephemeral": True}).ephemeral


def test_text_parts_are_public_and_refuse_what_is_no_message():
    assert message_text_parts(user("hello")) == ["hello"]
    with pytest.raises(MessageError):
        message_text_parts({"content": "no role"})


def test_ids_are_texts_whatever_value_they_are():
    assert [call_id(value) for value in ("a", None, 5, {"n": 1})] == ["a", "", "5", '{"n":1}']


def test_a_reminder_may_be_indented():
    assert is_reminder("\n  <system-reminder>")
    assert not is_reminder("see <system-reminder>")
