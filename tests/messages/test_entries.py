"""Log entries: bytes with facts, brought back without parsing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from summarizing_context.log.entries import decode_entry, encode_facts, make_entry
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text
from tests.making import ODD_MESSAGES, answer, entry, one_call, user


@given(ODD_MESSAGES)
@settings(max_examples=100, deadline=None)
def test_an_entry_comes_back_from_its_bytes_as_it_was(message):
    made = entry(message)
    again = decode_entry(made.data, encode_facts(made.facts, "estimate"), estimate_text, "estimate")
    assert (again.message(), again.facts, again.digest) == (message, made.facts, made.digest)


def test_stored_facts_are_believed_so_that_no_message_is_parsed():
    made = entry(user("hello"))
    again = decode_entry(b"not even json", encode_facts(made.facts, "estimate"), estimate_text, "estimate")
    assert again.facts == made.facts


def test_another_counter_counts_anew_and_changes_nothing_else():
    made = entry(user("hello"))
    again = decode_entry(made.data, encode_facts(made.facts, "estimate"), len, "letters")
    assert again.facts.text_tokens == 5
    assert (again.facts.size, again.facts.content) == (made.facts.size, made.facts.content)


def as_released(facts, counter):
    """The bytes of facts as the first release wrote them."""
    return msgspec.msgpack.encode([counter, facts, 1])


def test_facts_of_the_first_release_count_anew_only_what_was_not_counted_then():
    asked = []

    def count(text):
        asked.append(text)
        return len(text)

    plain = make_entry(user("hello"), len, "letters")
    assert decode_entry(plain.data, as_released(plain.facts, "letters"), count, "letters").facts == plain.facts
    assert asked == []
    signed = make_entry({"role": "assistant", "content": "yes", "annotations": ["see page 5"]}, len, "letters")
    then = msgspec.structs.replace(signed.facts, text_tokens=3, content=b"another digest")
    now = decode_entry(signed.data, as_released(then, "letters"), count, "letters").facts
    assert (now.text_tokens, now.content) == (signed.facts.text_tokens, b"another digest")


@pytest.mark.parametrize("kept", [b"", b"junk", b"\x93\x01\x02\x03"])
def test_unreadable_facts_are_derived_again(kept):
    made = entry(one_call("a"))
    assert decode_entry(made.data, kept, estimate_text, "estimate").facts == made.facts


def test_ids_with_lone_surrogates_come_back():
    made = entry(answer("\ud800"))
    again = decode_entry(made.data, encode_facts(made.facts, "estimate"), estimate_text, "estimate")
    assert again.facts.answers == ("\ud800",)


def test_a_message_costs_its_frame_its_texts_and_its_images():
    message = user([{"type": "text", "text": "abc"}, {"type": "image_url", "image_url": {"url": "x"}}])
    assert make_entry(message, len, "letters").cost(100) == (MESSAGE_TOKENS + 3 + 100)


def test_every_reading_of_an_entry_is_a_fresh_copy():
    made = entry(user([{"type": "text", "text": "a"}]))
    made.message()["content"].clear()
    assert made.message() == user([{"type": "text", "text": "a"}])
    assert made.read(7).seq == 7


def test_the_size_is_by_the_estimate_whatever_counter_is_used():
    assert make_entry(user("hello"), lambda text: 1_000, "much").facts.size == entry(user("hello")).facts.size
