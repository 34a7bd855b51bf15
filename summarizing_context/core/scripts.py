"""Scripts that tokenizers hardly know: what their letters cost beyond what letters of other scripts do.

Pure. Tokens of a well-known script stand for two bytes each, about; those of a script that was rare in what a tokenizer
was made from stand for one. Which is which was measured with o200k_base on random letters of each block.
"""

from __future__ import annotations

import re

_SPELLED, _HEAVY, _RARE_HAN = 4_619, 2_119, 5_000  # ten-thousandths of a token: more for a byte, a byte, a character

_RARE_FINALS = (2, 3, 5, 6, 9, 10, 11, 12, 13, 14, 15, 18)  # of Hangul syllables, which prose hardly uses
_SYLLABLES = "".join(chr(code) for code in range(0xAC00, 0xD7A4) if (code - 0xAC00) % 28 in _RARE_FINALS)
_SPELLED_LETTERS = (  # a token for each byte
    "\u0180-\u02af\u0300-\u036f\u0460-\u052f\u0700-\u08ff"  # rare Latin, phonetic and Cyrillic; Syriac, Thaana, N'Ko
    "\u1100-\u11ff\u13a0-\u177f\u1800-\u1dff"  # Cherokee, Canadian syllables, runes, Mongolian and their neighbours
    "\u2800-\u28ff\u2c00-\u2dff\u3400-\u4dbf\ua000-\uabff"  # Braille, Glagolitic, Tifinagh, rare Han, Yi, Vai
    "\ud7b0-\uf8ff\ufb00-\ufdff"  # lone surrogates, private letters, Arabic forms
    f"\U00010000-\U0001d3ff\U00020000-\U0010ffff{_SYLLABLES}"
)
_HEAVY_LETTERS = (  # about three tokens for four bytes
    "\u0100-\u017f\u0e80-\u0fff\u10a0-\u10cf\u1200-\u139f\u1f00-\u1fff\u3100-\u312f"  # Lao, Tibetan, Ethiopic
    "\u2600-\u269f\u26a1-\u2704\u2706-\u2712\u2715-\u2716\u2718-\u274b\u274d-\u27bf"  # signs, but for the usual marks
    "\U0001d400-\U0001f0ff\U0001f780-\U0001faff"
)
_RARE = re.compile(f"[{_SPELLED_LETTERS}{_HEAVY_LETTERS}]+")
_LESS_RARE = re.compile(f"[{_HEAVY_LETTERS}]+")
_HAN = re.compile("[\u4e00-\u9fff]+")


def surcharge(foreign: str) -> int:
    """What the letters of a text without ASCII cost more than letters that are well known, in ten-thousandths."""
    rare = "".join(_RARE.findall(foreign))
    heavy = _bytes("".join(_LESS_RARE.findall(rare)))
    han = "".join(_HAN.findall(foreign))
    rare_han = len(han) - len(han.encode("gb2312", "ignore")) // 2
    return _SPELLED * (_bytes(rare) - heavy) + _HEAVY * heavy + _RARE_HAN * rare_han


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
