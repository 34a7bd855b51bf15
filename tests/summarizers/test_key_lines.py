"""What is told of the middle of a long result."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.messages.estimate import estimate_text
from summarizing_context.summarizers.extractive.topics import key_lines

NOISE = [f"test_case_{n} passed without a remark" for n in range(900)]


def told(*lines: str, max_tokens: int = 200) -> list[str]:
    """Key lines of a long log with these lines in its middle."""
    return key_lines("\n".join([*NOISE[:450], *lines, *NOISE[450:]]), max_tokens=max_tokens, count=estimate_text)


def test_errors_come_first_word_for_word():
    lines = told("FAILED tests/test_io.py::test_read - OSError: disk", "ValueError: bad port 8081")
    assert lines[:2] == ["FAILED tests/test_io.py::test_read - OSError: disk", "ValueError: bad port 8081"]


def test_lines_with_exact_values_are_told():
    value = "deployed release 4.17.2 to eu-west-3 as job 88213"
    assert value in told(value)


def test_what_is_told_is_small_and_each_line_stands_once():
    lines = told(*[f"Error: part {n} of {n} is broken at 0x{n:04x}" for n in range(300)], max_tokens=100)
    assert 2 <= len(lines) == len(set(lines))
    assert estimate_text("".join(f"- {line}\n" for line in lines)) <= 100


def test_of_nothing_nothing_is_told():
    assert key_lines("", max_tokens=200, count=estimate_text) == []
    assert key_lines("x" * 9_000, max_tokens=200, count=estimate_text) == []


@given(st.text(st.sampled_from("E:rror \n\r\u2028#\\7/\x1b[\ud800"), max_size=300))
@settings(max_examples=100, deadline=None)
def test_every_line_is_one_line_and_forges_nothing(text):
    for line in key_lines(text, max_tokens=200, count=estimate_text):
        assert line.splitlines() == [line]
        assert f"- {line}".encode()
