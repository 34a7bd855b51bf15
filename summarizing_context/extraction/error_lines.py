"""Finding the line that says what went wrong, and the sentence that says how it was put right.

Pure. Results are read in bounded windows, so that one line of a megabyte costs no more than its length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from summarizing_context.messages.text import clip, shown

_HINTS = (
    *("rror", "ERR", "FAIL", "xception", "atal", "anic", "not found", "No such", "denied", "xit", "imed out"),
    *(" failed", "E  "),
)

_ERROR = re.compile(
    r"\s{0,8}(?:\S{1,200}: )?"
    r"(?:E\s{2,6}\S|(?:fatal |internal )?(?:error|Error|ERROR)(?:\[\w{1,12}\]| \w{1,12}| \([^()\n]{1,80}\))?:|"
    r"\S{1,200}:\d{1,6}:\d{1,6}: |"
    r"[\w.]{0,80}(?:Error|Exception)(?:: |$)|FAILED\b|FAIL:?\s|--- FAIL|fatal: |panic: |npm ERR!|"
    r"(?:.{0,120}: |\A)(?:command not found|No such file or directory|[Pp]ermission denied|[Tt]imed out after)|"
    r".{0,40}command not found: )"
    r"|(?=.{0,106} failed(?<=\d failed)).{0,100}\b[1-9]\d{0,5} failed\b"
)

_EXIT = re.compile(r"\W{0,8}(?:.{0,40} )?(?:[Ee]xit(?:ed)?(?: with)? (?:code|status):? [1-9])")
_LAST_OF_TRACEBACK = re.compile(r"^[A-Za-z_][\w.]{0,120}(?:: .{0,300})?$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_TAG = re.compile(r"</?[A-Za-z_][\w-]{0,40}>")
_REACH = 300  # characters of a line that are looked at on either side


def first_error_line(result: str, failed: bool) -> str:
    """Return the line of a result that names the error, word for word; "" if nothing went wrong in it."""
    traced = result.rfind(_TRACEBACK)
    if traced >= 0 and (raised := _LAST_OF_TRACEBACK.search(result, traced + len(_TRACEBACK))):
        return clip(shown(raised[0]), 200)
    left_with = line = ""
    for at in _hints(result):
        before, line = line, line_at(result, at)
        if line == before:
            continue
        if _EXIT.match(line):
            left_with = left_with or shown(_TAG.sub("", line))
            continue
        if _ERROR.match(line):
            below = line_at(result, result.find("\n", at) + 1 or len(result))
            return _with_next([shown(_TAG.sub("", text)) for text in (line, below)])
    if left_with:
        end = result.rstrip()
        last = shown(line_at(end, len(end) - 1))
        return clip(left_with if last == left_with else f"{left_with}: {last}", 200)
    if not failed:
        return ""
    lines = [text for line in _TAG.sub("", result.lstrip()[: 8 * _REACH]).split("\n") if (text := shown(line))]
    return _with_next(lines) if lines else ""


def error_lines(result: str, most: int) -> list[str]:
    """Return the first lines of a result that name an error, each once."""
    lines: dict[str, None] = {}
    for at in _hints(result):
        line = line_at(result, at)
        if (_ERROR.match(line) or _EXIT.match(line)) and (told := clip(shown(_TAG.sub("", line)), 200)):
            lines[told] = None
            if len(lines) == most:
                break
    return list(lines)


def _with_next(lines: Sequence[str]) -> str:
    """Return the first line, and the next one too if the first ends with a colon: then what is wrong stands below."""
    first = clip(lines[0], 200)
    return clip(f"{first} {lines[1]}", 300) if first.endswith(":") and len(lines) > 1 else first


def _hints(result: str) -> list[int]:
    """Return where a word stands that error lines have, in order; the first few of each word."""
    places: list[int] = []
    for hint in _HINTS:
        at = result.find(hint)
        for _ in range(24):
            if at < 0:
                break
            places.append(at)
            at = result.find(hint, at + 16)
    return sorted(places)


def line_at(text: str, at: int) -> str:
    """Return the line around a place; of a very long line the whole words near it, or nothing if it has none."""
    low, high = max(0, at - _REACH), at + _REACH
    start, end = text.rfind("\n", low, at) + 1, text.find("\n", at, high)
    if start == 0 and low > 0:
        start = text.find(" ", low, at) + 1 or high
    if end < 0:
        end = len(text) if len(text) <= high else text.rfind(" ", at, high)
    return text[start : max(start, end)]
