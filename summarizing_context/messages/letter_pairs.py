"""Pairs of Latin letters that words and code seldom have: what tells letters that stand by chance from words.

Pure. `python -m evals.letter_pairs` makes the table from the vocabulary of o200k_base.
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


_AT_ONCE = 32_768  # bytes: larger numbers take longer for each byte

_Tables = tuple[bytes, bytes]
"""A byte for each byte: its class as a first letter in the high half, as a second in the low one, and 0 for all that is
no letter. And the pairs of classes that do not count, each with the second in the high half."""


def _seldom() -> _Tables:
    """Second letters are of one class if they seldom follow the same ones."""
    followed = {letter: tuple(letter in seconds for seconds in SELDOM.values()) for letter in ascii_lowercase}
    columns = sorted(set(followed.values()))
    rows = {letter: row for row, firsts in enumerate(SELDOM, start=1) for letter in firsts}
    classes = {letter: (rows[letter], columns.index(followed[letter]) + 1) for letter in ascii_lowercase}
    return _tables(
        classes, {one + other for one in ascii_lowercase for other in ascii_lowercase if _is_seldom(one, other)}
    )


def _alike() -> _Tables:
    letters = [letter for letter in ascii_lowercase if _is_seldom(letter, letter)]
    return _tables({letter: (at, at) for at, letter in enumerate(letters, start=1)}, {letter * 2 for letter in letters})


def _is_seldom(one: str, other: str) -> bool:
    return any(one in firsts and other in seconds for firsts, seconds in SELDOM.items())


def _tables(classes: dict[str, tuple[int, int]], pairs: set[str]) -> _Tables:
    table = bytearray(256)
    for letter, (first, second) in classes.items():
        table[ord(letter)] = table[ord(letter.upper())] = first << 4 | second
    counted = {classes[other][1] << 4 | classes[one][0] for one, other in map(tuple, pairs)}
    return bytes(table), bytes(set(range(256)) - counted)


_SELDOM, _ALIKE = _seldom(), _alike()

_IS_ALIKE = bytes(code not in _ALIKE[1] for code in range(256))


def seldom_pairs(data: bytes) -> int:
    """How many pairs of neighbouring letters are seldom in words."""
    classes, others = _SELDOM
    return len(pairs_of(data, classes).translate(None, others))


def repeated_pairs(data: bytes) -> int:
    """How many of these are the one letter of the pair before once more, as in a row of x."""
    marks = b"\0" + pairs_of(data, _ALIKE[0]).translate(_IS_ALIKE)
    return marks.count(1) - marks.count(b"\0\1")


def pairs_of(data: bytes, classes: bytes) -> bytes:
    """A byte for each pair of neighbours: the class of the first in the low half, of the second in the high one. The
    last byte has no second."""
    if len(data) > _AT_ONCE:
        parts = (data[start : start + _AT_ONCE + 1] for start in range(0, len(data), _AT_ONCE))
        return b"".join(_pairs(part, classes)[:_AT_ONCE] for part in parts)
    return _pairs(data, classes)


def _pairs(data: bytes, classes: bytes) -> bytes:
    """Half a byte further each byte is a pair."""
    return (int.from_bytes(data.translate(classes), "little") >> 4).to_bytes(len(data), "little")
