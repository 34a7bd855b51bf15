"""The words of a text, as bytes: many times quicker to compare than text is.

Pure.
"""

from __future__ import annotations

Words = list[bytes]

_KEPT = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_TABLE = bytes(
    byte if byte >= 128 or byte in _KEPT else byte + 32 if 65 <= byte <= 90 else 32  # others part the words
    for byte in range(256)
)
LINES_TABLE = _TABLE[:10] + b"\n" + _TABLE[11:]  # the same, line by line


def words_of(text: str) -> Words:
    """The words of `text` in lower case, as bytes; an apostrophe parts no word."""
    return text.encode("utf-8", "surrogatepass").translate(_TABLE, b"'").split()


def lower_words(raw: bytes) -> bytes:
    """`raw` in lower case with a space for whatever parts words; places stay the same."""
    return raw.translate(_TABLE)
