"""Text in one spelling, so that what a model writes can be looked up in what it was given.

Pure. Case, marks around quotes, dashes, white space, digits of other scripts and the marks of Markdown say nothing
about a value; which values there are is for `literals`, whether they are borne out for `grounds`.
"""

from __future__ import annotations

import re
import unicodedata

_MARKS = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』", '"'),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad*"),
    }
)
_OTHER_DIGITS = re.compile(r"(?![0-9])\d")
_THIN_SPACES = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_JSON_ESCAPES = re.compile(r"\\[nrt]|\\(?=[\"\\/])")
_WORDS = re.compile(r"[^\W_]+")


def plain(text: str) -> str:
    """`text` on one line, in one case, with plain marks."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _THIN_SPACES.sub(",", text)).translate(_MARKS)
        text = _OTHER_DIGITS.sub(_digit, text)
    return " ".join(text.replace("*", "").casefold().split())


def unescaped(text: str) -> str:
    """`text` with the escapes of JSON strings taken back: arguments of calls are written down as JSON."""
    return _JSON_ESCAPES.sub(lambda found: "\n" if len(found[0]) > 1 else "", text) if "\\" in text else text


def words_only(text: str) -> str:
    """The words and numbers of a plain text, one space before and after each."""
    return f" {' '.join(_WORDS.findall(text))} "


def _digit(found: re.Match[str]) -> str:
    return str(unicodedata.decimal(found[0]))
