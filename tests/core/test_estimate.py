"""The built-in measure of tokens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.core.estimate import estimate_text

SCALED = [  # text, tokens: pinned, because segments are cut by them on every host
    ("", 0),
    ("a", 1),
    ("hello world", 2),
    ("1234567890", 7),
    ("\n" * 10, 10),
    ("(){}[];:,.", 7),
    ("ÄÖÜ", 4),
    ("世界", 4),
    ("\x00\x1b", 2),
]


def test_the_measure_stays_as_it_is():
    assert [(text, estimate_text(text)) for text, _ in SCALED] == SCALED


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_is_measured_and_longer_texts_are_not_smaller(one, two):
    both = estimate_text(one + two)
    assert max(estimate_text(one), estimate_text(two)) <= both <= estimate_text(one) + estimate_text(two) + 1


def test_lone_surrogates_are_measured():
    assert estimate_text("\ud800") > 0


def test_plain_english_is_about_a_token_for_four_to_six_characters():
    text = "The quick brown fox jumps over the lazy dog and goes home. " * 20
    assert len(text) / 6 < estimate_text(text) < len(text) / 4
