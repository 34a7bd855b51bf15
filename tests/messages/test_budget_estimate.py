"""The built-in counter of budgets, against the true count."""

from __future__ import annotations

import random
import string
import unicodedata
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.messages.estimate import budget_tokens, estimate_text, estimates
from tests.messages.test_estimate import (
    BLOCKS,
    CODES,
    NUMBERED,
    PROSE,
    in_words,
    letters,
    prose_and_code,
    true_count,
)

DICE = random.Random(31)  # seeded anew for each kind of text


def words(alphabet: str, shortest: int, longest: int) -> str:
    return " ".join("".join(DICE.choices(alphabet, k=DICE.randint(shortest, longest))) for _ in range(500))


def lines_of_hexdump() -> Iterator[str]:
    for at in range(0, 2_000, 16):
        data = DICE.randbytes(16)
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
        yield f"{at:08x}  {data[:8].hex(' ')}  {data[8:].hex(' ')}  |{shown}|"


MORE_CODES: dict[str, Callable[[], str]] = {
    "hexdump -C": lambda: "\n".join(lines_of_hexdump()),
    "words of capital hex": lambda: words(string.digits + "ABCDEF", 2, 8),
    "words of hex": lambda: words(string.digits + "abcdef", 2, 8),
    "codons": lambda: words("ACGT", 3, 3),
    "small codons": lambda: words("acgt", 3, 3),
    "amino acids": lambda: words("ACDEFGHIKLMNPQRSTVWY", 10, 10),
    "capital words": lambda: words(string.ascii_uppercase, 2, 6),
    "words of base64": lambda: words(string.ascii_letters + string.digits + "+/", 4, 20),
    "numbers": lambda: " ".join(str(DICE.randint(0, 10 ** DICE.randint(1, 9))) for _ in range(400)),
    "fractions of many digits": lambda: ", ".join(f"{DICE.random() * 100:.4f}" for _ in range(300)),
    "digits": lambda: "".join(DICE.choices(string.digits, k=3_000)),
    "bits": lambda: "".join(DICE.choices("01", k=3_000)),
    "control characters": lambda: "".join(DICE.choices([chr(code) for code in (*range(32), 127)], k=3_000)),
    "zeros of a binary file": lambda: "\0" * 3_000,
    "words between zeros": lambda: "\0".join(f"{'worker' * (at % 2)}\x01row" for at in range(400)),
    "coloured lines": lambda: "\n".join(f"\x1b[{30 + at % 8};1mtest_{at}\x1b[0m ok" for at in range(200)),
    "a progress bar": lambda: "\r\x1b[K".join(f"{at}%" for at in range(100)),
    "paths of a drawing": lambda: " ".join(
        f"{DICE.choice('MLCSQz')}{DICE.random() * 100:.2f},{DICE.random() * 100:.2f}" for _ in range(200)
    ),
    "octal words": lambda: "\n".join(
        f"{at:07o} " + " ".join(f"{DICE.getrandbits(16):06o}" for _ in range(8)) for at in range(0, 1_600, 16)
    ),
}


@pytest.mark.parametrize("kind", sorted(CODES | MORE_CODES))
def test_codes_and_random_letters_are_not_undercounted(kind):
    DICE.seed(kind)
    text = (CODES | MORE_CODES)[kind]()
    assert budget_tokens(text) >= 0.8 * true_count(text)


@pytest.mark.parametrize("script", sorted(BLOCKS))
def test_no_script_is_undercounted(script):
    first, last = BLOCKS[script]
    alphabet = "".join(chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) != "Cn")
    for text in (letters(alphabet, 1_500), in_words(alphabet, 200), f"a word, then {letters(alphabet, 300)} and more"):
        assert budget_tokens(text) >= 0.8 * true_count(text)


LINES = "int read_row(const char *path);\nint write_row(const char *path, int row);\n\n"
RULED = {  # as the files of whole projects begin, with a few lines of code each
    "a licence": f"//===--- Parser.h - Reads rows ------------------------------*- C++ -*-===//\n//\n{LINES * 3}" * 9,
    "a heading": f"/*----------------------------------------------------------------\n * rows.h\n */\n{LINES * 3}" * 9,
    "a banner": f"############################################################\n#  Settings  #\n{LINES * 3}" * 9,
    "stars": f"/**********************************************************************/\n{LINES * 3}" * 9,
    "underlined": "Reading rows\n============\n\nThe parser keeps every row.\n\n" * 20,
}
WRITTEN = {kind: make() for kind, make in NUMBERED.items()} | {language: text * 5 for language, text in PROSE.items()}


@pytest.mark.parametrize("kind", sorted(WRITTEN | RULED))
def test_prose_lists_and_ruled_lines_are_counted_within_a_half(kind):
    text = (WRITTEN | RULED)[kind]
    assert 0.8 * true_count(text) <= budget_tokens(text) <= 1.5 * true_count(text)


@pytest.mark.parametrize("path", prose_and_code(), ids=lambda path: path.name)
def test_files_of_prose_and_code_are_counted_within_a_quarter(path):
    text = path.read_text(encoding="utf-8")
    assert 0.8 * true_count(text) <= budget_tokens(text) <= 1.25 * true_count(text)


@given(st.text(st.characters(), max_size=300))
@settings(deadline=None)
def test_any_text_is_counted_and_cut_by_the_measure_that_stays(text):
    cut, budget = estimates(text)
    assert cut == estimate_text(text)
    assert budget >= bool(text)


@given(st.text('ehrstEB01("\r\0\x1b', min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_one_text_again_and_again_costs_half_of_the_other_measure_at_least(text):
    again = text * 200
    assert 2 * budget_tokens(again) >= estimate_text(again)


@given(st.text(string.printable + "жи文", max_size=200), st.text(string.printable + "жи文", max_size=200))
@settings(deadline=None)
def test_a_text_of_two_costs_no_more_than_both_but_for_where_they_meet(one, two):
    assert budget_tokens(one + two) <= budget_tokens(one) + budget_tokens(two) + 12


def test_a_text_of_megabytes_is_counted_in_pieces():
    line = "bcdfgh Qz9 говорить 文 1234\n"
    piece = (line * (500_000 // len(line) + 1))[:500_000]
    assert budget_tokens(piece * 2 + line) == 2 * budget_tokens(piece) + budget_tokens(line)
