"""Estimate the tokens of a text from the classes of its bytes: for cutting segments, and for budgets.

Pure, and equal on every host. Segments are cut by `estimate_text`, never by a session's own counter, so it stays as it
is. Its weights were fitted by least squares to o200k_base on 10.8M tokens of real agent transcripts. Random letters,
base64 and hex cost more than words; `scripts` counts what is not ASCII.

Budgets are kept by `budget_tokens`, which may be mended. It goes by what each pair of neighbouring bytes costs by its
classes. It keeps to the other measure where the pairs agree with it, and in other scripts. Tokens end where the classes
of bytes say so: there are never fewer. The costs are fitted to o200k_base by `python -m evals.pair_costs`.
`python -m evals.letter_pairs` makes the table `SELDOM` from the vocabulary of o200k_base.
"""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from summarizing_context.messages.scripts import beyond_ascii

SELDOM = {  # in words and code: first letters, and the letters that seldom follow any of them
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
    followed = {letter: tuple(letter in seconds for seconds in SELDOM.values()) for letter in string.ascii_lowercase}
    columns = sorted(set(followed.values()))
    rows = {letter: row for row, firsts in enumerate(SELDOM, start=1) for letter in firsts}
    classes = {letter: (rows[letter], columns.index(followed[letter]) + 1) for letter in string.ascii_lowercase}
    return _tables(
        classes,
        {one + other for one in string.ascii_lowercase for other in string.ascii_lowercase if _is_seldom(one, other)},
    )


def _alike() -> Tables:
    letters = [letter for letter in string.ascii_lowercase if _is_seldom(letter, letter)]
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

MESSAGE_TOKENS = 4  # framing of one message

SCALE = 10_000  # integer arithmetic: no rounding that a platform could do otherwise

_LETTER, _UPPER, _DIGIT, _SPACE, _DOUBLE_SPACE = 1_764, 1_197, 6_365, 1_665, 65

_NEWLINE, _PUNCTUATION, _CONTROL = 9_502, 6_221, 10_000

_SELDOM = 12_000  # a pair of letters that words seldom have

_CHANGE = 21_000  # from a lower-case letter to a capital or a digit

_LONE = 20_000  # more for a change to a capital that no lower-case letter follows, as it would within a name

_MIXED, _MIXED_END = 20_000, 8_000  # a digit and a letter that begin or end a group; a letter and a digit that end one

_END = 8_600  # where a token must end; less than one, so that the cost of ordinary words stays

_SPLIT = 4_000  # a seldom pair, beside such ends

_PIECE_OF_WORD = 8_000  # more for what stands before a mark: it is a token of its own

_ESCAPE = 2_015  # a line break or a tab costs as JSON writes it at least what it costs itself

_CHANCE = 40_000  # so much of it may stand in any words

_AT_ONCE = 32_768  # bytes whose pairs are told at once: larger numbers take longer for each byte

_PIECE = 500_000  # characters counted at once: one call over megabytes would hold every other thread up

_LOWERS = string.ascii_lowercase.encode()

_UPPERS = string.ascii_uppercase.encode()

_DIGITS = string.digits.encode()

_PUNCTUATIONS = string.punctuation.encode()

_NON_ASCIIS = bytes(range(128, 256))

_ASCIIS = bytes(range(128))


def _table(**classes: str) -> bytes:
    """A table that makes one letter of each class, and a full stop of all else."""
    table = bytearray(b"." * 256)
    for letter, members in classes.items():
        for member in members:
            table[ord(member)] = ord(letter)
    return bytes(table)


_BEHIND_A_WORD = "digit space newline sign opening backslash"

_ENDS = {  # classes of bytes, and those before which a token of o200k_base ends
    "lower": _BEHIND_A_WORD,
    "escape": _BEHIND_A_WORD,  # the small letters that are one behind a backslash
    "upper": _BEHIND_A_WORD,
    "apostrophe": _BEHIND_A_WORD,  # as in don't
    "digit": "lower escape upper apostrophe space newline sign opening backslash",
    "space": "digit opening",
    "newline": "lower escape upper apostrophe digit space sign opening backslash",
    "sign": "digit space",
    "opening": "",
    "backslash": "digit space",
    "mark": "",  # the first byte of one that stands above or below the letter before it
    "other": "",
}

_SMALL, _LETTERS = ("lower", "escape"), ("lower", "escape", "upper")

_NO_GROUP = tuple(name for name in _ENDS if name not in (*_LETTERS, "digit"))

NUMBERS = {name: number for number, name in enumerate(_ENDS, start=1)}

_PAIRS = (  # pairs of classes that are counted, each by a name; of two names a pair has the later
    (b".", _LETTERS, _NO_GROUP),  # a group of letters and digits ends
    (b",", ("digit",), _NO_GROUP),
    (b"1", _NO_GROUP, ("digit",)),  # a group begins with a digit
    (b"a", ("digit",), _LETTERS),
    (b"2", ("upper",), ("digit",)),
    (b"3", _SMALL, ("digit",)),
    (b"A", _SMALL, ("upper",)),
    (b"b", ("upper",), _SMALL),
    (b"m", _LETTERS, ("mark",)),
    (b"n", ("backslash",), ("escape",)),  # a line break or a tab as JSON writes it
    (b"s", ("space",), ("space",)),
    (b"t", ("space",), ("digit",)),
)


def _code(first: str, second: str) -> int:
    return NUMBERS[second] << 4 | NUMBERS[first]


def _classes() -> bytes:
    """The class of each byte, in both halves."""
    table = bytearray([NUMBERS["other"]] * 256)
    for name, members in (
        ("lower", string.ascii_lowercase),
        ("escape", "bfnrt"),
        ("upper", string.ascii_uppercase),
        ("digit", string.digits),
        ("space", " \t\v\f"),
        ("newline", "\r\n"),
        ("sign", string.punctuation),
        ("apostrophe", "'"),
        ("opening", '("'),
        ("backslash", "\\"),
        ("mark", "\xcc\xcd"),
    ):
        for member in members:
            table[ord(member)] = NUMBERS[name]
    return bytes(number << 4 | number for number in table)


def _names() -> bytes:
    table = bytearray(256)
    for name, firsts, seconds in _PAIRS:
        for first in firsts:
            for second in seconds:
                table[_code(first, second)] = name[0]
    return bytes(table)


CLASSES, _NAMES = _classes(), _names()

NO_ENDS = bytes(set(range(256)) - {_code(one, other) for one, others in _ENDS.items() for other in others.split()})


_IS_ALIKE = bytes(code not in REPEATED_PAIRS[1] for code in range(256))


class Look(NamedTuple):
    """What is seen in a piece of a text, whatever is made of it."""

    data: bytes
    pairs: bytes  # the classes of each two neighbours
    seldom: int  # pairs of letters
    ends: int  # of tokens, but for the last
    foreign: int  # ten-thousandths of a token beyond ASCII


def estimate_texts(texts: Iterable[str]) -> int:
    """Estimated tokens of several texts, each by itself."""
    return sum(map(estimate_text, texts))


def estimate_text(text: str) -> int:
    """Estimated tokens of `text`, rounded up; 0 for an empty text."""
    return sum(map(estimate_piece, map(look_at, pieces_of(text))))


def pieces_of(text: str) -> Iterator[str]:
    """The pieces of a text that are counted each by itself."""
    return (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def look_at(piece: str) -> Look:
    """What tells how many tokens a piece has."""
    data = piece.encode("utf-8", "surrogatepass")
    pairs = pairs_of(data, CLASSES)
    foreign = 0
    if not piece.isascii():
        foreign = beyond_ascii(data.translate(None, _ASCIIS).decode("utf-8", "surrogatepass"))
    return Look(data, pairs, seldom_pairs(data), len(pairs.translate(None, NO_ENDS)), foreign)


def estimate_piece(look: Look) -> int:
    """Estimated tokens of a piece, rounded up."""
    data, pairs, seldom, ends, foreign = look
    named = pairs.translate(_NAMES)
    after_lowers = data.translate(None, _LOWERS)
    rest = after_lowers.translate(None, _UPPERS)
    letters, uppers = len(data) - len(rest), len(after_lowers) - len(rest)
    spaces, newlines = rest.count(b" "), rest.count(b"\n")
    rest = rest.translate(None, b" \n")
    after_digits = rest.translate(None, _DIGITS)
    digits = len(rest) - len(after_digits)
    after_punctuation = after_digits.translate(None, _PUNCTUATIONS)
    control = len(after_punctuation.translate(None, _NON_ASCIIS))
    scaled = (
        letters * _LETTER
        + uppers * _UPPER
        + digits * _DIGIT
        + spaces * _SPACE
        + data.count(b"  ") * _DOUBLE_SPACE
        + newlines * _NEWLINE
        + (len(after_digits) - len(after_punctuation)) * _PUNCTUATION
        + control * _CONTROL
        + named.count(b"n") * _ESCAPE
        + _beyond_words(data, named, seldom, letters, digits)
    )
    if not data.isascii():
        scaled += foreign + named.count(b"m") * _PIECE_OF_WORD
    at_least = (ends + named.count(b"st")) * _END + seldom * _SPLIT
    if at_least > scaled:
        scaled = max(scaled, at_least - repeated_pairs(data) * _SPLIT)
    return -(-scaled // SCALE)


def _beyond_words(data: bytes, named: bytes, seldom: int, letters: int, digits: int) -> int:
    """What letters and digits cost more where they make no words. A longer text never costs less: another letter takes
    no more from it than the letter costs by itself."""
    by_pair = seldom * _SELDOM - letters * _LETTER
    groups = named.count(b"1a") + named.count(b"a."), named.count(b"2,") + named.count(b"3,")
    by_pair = max(by_pair, by_pair - digits * _LETTER + groups[0] * _MIXED + groups[1] * _MIXED_END)
    capitals = named.count(b"A")
    lone = capitals - named.count(b"Ab") - named.endswith(b"A", 0, -1)
    by_kind = (capitals + named.count(b"3")) * _CHANGE + lone * _LONE - (letters + digits) * _LETTER
    by_kind = max(_CHANCE, by_kind)
    if by_pair > by_kind:
        by_pair -= repeated_pairs(data) * _SELDOM
    return max(by_pair, by_kind) - _CHANCE


def seldom_pairs(data: bytes) -> int:
    """How many pairs of neighbouring letters are seldom in words."""
    classes, others = SELDOM_PAIRS
    return len(pairs_of(data, classes).translate(None, others))


def repeated_pairs(data: bytes) -> int:
    """How many of these are the one letter of the pair before once more, as in a row of x."""
    marks = b"\0" + pairs_of(data, REPEATED_PAIRS[0]).translate(_IS_ALIKE)
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


ESTIMATE = "estimate/2"  # the name of the counter that is the built-in estimate: it tells what stored counts are

UNIT = 32  # parts of a token

COSTS = {  # by the class of the first byte, for each class of the second as `NUMBERS` orders them
    "lower": (3, 0, 5, 32, 15, 18, 38, 23, 0, 9, 35, 1),
    "escape": (0, 3, 10, 16, 3, 3, 46, 21, 4, 32, 9, 36),
    "upper": (11, 11, 5, 23, 24, 25, 34, 17, 18, 64, 33, 0),
    "apostrophe": (8, 15, 13, 2, 9, 52, 33, 16, 0, 9, 0, 29),
    "digit": (47, 51, 39, 62, 6, 28, 60, 47, 29, 33, 0, 2),
    "space": (13, 14, 0, 22, 37, 1, 64, 27, 39, 0, 34, 29),
    "newline": (21, 12, 22, 18, 13, 29, 0, 0, 56, 1, 0, 27),
    "sign": (14, 16, 16, 10, 16, 10, 0, 16, 20, 52, 1, 62),
    "opening": (21, 24, 7, 0, 8, 34, 0, 22, 0, 36, 0, 20),
    "backslash": (9, 21, 64, 13, 64, 60, 27, 34, 0, 0, 0, 0),
    "mark": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "other": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
}

SELDOM_COST = 23  # a pair of letters that words seldom have

RUNS = (b"-" * 4, b"=" * 4, b"*" * 4, b"#" * 4)

RUN = 2  # what such a run costs, as part of a ruled line

_TEXT = 6_000  # ten-thousandths of a token that any text has beside its pairs

_LEAST = 100  # percent of what the pairs cost: a budget counts no less

_MOST = 120  # percent of it: a budget counts no more, whatever the measure of cuts says

_SURE = 2  # of the measure of cuts this part counts at least: what is said again and again has pairs that cost nothing

_FOREIGN = 8  # from this part of the tokens on, what is beyond ASCII makes the pairs tell nothing

_SHORT = 32  # characters of names and types, which come again and again

_SUMMED = 1_000  # bytes whose sum is less than what the checksum wraps at

_DENSE = 16  # bytes for each seldom pair, from which they may be one letter again and again

_CONTROL_COST = 15_000  # each is a token, and so is what stands before it

_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})

_NO_CONTROLS = bytes(set(range(256)) - {*_CONTROLS})


def budget_tokens(text: str) -> int:
    """Estimated tokens of `text`; 0 for an empty text."""
    return estimates(text)[1]


def estimates(text: str) -> tuple[int, int]:
    """Estimated tokens of `text`: those that segments are cut by, and those that budgets are kept by."""
    return _remembered(text) if len(text) <= _SHORT else _estimated(text)


def _estimated(text: str) -> tuple[int, int]:
    cut = budget = 0
    for look in map(look_at, pieces_of(text)):
        estimate = estimate_piece(look)
        cut += estimate
        budget += _budgeted(look, estimate)
    return cut, budget


_remembered = lru_cache(maxsize=4_096)(_estimated)


def _budgeted(look: Look, estimate: int) -> int:
    costs = pair_costs(look)
    if look.foreign * _FOREIGN > costs:
        return max(look.ends + 1, estimate)
    least = (costs * _LEAST // 100 + SCALE // 2) // SCALE
    most = -(-costs * _MOST // (100 * SCALE))
    return max(look.ends + 1, least, min(estimate, most), -(-estimate // _SURE))


def pair_costs(look: Look) -> int:
    """Ten-thousandths of a token: what the pairs cost, more for letters by chance and less for runs of one sign."""
    units = _sum_of(look.pairs.translate(_COSTS))
    seldom = look.seldom
    if seldom * _DENSE > len(look.data):
        seldom -= repeated_pairs(look.data)
    units += seldom * SELDOM_COST - sum(map(look.data.count, RUNS)) * _LONG_RUN
    controls = len(look.data.translate(None, _NO_CONTROLS)) * _CONTROL_COST
    return max(0, _TEXT + units * SCALE // UNIT + look.foreign + controls)


def _sum_of(data: bytes) -> int:
    """The sum of bytes of at most 64: half of the checksum of Adler is just that, and quick."""
    parts = (data[at : at + _SUMMED] for at in range(0, len(data), _SUMMED))
    return sum((zlib.adler32(part) & 0xFFFF) - 1 for part in parts)


def _costs() -> bytes:
    """What each pair of classes costs."""
    table = bytearray(256)
    for first, costs in COSTS.items():
        for second, cost in zip(NUMBERS, costs, strict=True):
            table[NUMBERS[second] << 4 | NUMBERS[first]] = cost
    return bytes(table)


_COSTS = _costs()

_LONG_RUN = 4 * _COSTS[NUMBERS["sign"] << 4 | NUMBERS["sign"]] - RUN
