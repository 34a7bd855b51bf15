"""Takes from a model's reply what stands around the summary: fences, preambles, thinking, unprintable characters.

Pure. Whether what is left can serve as a summary is for `replies` to say.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+-]*)[ \t]*$")
_THINKING = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPENER = r"(?:sure|certainly|of course|okay|ok|absolutely|understood)"
_PREAMBLES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_OPENER}[ ,.!]*\n(?=\s*\S)",
        rf"(?:{_OPENER}|here(?:['\u2019]s| is)|below is)\b[^\n]{{0,100}}\bsummar(?:y|i[sz]e)\b[^\n]{{0,100}}:[ \t*]*\n",
        rf"(?:{_OPENER}[ ,.!-]*)?(?:here(?:['\u2019]s| is)|below is|this is)\s+(?:a|the|your|my)\s+(?:[\w-]+\s+){{0,3}}"
        r"summary(?:\s+(?:of|for)\s[^\n:]{1,80})?:",
        r"[#*_ \t]{0,6}summary[*_]{0,3}:[*_]{0,3}[ \t]*\n",
    )
)


def clean_reply(text: str) -> str:
    """The reply without what is no part of the summary; empty when nothing else was there."""
    text = readable(text)
    for _ in range(4):  # a fence may hold a preamble, and a preamble may stand before a fence
        bare = _without_preamble(_without_fence(_without_thinking(_trimmed(text))))
        if bare == text:
            break
        text = bare
    return _trimmed(text)


def readable(text: str) -> str:
    """Without NULs; halves of a surrogate pair are joined, lone ones become U+FFFD."""
    text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _trimmed(text: str) -> str:
    return text.strip().strip("\ufeff\u200b").strip()


def _without_thinking(text: str) -> str:
    found = _THINKING.match(text)
    return text[found.end() :].lstrip() if found else text


def _without_fence(text: str) -> str:
    """The inside of a fence that stands around the whole text; fences inside it stay."""
    first, _, rest = text.partition("\n")
    inside, _, last = rest.rpartition("\n")
    opening = _FENCE.match(first)
    if opening is None or last.rstrip() != opening[1]:
        return text
    return text if _closes_in(inside, opening[1]) else inside


def _closes_in(inside: str, fence: str) -> bool:
    """Whether the fence is closed before its end, so that the text merely begins and ends with code."""
    lines = (line.rstrip() for line in inside.split("\n"))
    fences = (found for found in map(_FENCE.match, lines) if found and found[1].startswith(fence))
    first = next(fences, None)
    return first is not None and not first[2]


def _without_preamble(text: str) -> str:
    text += "\n"  # a preamble that is the whole reply leaves nothing
    for pattern in _PREAMBLES:
        found = pattern.match(text)
        if found:
            return text[found.end() :].strip()
    return text[:-1]
