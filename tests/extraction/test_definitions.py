"""Definitions in what a human says: found where a value or a name stands right behind a verb of being."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.definitions import as_said, definitions

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
    assert as_said(found.subject) in text


@pytest.mark.parametrize("text", UNDEFINED)
def test_what_only_sounds_like_a_definition_is_none(text: str):
    assert list(definitions([text])) == []


def test_a_document_that_was_pasted_defines_nothing():
    assert list(definitions([" ".join(f"The port is 80{number:02}." for number in range(40))])) == []
