"""Pairs of Latin letters that words and code seldom have: what tells letters that stand by chance from words.

Pure. `estimate` counts with these tables. `python -m evals.letter_pairs` makes `SELDOM` from the vocabulary of
o200k_base.
"""

from __future__ import annotations

from string import ascii_lowercase

SELDOM = {  # first letters, and the letters that seldom follow any of them
    "a": "aejoqxz",
    "e": "ou",
    "fh": "bcdfghjkmnpqsvwxyz",
    "gp": "bcdfgjkmnqvwxyz",
    "i": "hiuwy",
    "lbd": "bcfghjkmnpqvwxz",
    "m": "cdfghjklnqrtvwxyz",
    "n": "bhjmpqwxz",
    "o": "aehijqxz",
    "q": "abcdefghijklmnopqrstvwxyz",
    "r": "hjpqwxz",
    "sct": "bdfgjmnqvwxz",
    "u": "hjoquwxyz",
    "x": "abcdefghijklmnoqrstuvwxyz",
    "ykwjvz": "bcdfghjklmnpqrstuvwxyz",
}


Tables = tuple[bytes, bytes]
"""A byte for each byte: its class as a first letter in the high half, as a second in the low one, and 0 for all that is
no letter. And the pairs of classes that do not count, each with the second in the high half."""


def _seldom() -> Tables:
    """Second letters are of one class if they seldom follow the same ones."""
    followed = {letter: tuple(letter in seconds for seconds in SELDOM.values()) for letter in ascii_lowercase}
    columns = sorted(set(followed.values()))
    rows = {letter: row for row, firsts in enumerate(SELDOM, start=1) for letter in firsts}
    classes = {letter: (rows[letter], columns.index(followed[letter]) + 1) for letter in ascii_lowercase}
    return _tables(
        classes, {one + other for one in ascii_lowercase for other in ascii_lowercase if _is_seldom(one, other)}
    )


def _alike() -> Tables:
    letters = [letter for letter in ascii_lowercase if _is_seldom(letter, letter)]
    return _tables({letter: (at, at) for at, letter in enumerate(letters, start=1)}, {letter * 2 for letter in letters})


def _is_seldom(one: str, other: str) -> bool:
    return any(one in firsts and other in seconds for firsts, seconds in SELDOM.items())


def _tables(classes: dict[str, tuple[int, int]], pairs: set[str]) -> Tables:
    table = bytearray(256)
    for letter, (first, second) in classes.items():
        table[ord(letter)] = table[ord(letter.upper())] = first << 4 | second
    counted = {classes[other][1] << 4 | classes[one][0] for one, other in map(tuple, pairs)}
    return bytes(table), bytes(set(range(256)) - counted)


SELDOM_PAIRS = _seldom()

REPEATED_PAIRS = _alike()  # of these, one letter twice
