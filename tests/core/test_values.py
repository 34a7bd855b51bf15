"""Exact values and their ranking."""

from __future__ import annotations

import pytest

from summarizing_context.core.ranking import MessageValues, Query, chosen_values, gather
from summarizing_context.core.values import exact_values, word_parts


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("see src/app.py:123 and ./x.ts, or ~/notes", ["src/app.py", "./x.ts"]),
        ("https://x.io/a?b=c. Ask a.b@c.de", ["https://x.io/a?b=c", "a.b@c.de"]),
        ("HAT-215, #1234 at 9f3e1c2", ["HAT-215", "#1234", "9f3e1c2"]),
        ("the readFile of parse_args in v2 took 120ms", ["readFile", "parse_args"]),
        ("it cost 1,234,500.20 or 12 or 4500", ["1,234,500.20", "4500"]),
        ("  1204\tdef f():\n  1205\tfoo_bar()", ["foo_bar"]),
        ("plain words, e.g. these; nothing else.", []),
    ],
)
def test_exact_values_are_found_and_plain_words_are_not(text: str, values: list[str]) -> None:
    assert exact_values(text) == values


def test_names_and_paths_are_made_of_words() -> None:
    assert word_parts("readFile src/parse_args HTTP") == {"read", "file", "src", "parse", "args", "http"}


def test_used_recent_and_related_values_go_first() -> None:
    messages = [
        (0, MessageValues(("old_one", "billing_key"), ())),
        (1, MessageValues(tuple(f"filler_{n}" for n in range(200)), ())),
        (2, MessageValues((), ("src/used.py",))),
        (900, MessageValues(("new_one",), ())),
    ]
    query = Query(word_parts("billing"), 1_000, {})
    lines = chosen_values(gather(messages, query), {"new_one"}, query, 24, lambda text: (len(text) + 3) // 4)
    assert lines[0].startswith("0: billing_key")
    assert "2: src/used.py" in lines
    assert "new_one" not in " ".join(lines)
    assert " ".join(lines).count("filler") < 4


def test_what_stands_in_a_chosen_path_is_not_listed_again() -> None:
    messages = [(3, MessageValues((), ("a/b/c_d.py", "c_d.py", "a/b")))]
    query = Query(frozenset(), 4, {})
    lines = chosen_values(gather(messages, query), (), query, 100, len)
    assert " ".join(lines).count("c_d.py") == 2  # the shorter ones are cheaper, so they may go first
