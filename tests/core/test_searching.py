"""Words of queries and messages."""

from __future__ import annotations

import pytest

from summarizing_context.core.door import encode_message
from summarizing_context.core.searching import MOST_TERMS, SNIPPET, coverage, query_terms, searchable, snippet


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("", []),
        ('"( :*^ --', []),
        ("Fix the Parser", ["fix", "the", "parser"]),
        ("src/parse_config.py", ["src parse config py", "src", "parse", "config", "py"]),
        ("NEAR(a, b)", ["near a", "near", "a", "b"]),
        ("größe \ud800x", ["größe", "x"]),
    ],
)
def test_a_query_is_plain_words(query: str, terms: list[str]):
    assert query_terms(query) == terms


def test_a_pasted_page_is_searched_by_its_first_words():
    assert len(query_terms(" ".join(f"w{n}.x{n}" for n in range(1_000)))) == MOST_TERMS


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[1]", b'{"content": "no role"}', b"null", b'"text"'])
def test_bytes_that_are_no_message_hold_no_words(data: bytes):
    assert searchable(data) == ""


def test_calls_and_results_are_searched_too():
    data = b'{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"run","input":{"cmd":"ls"}}]}'
    assert searchable(data) == 'run\n{"cmd":"ls"}'


def test_coverage_forgives_the_ends_of_words():
    assert coverage(["migrations", "tulip"], "a migration") == 0.5
    assert coverage(["parse config"], "src/parse_config.py") == 1.0
    assert coverage([], "text") == 0.0


def test_a_snippet_shows_where_most_of_the_terms_are():
    text = "tulip " + "word " * 200 + "the billing tables\nand the tulip " + "word " * 200
    shown = snippet(["billing", "tulip"], text)
    assert "billing tables and the tulip" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= SNIPPET + 2
    assert snippet(["zebra"], "short  text") == "short text"


def test_half_a_character_is_searched_around():
    searchable(encode_message({"role": "user", "content": "left \ud800 right"})).encode()
