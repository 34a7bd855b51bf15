"""Exact values in a text: addresses, paths, names of files and of code, ids, hashes, numbers.

Pure, by one pattern that is linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter

from summarizing_context.extraction import WORDS
from summarizing_context.messages.text import cleaned

_EXTENSIONS = "|".join(WORDS["files"]["endings"])

_VALUE = re.compile(
    rf"""(?<![\w@])(?:
    https?://[^\s"'<>`)\]}},\\]{{3,400}}
    | (?<![.+-]) [\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,32}}){{1,4}}
    | (?<![.~/+-]) (?:~|\.{{1,2}})?/?(?:[\w@.+\#%-]{{1,80}}/){{1,24}}[\w@.+\#%-]{{1,120}}
    | (?<![\w/.-])[\w-]{{1,80}}(?:\.[\w-]{{1,30}}){{0,3}}\.(?:{_EXTENSIONS})\b(?![/\w])
    | (?<![.,/-]) [$€£]?\d{{1,3}}(?:,\d{{3}}){{1,6}}(?:\.\d{{1,12}})? (?![\w/-])
    | (?<![/.-]) \#?(?:\d{{4,20}}(?:\.\d{{1,12}})?|\d{{1,20}}\.\d{{2,12}}) (?![\w/-]|\.\d)
    | (?<![/-]) \#?(?=[\w-]{{0,60}}(?:\d|[^\W_]_[^\W_]|[a-z][A-Z])) [A-Za-z0-9_][\w-]{{2,99}} (?![\w/-])
    )""",
    re.VERBOSE,
)
_WITH_UNIT = re.compile(r"\d+(?:ns|us|ms|s|m|h|d|k|kb|mb|gb|px|x|am|pm|min|km|kg|cm|mm|st|nd|rd|th)", re.IGNORECASE)
_NO_VALUE = re.compile(  # the numbers of a listing's lines, line ends in JSON or code, and the line numbers of grep
    rf"^ *\d+(?=[\t→:|])|\\[nrt]|(?<=\.)((?:{_EXTENSIONS}))-\d+-", re.MULTILINE
)


def exact_values(text: str) -> list[str]:
    """Return the exact values of a text, each once, in order. Quotes, times and short numbers are none."""
    found: dict[str, None] = {}
    for match in _VALUE.finditer(_NO_VALUE.sub(r"\1 ", text[:100_000])):
        value = match[0].rstrip(".,:;-_*#$%/!?'")
        if "/" in value and "://" not in value:
            value = value[2:] if value.startswith(("a/", "b/")) and value.count("/") > 1 else value  # as diffs have it
            name = value.rpartition("/")[2]
            if not {".", "@"} & set(name) and (value.count("/") < 2 or not any(map(str.isalpha, name))):
                continue  # as in and/or, or a date
        elif len(value) < 4 or (value[0].isdigit() and _WITH_UNIT.fullmatch(value)):
            continue
        found[value] = None
    return list(found)


# An escape of JSON, or an argument's name.
_ESCAPED = re.compile(r"\"\w{1,60}\":|\\u001b\[[0-9;?]{0,16}[A-Za-z]|\\u[0-9a-f]{4}|\\[nrt\"\\]")
_READ = 2_000  # characters of a message; further down stand the bodies of files


def find_drops(source: str, summary: str) -> tuple[str, ...]:
    """Return values of a rendered source that its summary lacks, at most 12: the most used first, of these the newest.

    What is said counts three times, what a tool is called with twice. What only results hold is left out: few of their
    many values are ever needed. A number says nothing without the word beside it.
    """
    uses: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for at, block in enumerate(re.split(r"(?m)^### ", source)):
        label, _, body = block.partition("\n")
        if "result of " in label:
            continue
        if len(body) > _READ:  # no value at its end is cut in two
            body = body[: max(0, *(body.rfind(mark, 0, _READ) for mark in (" ", "\n", '"', "\\")))]
        for value in exact_values(_ESCAPED.sub(" ", cleaned(body))):
            is_hint = value.startswith("#") or any(map(str.isalpha, value))
            if is_hint and len(value) <= 80 and not re.match(r"\d{4}-\d\d-\d\d", value):
                uses[value] += 2 if " calls " in label else 3
                newest[value] = at
    text = summary.casefold()

    def stands(value: str) -> bool:  # whole: `HAT-21` does not where `HAT-215` does
        before = r"(?<![^\W_])" if value[0].isalnum() else ""
        return re.search(rf"{before}{re.escape(value.casefold())}(?![^\W_])", text) is not None

    dropped = [value for value in uses if not stands(value)]
    return tuple(sorted(dropped, key=lambda value: (-uses[value], -newest[value], value))[:12])
