"""Text in one spelling, so that what a model writes can be looked up in what it was given.

Pure. Case, marks around quotes, dashes, white space, digits of other scripts and the marks of Markdown say nothing
about a value; which values there are is for `literals`, whether they are borne out for `grounds`.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

_MARKS = {
    **dict.fromkeys("“”„‟«»「」『』《》″", '"'),
    **dict.fromkeys("‘’‚‛‹›ʼ′", "'"),
    **dict.fromkeys("‐‑‒–−", "-"),
    **dict.fromkeys("—―", " "),
    **dict.fromkeys("∕⁄⧸", "/"),
    **dict.fromkeys("∶꞉", ":"),
}
_INVISIBLE = (  # what is there, but not seen; so are combining marks on digits
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_UNSEEN = re.compile(rf"[{_INVISIBLE}]+|(?<=[\d\W_])[\u0300-\u036f\u20d0-\u20ff]+")
_MARK = re.compile(f"[{''.join(_MARKS)}]")
_POWERS = re.compile(r"(?<=\d)(?=[\u00b2\u00b3\u00b9\u2070-\u2079])")
_FRACTIONS = re.compile(r"(?<=\d) ?([¼½¾])")
_DECIMALS = {"¼": ".25", "½": ".5", "¾": ".75"}
_ESCAPES = re.compile(r"\\(?=[-_*#+!()\[\]{}>~|`])")  # of Markdown
_REFERENCES = re.compile(r"&#(?:x[0-9a-f]{1,6}|\d{1,7});", re.IGNORECASE)  # of HTML, to a character by its number
_OTHER_DIGITS = re.compile(r"(?![0-9])\d")
_THIN_SPACES = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_JSON_ESCAPES = re.compile(r"\\([nrt\"\\/])")
_SCIENTIFIC = re.compile(r"(?<![\w.-])\d(?:\.\d{1,6})?[eE](?:-0?\d|\+\d{1,2})(?!\w|\.\d)")
_WORDS = re.compile(r"[^\W_]+")


_STEPS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (  # what calls for it, and what is done
    (re.compile(rf"[{_INVISIBLE}\u0300-\u036f\u20d0-\u20ff]"), lambda text: _UNSEEN.sub("", text)),
    (re.compile(r"[\u00a0\u2009\u202f]"), lambda text: _THIN_SPACES.sub(",", text)),
    (re.compile(r"[¼½¾]"), lambda text: _FRACTIONS.sub(_decimal, text)),
    (re.compile(r"[\u00b2\u00b3\u00b9\u2070-\u2079]"), lambda text: _POWERS.sub("^", text)),
)


def plain(text: str) -> str:
    """`text` on one line, in one case, with plain marks."""
    if "&#" in text:
        text = _REFERENCES.sub(lambda found: html.unescape(found[0]), text)
    if not text.isascii():
        odd = "".join(char for char in set(text) if char > "\x7f")  # few, and so each step is asked for first
        for needed, step in _STEPS:
            text = step(text) if needed.search(odd) else text
        text = unicodedata.normalize("NFKC", text.translate(_numerals(odd)))
        text = _MARK.sub(_mark, text)
        text = _OTHER_DIGITS.sub(_digit, text) if _OTHER_DIGITS.search(odd) else text
    if "\\" in text:
        text = _ESCAPES.sub("", text)
    if _SCIENTIFIC.search(text):
        text = _SCIENTIFIC.sub(_written_out, text)
    return " ".join(text.replace("*", "").casefold().split())


def unescaped(text: str) -> str:
    """`text` with the escapes of JSON strings taken back: arguments of calls are written down as JSON."""
    return _JSON_ESCAPES.sub(lambda found: "\n" if found[1] in "nrt" else found[1], text) if "\\" in text else text


def words_only(text: str) -> str:
    """The words and numbers of a plain text, one space before and after each."""
    return f" {' '.join(_WORDS.findall(text))} "


def _written_out(found: re.Match[str]) -> str:
    """`1.3e-4` as `0.00013`; what is smaller than anybody writes out stays as it is."""
    digits = f"{float(found[0]):.12f}".rstrip("0").rstrip(".")
    return digits if float(digits) == float(found[0]) else found[0]


def _mark(found: re.Match[str]) -> str:
    return _MARKS[found[0]]


def _decimal(found: re.Match[str]) -> str:
    return _DECIMALS[found[1]]


def _numerals(chars: str) -> dict[int, str]:
    """The digits of signs for whole numbers whose compatible form is none: `❼`, `⑺`, `Ⅶ`. Powers keep theirs."""
    known = {char: unicodedata.numeric(char, 0.5) for char in chars if unicodedata.category(char) in ("No", "Nl")}
    return {
        ord(char): str(int(value))
        for char, value in known.items()
        if value.is_integer() and not unicodedata.normalize("NFKC", char).isdecimal()
    }


def _digit(found: re.Match[str]) -> str:
    return str(unicodedata.decimal(found[0]))
