"""Pairs of letters that words seldom have."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from summarizing_context.messages.estimate import SELDOM, repeated_pairs, seldom_pairs

rng = random.Random(22)
PAIRS = {one + other for firsts, seconds in SELDOM.items() for one in firsts for other in seconds}


@pytest.mark.parametrize("size", [0, 1, 2, 300, 32_767, 32_768, 32_769, 32_770, 70_000])
def test_each_pair_is_found_once_whatever_the_size(size):
    text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCQXYZ 01\né", k=size)).encode().replace(b"bc", b"xXxq")
    lowers = text.lower().decode()
    expected = sum(one + other in PAIRS for one, other in pairwise(lowers))
    assert seldom_pairs(text) == expected
    threes = zip(lowers, lowers[1:], lowers[2:], strict=False)
    assert repeated_pairs(text) == sum(one == two == three and one * 2 in PAIRS for one, two, three in threes)


def test_words_have_few_of_them_and_letters_by_chance_many():
    words = b"The parser keeps every row until the worker has written it, and returns user.displayName in time."
    assert seldom_pairs(words) <= len(words) // 20
    assert seldom_pairs(bytes(rng.choices(b"abcdefghijklmnopqrstuvwxyz", k=1_000))) > 400
