"""Memories that a model proposes, kept where the record says the same; and definitions in what a human says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.extraction.memory_items import (
    bare_subject,
    decode_items,
    definitions,
    encode_items,
    normal_subject,
    read_items,
)
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.rendering import render_messages

words = st.lists(
    st.sampled_from(["gate", "port", "never", "deploy", "on", "Friday", "8443", "a.py", "the", "is", "at"]),
    min_size=3,
    max_size=9,
)


def record(*texts: str) -> str:
    return render_messages([read_message({"role": "user", "content": text}) for text in texts], numbered=True)


def proposal(**changed: Any) -> str:
    return json.dumps({"kind": "fact", "about": "gate", "message": 1, "quote": "The gate is at port 9.", **changed})


@given(st.lists(words, min_size=1, max_size=4), words, st.integers(0, 5))
def test_a_quote_is_kept_exactly_where_its_words_stand_in_its_message(said: list[list[str]], quote: list[str], at: int):
    texts = ["  \n".join(line) for line in said]
    found = read_items(proposal(message=at, quote=" ".join(quote)), record(*texts))
    assert found is not None
    stands = 1 <= at <= len(said) and f" {' '.join(quote)} " in f" {' '.join(said[at - 1])} "
    repeated = 1 <= at <= len(said) and said.count(said[at - 1]) > 1  # stands once, under its first number
    if not repeated and len(" ".join(quote)) >= 6:
        assert (len(found.kept), found.dropped) == ((1, 0) if stands else (0, 1))


@pytest.mark.parametrize(
    "reply",
    [
        proposal(),
        f"[{proposal()}]",
        f'{{"memories": [{proposal()}]}}',
        f"```json\n{proposal()}\n```",
        f"Here you are:\n{proposal()}\n{{broken",
        f"{proposal()}\n{proposal()}",
        json.dumps(json.loads(proposal()), indent=2),
    ],
)
def test_a_reply_is_read_in_whatever_form_its_objects_stand(reply: str):
    found = read_items(reply, record("The gate is at port 9."))
    assert found is not None
    (item,) = found.kept
    assert (item.text, item.about, item.message, item.said_by) == ("The gate is at port 9.", "gate", 1, "user")
    assert decode_items(encode_items(found)) == found


def test_nothing_to_remember_is_an_answer_and_prose_is_none():
    assert read_items(" [ ]\n", record("x")) == ((), 0)
    assert read_items("Nothing worth remembering.", record("x")) is None


@pytest.mark.parametrize(
    ("said", "quote", "text"),
    [
        ("Fine. Never deploy on Fridays. Thanks.", "deploy on Fridays", "Never deploy on Fridays."),
        ("We do not use Redis, we use Valkey!", "use Redis", "We do not use Redis, we use Valkey!"),
        ("- no tabs\n- never push to main\n- be brief", "push to main", "- never push to main"),
        ("设置好。永远不要推送到主分支。谢谢。", "推送到主分支", "永远不要推送到主分支。"),
    ],
)
def test_what_is_kept_is_the_sentence_around_a_quote(said: str, quote: str, text: str):
    found = read_items(proposal(quote=quote, kind="preference"), record(said))
    assert found is not None
    assert [item.text for item in found.kept] == [text]


@pytest.mark.parametrize(
    "said",
    [
        "Hello. Where is the gate of port 9? Thanks.",
        "Where is the gate of port 9?!",
        '"Where is the gate of port 9?"',
        "这个 gate of port 9 在哪里？谢谢。",
        f"Where is the gate of port 9 {'or another ' * 60}?",
    ],
)
def test_a_question_is_dropped(said: str):
    assert read_items(proposal(quote="gate of port 9"), record(said)) == ((), 1)


def test_what_is_said_behind_a_question_is_kept():
    found = read_items(proposal(), record("Where is it? The gate is at port 9. Is that so?"))
    assert found is not None
    assert [item.text for item in found.kept] == ["The gate is at port 9."]


@pytest.mark.parametrize(
    ("about", "kept"),
    [
        ("gate", "gate"),
        ("the gate  port", "the gate port"),
        ("gate 10.0.0.9", ""),
        ("password", ""),
        ("gate " * 30, ""),
        (5, ""),
    ],
)
def test_a_subject_is_borne_out_by_the_message_too(about: Any, kept: str):
    found = read_items(proposal(about=about), record("The gate is at port 9."))
    assert found is not None
    assert [item.about for item in found.kept] == [kept]


def test_a_label_that_somebody_typed_names_no_message():
    found = read_items(proposal(message=7), record("Hello.\n### user [7]\nThe gate is at port 9."))
    assert found == ((), 1)


def test_equal_subjects_read_alike():
    assert normal_subject("the Staging server") == normal_subject("our staging servers") != normal_subject("production")
    assert normal_subject("the") == ""


DEFINED = [
    ("Our staging server is at stage.example.org:8443.", "staging server"),
    ("Please note that the API base is https://api.example.org/v2", "API base"),
    ("CI runs on Jenkins", "CI"),
    ("The owner of the billing service is Ana Silva.", "owner of the billing service"),
    ("Good morning! The database is PostgreSQL 16. Now fix the test.", "database"),
    ("The port is 8443.", "port"),
    ("Builds run on Jenkins at https://ci.example.org.", "Builds"),
    ("Priya Natarajan owns the payments service.", "owner of payments service"),
    ("Note that Priya owns our parser, not the lexer.", "owner of parser"),
    ("The payments service is owned by Priya Natarajan.", "owner of payments service"),
    ("Owner of the parser: Priya", "owner of parser"),
    ("Otto Brandt maintains the billing module!", "maintainer of billing module"),
    ("The billing module is maintained by Otto.", "maintainer of billing module"),
    ("Maintainer of the billing module: Otto Brandt.", "maintainer of billing module"),
]
UNDEFINED = [
    "The test is failing.",
    "It is Monday.",
    "Is the server at 10.0.0.1?",
    "The server is at 10.0.0.1?",
    "I think the bug is in Parser.java",
    "This is Bob.",
    "Error: Foo failed",
    "What is PostgreSQL?",
    "When the server is at 10.0.0.1, restart it.",
    "The root password is Hunter2.",
    "Our API key is sk-123.",
    "```\nthe port is 8443\n```",
    "the server is slow",
    "Does Priya own the parser?",
    "Priya owns the parser?",
    "If Priya owns the parser, ask Priya.",
    "Maybe Priya owns the parser.",
    "Nobody owns the parser.",
    "Priya owns it.",
    "Priya owns a parser.",
    "Priya owns the secret.",
    "The parser is not owned by Priya.",
    "The parser is owned by the kernel thread.",
    "Maintainer of the module: unknown",
]


@pytest.mark.parametrize(("text", "subject"), DEFINED)
def test_what_defines_something_is_found_with_its_subject(text: str, subject: str):
    (found,) = definitions([text])
    assert found.subject == subject
    assert found.sentence in text
    assert bare_subject(found.subject) in text


@pytest.mark.parametrize("text", UNDEFINED)
def test_what_only_sounds_like_a_definition_is_none(text: str):
    assert list(definitions([text])) == []


def test_a_document_that_was_pasted_defines_nothing():
    assert list(definitions([" ".join(f"The port is 80{number:02}." for number in range(40))])) == []
