"""Words of queries and messages."""

from __future__ import annotations

import pytest

from summarizing_context.messages.search_terms import (
    MOST_TERMS,
    SNIPPET,
    coverage,
    indexed_words,
    query_terms,
    searchable,
    snippet,
    words_of,
)
from summarizing_context.messages.validation import encode_message


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("", []),
        ('"( :*^ --', []),
        ("Fix the Parser", ["fix", "the", "parser"]),
        ("src/parse_config.py", ["src parse config py", "src", "parse", "config", "py"]),
        ("NEAR(a, b)", ["near a", "near", "a", "b"]),
        ("größe \ud800x", ["größe", "x"]),
        ("数据库 v2的", ["数 据 库", "数 据", "据 库", "v2 的", "v2", "的"]),
        ("re\u0301sume\u0301", ["résumé"]),
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


def test_letters_of_unspaced_scripts_are_indexed_one_by_one():
    assert indexed_words("plain words") == "plain words"
    assert indexed_words("größe 数据x").split() == ["größe", "数", "据", "x"]
    assert list(words_of("Die Größe 数据库")) == ["die", "größe", "数 据", "据 库"]


def test_coverage_forgives_the_ends_of_words():
    assert coverage(["migrations", "tulip"], "a migration") == 0.5
    assert coverage(["parse config"], "src/parse_config.py") == 1.0
    assert coverage(["parse config"], "parse the config") == 0.0
    assert coverage(["数 据", "表 格"], "在数据库里") == 0.5
    assert coverage([], "text") == 0.0


def test_a_snippet_shows_where_most_of_the_terms_are():
    text = "tulip " + "word " * 200 + "the billing tables\nand the tulip " + "word " * 200
    shown = snippet(["billing", "tulip"], text)
    assert "billing tables and the tulip" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= SNIPPET + 2
    assert snippet(["zebra"], "short  text") == "short text"
    assert "迁移失败" in snippet(["迁 移"], "数" * 3_000 + "迁移失败" + "据" * 3_000)
    assert snippet(["x"], "İ" * 300) == "İ" * SNIPPET + "…"  # in small letters it is longer
    assert snippet(["end"], "word " * 500 + "the end").endswith("the end")


def test_half_a_character_is_searched_around():
    searchable(encode_message({"role": "user", "content": "left \ud800 right"})).encode()
