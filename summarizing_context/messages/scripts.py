"""Tokens of characters beyond ASCII, by script.

Pure. A character costs what o200k_base has for it alone, unless common pairs of letters tell that the text is prose.
The packed table is made by `python -m evals.script_tables`.
"""

from __future__ import annotations

import base64
import re
import zlib
from functools import cache
from itertools import groupby
from typing import NamedTuple

from summarizing_context.messages.script_tables import PACKED

BLOCK = 64  # characters whose first bytes are the same

_BITS = 0x10000 // 8  # bytes with a bit for each character up to U+FFFF

_TOKEN = 10_000

_CHANCE_WORDS = 1_200  # what any Han character or Hangul syllable saves: two of them may be a word

_SYLLABIC = bytes([*range(0x4E, 0xA0), *range(0xAC, 0xD8)])  # high bytes of their codes

# First and last letter; what a common pair of letters saves, and what two in a row save beside: at most a letter's
# token together, so that no letter makes a text cheaper.
SCRIPTS = (
    (0x0370, 0x03FF, 1_800, 6_200),  # Greek
    (0x0400, 0x04FF, 6_900, 600),  # Cyrillic
    (0x0530, 0x058F, 3_200, 6_800),  # Armenian
    (0x0590, 0x05FF, 3_000, 5_800),  # Hebrew
    (0x0600, 0x06FF, 3_200, 5_600),  # Arabic
    (0x0900, 0x097F, 5_000, 4_400),  # Devanagari
    (0x0980, 0x09FF, 6_000, 3_800),  # Bengali
    (0x0A00, 0x0A7F, 1_600, 6_400),  # Gurmukhi
    (0x0A80, 0x0AFF, 3_200, 6_800),  # Gujarati
    (0x0B80, 0x0BFF, 2_800, 6_800),  # Tamil
    (0x0C00, 0x0C7F, 1_200, 6_600),  # Telugu
    (0x0C80, 0x0CFF, 3_800, 6_200),  # Kannada
    (0x0D00, 0x0D7F, 4_800, 5_200),  # Malayalam
    (0x0D80, 0x0DFF, 600, 6_600),  # Sinhala
    (0x0E00, 0x0E7F, 6_200, 3_800),  # Thai
    (0x1000, 0x109F, 800, 6_200),  # Burmese
    (0x10A0, 0x10FF, 3_000, 6_800),  # Georgian
    (0x1780, 0x17FF, 400, 6_600),  # Khmer
    (0x3040, 0x309F, 800, 6_800),  # Hiragana
    (0x2500, 0x257F, 8_000, 1_500),  # box drawing
)

_HALVES = "\U0001f1c0-\U0001f1ff\U0001f300-\U0001f53f\U0001f600-\U0001f6bf\U0001f900-\U0001f97f"  # emoji of two tokens

_SPELLED = re.compile("[\U00010000-\U0001cfff\U0001e000-\U0001efff\U00020000-\U0010ffff]+")  # a token for each byte

_IS_COMMON = b"\0" + b"\1" * 255


class _Script(NamedTuple):
    letters: re.Pattern[str]
    pair: int  # saved by a common pair
    two: int  # by two in a row, beside
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
    return pairs.count(1) * script.pair + pairs.count(b"\1\1") * script.two


@cache
def _tables() -> _Tables:
    table = zlib.decompress(base64.b85decode(PACKED))
    tokens, halves, letters = (
        table[:0x2000],
        table[0x2000 : 0x2000 + 0x2000 // BLOCK],
        table[0x2000 + 0x2000 // BLOCK :],
    )
    scripts: dict[int, list[_Script]] = {}
    for first, last, pair, two in SCRIPTS:
        marks, letters = letters[: last + 1 - first], letters[last + 1 - first :]
        groups = (bytes(first % 256) + marks).ljust(256, b"\0")
        firsts, seconds = bytes(mark >> 4 for mark in groups), bytes(mark & 15 for mark in groups)
        script = _Script(re.compile(f"[{chr(first)}-{chr(last)}]+"), pair, two, firsts, seconds)
        scripts.setdefault(first >> 8, []).append(script)
    return _Tables(re.compile(f"[{_ranges(tokens, 1)}]+"), re.compile(f"[{_ranges(halves, BLOCK)}{_HALVES}]+"), scripts)


def _ranges(bits: bytes, size: int) -> str:
    """Ranges, as regular expressions write them, of the characters whose bits are set; a bit stands for `size`."""
    known = [n for n in range(len(bits) * 8) if bits[n >> 3] >> (n & 7) & 1 and n * size >= 0x80]
    runs = [[n for _, n in run] for _, run in groupby(enumerate(known), lambda item: item[1] - item[0])]
    return "".join(f"{chr(run[0] * size)}-{chr((run[-1] + 1) * size - 1)}" for run in runs)
