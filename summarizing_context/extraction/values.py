"""Exact values in a text: addresses, paths, names of files and of code, ids, hashes, numbers.

Pure, by one pattern that is linear in the text.
"""

from __future__ import annotations

import re

from summarizing_context.extraction import WORDS

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
