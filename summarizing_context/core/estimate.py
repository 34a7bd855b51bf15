"""How many tokens a text has, by the kinds of its bytes.

Pure, and equal on every host: segments are cut by this measure, never by a session's own counter.
The weights were fitted by least squares to o200k_base on 10.8M tokens of real agent transcripts
(mean error 3 % a transcript, where chars/4 has 12 %); control characters count one each.
"""

from __future__ import annotations

import string

MESSAGE_TOKENS = 4  # framing of one message

_SCALE = 10_000  # integer arithmetic: no rounding that a platform could do otherwise
_LETTER, _UPPER, _DIGIT, _SPACE, _DOUBLE_SPACE = 1_764, 1_197, 6_365, 1_665, 65
_NEWLINE, _PUNCTUATION, _NON_ASCII, _CONTROL = 9_502, 6_221, 5_081, 10_000

_LETTERS = string.ascii_letters.encode()
_UPPERS = string.ascii_uppercase.encode()
_DIGITS = string.digits.encode()
_PUNCTUATIONS = string.punctuation.encode()
_NON_ASCIIS = bytes(range(128, 256))


def estimate_text(text: str) -> int:
    """Estimated tokens of `text`, rounded up; 0 for an empty text."""
    if not text:
        return 0
    data = text.encode("utf-8", "surrogatepass")
    rest = data.translate(None, _LETTERS)
    letters = len(data) - len(rest)
    uppers = len(data) - len(data.translate(None, _UPPERS))
    spaces, newlines = rest.count(b" "), rest.count(b"\n")
    rest = rest.translate(None, b" \n")
    after_digits = rest.translate(None, _DIGITS)
    after_punctuation = after_digits.translate(None, _PUNCTUATIONS)
    control = len(after_punctuation.translate(None, _NON_ASCIIS))
    scaled = (
        letters * _LETTER
        + uppers * _UPPER
        + (len(rest) - len(after_digits)) * _DIGIT
        + spaces * _SPACE
        + data.count(b"  ") * _DOUBLE_SPACE
        + newlines * _NEWLINE
        + (len(after_digits) - len(after_punctuation)) * _PUNCTUATION
        + (len(after_punctuation) - control) * _NON_ASCII
        + control * _CONTROL
    )
    return -(-scaled // _SCALE)
