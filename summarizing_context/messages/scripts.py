"""Tokens of characters beyond ASCII, by script.

Pure. A character costs what o200k_base has for it alone, unless common pairs of letters tell that the text is prose.
The table `scripts.b85` is made by `python -m evals.script_tables`: zlib in base85. First a bit for each character up to
U+FFFF: whether it is one token. Then a bit for each block of 64: whether its other characters are two tokens. Then a
byte for each letter of each of `SCRIPTS`: its groups as a first letter of common pairs, then one for each with its
groups as a second letter.
"""

from __future__ import annotations

import base64
import re
import zlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

BLOCK = 64  # characters whose first bytes are the same

_TOKEN = 10_000

_CHANCE_WORDS = 1_100  # what any Han character or Hangul syllable saves: two of them may be a word

_SYLLABIC = bytes([*range(0x4E, 0xA0), *range(0xAC, 0xD8)])  # high bytes of their codes

# First and last letter; what a common pair of letters saves, and what it saves beside if the pair before is common:
# at most a letter's token together, so that no letter makes a text cheaper.
SCRIPTS = (
    (0x0370, 0x03FF, 5_200, 2_600),  # Greek
    (0x0400, 0x04FF, 8_000, 0),  # Cyrillic
    (0x0530, 0x058F, 8_600, 200),  # Armenian
    (0x0590, 0x05FF, 7_200, 200),  # Hebrew
    (0x0600, 0x06FF, 8_600, 0),  # Arabic
    (0x0900, 0x097F, 7_600, 0),  # Devanagari
    (0x0980, 0x09FF, 7_800, 600),  # Bengali
    (0x0A00, 0x0A7F, 5_000, 3_200),  # Gurmukhi
    (0x0A80, 0x0AFF, 1_200, 8_800),  # Gujarati
    (0x0B80, 0x0BFF, 0, 7_600),  # Tamil
    (0x0C00, 0x0C7F, 5_600, 800),  # Telugu
    (0x0C80, 0x0CFF, 0, 9_200),  # Kannada
    (0x0D00, 0x0D7F, 9_000, 0),  # Malayalam
    (0x0D80, 0x0DFF, 200, 8_400),  # Sinhala
    (0x0E00, 0x0E7F, 2_800, 5_400),  # Thai
    (0x1000, 0x109F, 1_800, 8_200),  # Burmese
    (0x10A0, 0x10FF, 600, 8_200),  # Georgian
    (0x1780, 0x17FF, 7_600, 0),  # Khmer
    (0x3040, 0x309F, 0, 9_400),  # Hiragana
    (0x2500, 0x257F, 8_000, 1_500),  # box drawing
)

_HALVES = "\U0001f1c0-\U0001f1ff\U0001f300-\U0001f53f\U0001f600-\U0001f6bf\U0001f900-\U0001f97f"  # emoji of two tokens

_SPELLED = re.compile("[\U00010000-\U0001cfff\U0001e000-\U0001efff\U00020000-\U0010ffff]+")  # a token for each byte

_IS_COMMON = b"\0" + b"\1" * 255


class _Script(NamedTuple):
    letters: re.Pattern[str]
    pair: int  # saved by a common pair
    two: int  # beside, if the pair before is common too
    firsts: bytes  # the groups of a letter as a first, by the low byte of its code
    seconds: bytes


class _Tables(NamedTuple):
    tokens: re.Pattern[str]  # characters that are one token
    halves: re.Pattern[str]  # those that are two, or one
    scripts: dict[int, list[_Script]]  # by the high byte of their codes


def beyond_ascii(foreign: str) -> int:
    """Ten-thousandths of a token in a text without ASCII."""
    tables = _tables()
    costly = tables.tokens.sub("", foreign)
    tokens = len(foreign) + len(costly)
    if costly:
        spelled = tables.halves.sub("", costly)
        tokens += len(spelled) + sum(map(len, _SPELLED.findall(spelled)))
    return tokens * _TOKEN - _saved(foreign, tables.scripts)


def _saved(foreign: str, scripts: dict[int, list[_Script]]) -> int:
    """What the common pairs of letters save."""
    pages = foreign.encode("utf-16-le", "surrogatepass")[1::2]
    alphabetic = pages.translate(None, _SYLLABIC)
    return (len(pages) - len(alphabetic)) * _CHANCE_WORDS + sum(
        _saved_in("".join(script.letters.findall(foreign)), script)
        for page in scripts.keys() & set(alphabetic)
        for script in scripts[page]
    )


def _saved_in(letters: str, script: _Script) -> int:
    """A pair is common if some group has the one letter as a first and the other as a second."""
    lows = letters.encode("utf-16-le")[::2]
    firsts = int.from_bytes(lows[:-1].translate(script.firsts), "little")
    seconds = int.from_bytes(lows[1:].translate(script.seconds), "little")
    pairs = (firsts & seconds).to_bytes(len(lows), "little").translate(_IS_COMMON)
    common, rows = pairs.count(1), (b"\0" + pairs).count(b"\0\1")
    return common * script.pair + (common - rows) * script.two


@cache
def _tables() -> _Tables:
    table = zlib.decompress(base64.b85decode(b"".join((files(__package__) / "scripts.b85").read_bytes().split())))
    tokens, halves, letters = (
        table[:0x2000],
        table[0x2000 : 0x2000 + 0x2000 // BLOCK],
        table[0x2000 + 0x2000 // BLOCK :],
    )
    scripts: dict[int, list[_Script]] = {}
    for first, last, pair, two in SCRIPTS:
        size = last + 1 - first
        firsts, seconds = (
            (bytes(first % 256) + groups).ljust(256, b"\0") for groups in (letters[:size], letters[size : 2 * size])
        )
        letters = letters[2 * size :]
        script = _Script(re.compile(f"[{chr(first)}-{chr(last)}]+"), pair, two, firsts, seconds)
        scripts.setdefault(first >> 8, []).append(script)
    return _Tables(re.compile(f"[{_ranges(tokens, 1)}]+"), re.compile(f"[{_ranges(halves, BLOCK)}{_HALVES}]+"), scripts)


def _ranges(bits: bytes, size: int) -> str:
    """Ranges, as regular expressions write them, of the characters whose bits are set; a bit stands for `size`."""
    first = 0x80 // size
    marks = f"{int.from_bytes(bits, 'little') >> first:b}"[::-1]
    runs = (run.span() for run in re.finditer("1+", marks))
    return "".join(f"{chr((first + start) * size)}-{chr((first + stop) * size - 1)}" for start, stop in runs)
