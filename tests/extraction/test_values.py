"""Exact values in a text, and those that a summary does not hold of its source."""

from __future__ import annotations

import pytest

from summarizing_context.extraction.values import MOST_DROPS, exact_values, find_drops


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("see src/app.py:123 and ./x.ts, or ~/notes", ["src/app.py", "./x.ts"]),
        ("https://x.io/a?b=c. Ask a.b@c.de", ["https://x.io/a?b=c", "a.b@c.de"]),
        ("HAT-215, #1234 at 9f3e1c2", ["HAT-215", "#1234", "9f3e1c2"]),
        ("the readFile of parse_args in v2 took 120ms", ["readFile", "parse_args"]),
        ("it cost 1,234,500.20 or 12 or 4500", ["1,234,500.20", "4500"]),
        ("  1204\tdef f():\n  1205\tfoo_bar()", ["foo_bar"]),
        ("src/app.py-12-  x\nsrc/app.py:13:y\nlib/main.go-7-", ["src/app.py", "lib/main.go"]),  # around hits
        ("build-2024 of rc.1-2", ["build-2024"]),
        ("plain words, e.g. these; nothing else.", []),
    ],
)
def test_exact_values_are_found_and_plain_words_are_not(text: str, values: list[str]) -> None:
    assert exact_values(text) == values


SOURCE = (
    '### user\nFix src/a.py for HAT-215.\n### assistant calls read\n{"path": "src/b.py"}\n'
    "### result of read\nsrc/a.py, src/c.py, 2026-03-09T14:30, 100\n### assistant\nHAT-215 is about src/b.py."
)


def test_drops_are_what_is_not_told_the_most_used_first():
    assert find_drops(SOURCE, "- Fixed `src/A.py`.") == ("HAT-215", "src/b.py")
    assert find_drops(SOURCE, "") == ("HAT-215", "src/b.py", "src/a.py")


def test_what_only_results_name_is_no_hint_nor_are_the_names_of_arguments():
    assert find_drops("### result of ls\nsrc/a.py\n### result of ls\nsrc/a.py", "") == ()
    assert find_drops('### assistant calls read\n{"file_path":"a.py","text":"b\\nsrc/c.py"}', "") == (
        "a.py",
        "src/c.py",
    )


def test_drops_are_few():
    source = "### user\n" + " ".join(f"src/f{number}.py" for number in range(40))
    assert len(find_drops(source, "")) == MOST_DROPS


def test_no_half_of_a_value_is_a_drop():
    for mark in (" ", "\n", '"'):
        source = "### user\n" + f"src/a.py{mark}".ljust(1_990, "x") + f"{mark}listCommits in src/b.py"
        assert find_drops(source, "") == ("src/a.py",)


def test_a_value_inside_of_a_longer_one_is_not_told():
    assert find_drops("### user\nHAT-21 and src/a.py", "- HAT-215 is about src/a.pyi.") == ("HAT-21", "src/a.py")
    assert find_drops("### user\nHAT-21 and src/a.py", "- HAT-21: `src/a.py`.") == ()


def test_the_escapes_of_colours_are_no_part_of_a_name():
    source = (
        "### user\n\x1b[2mgetBranches\x1b[0m\n### assistant calls run\n" + r'{"a":"\u001b[2mlistBranches\u001b[22m"}'
    )
    assert find_drops(source, "") == ("getBranches", "listBranches")
