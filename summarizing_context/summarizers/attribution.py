"""Sees to it that a model's summary calls nothing a constraint that no human said.

Pure. A model may take an order in a tool's result for the user's. What stands under Constraints and has no support in
the human rows of a segment, or in the constraints of the summaries that are merged, goes to Facts and says that it is
not the user's. What counts as support is in `support`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from summarizing_context.core.sentences import bare
from summarizing_context.summarizers.blocks import (
    escape_labels,
    is_rendered,
    split_blocks,
    split_children,
    unescape_labels,
)
from summarizing_context.summarizers.human import unmarked
from summarizing_context.summarizers.sections import CONSTRAINTS, FACTS, NAMES, read_sections
from summarizing_context.summarizers.support import Spoken

ATTRIBUTION_VERSION = "1"  # another one whenever the same reply would become another summary
NOT_THE_USERS = "(not the user's words)"

_TITLE = re.compile(r"(?i)constraint|correction")
_HEADING = re.compile(
    r"\s{0,3}(?:>\s*)?(?:(?P<marks>#{1,6})(?!#)\s*(?P<title>\S.*)|"
    r"(?:\d{1,2}[.)]\s*)?(?:\*\*|__)(?P<bold>[^*_]{1,80})(?:\*\*|__)\s*:?\s*)\Z"
)
_QUOTE = re.compile(r"[\"“”«]([^\"“”«»\n]{8,400})[\"“”»]")
_NONE = re.compile(r"(?i)\W{0,3}(?:none|no (?:constraint|correction|rule)s?|nothing|n/?a)\b[^;.\n]{0,40}\W{0,3}\Z")
_SPEAKER = re.compile(r"(?i)(?:the )?(?:user|human)\b[^\"“”«:\n]{0,40}:\s*")


def attribute(text: str, content: str, kind: Literal["segment", "rollup"]) -> str:
    """`text`, a model's summary of `content`, with what no human said moved from Constraints to Facts.

    Lines that look like a record's labels are escaped: a summary that begins with one would be read as a record.
    """
    text = escape_labels(text)
    if not _TITLE.search(text):
        return text
    spoken = Spoken(_rules_of_children(content) if kind == "rollup" else _human_rows(content))
    lines: list[str] = []
    moved: list[str] = []
    for title, body in _parts(text):
        if title is None or not _TITLE.search(title[1]):
            lines += [*([title[0]] if title else []), *body]
            continue
        kept: list[str] = []
        for bullet in _bullets(body):
            found, others = _judge(bullet, spoken)
            kept += found
            moved += others
        lines += [f"## {NAMES[CONSTRAINTS]}", *(f"- {rule}" for rule in kept)] if kept else []
    return "\n".join(_with_facts(lines, [f"- {NOT_THE_USERS} {claim}" for claim in moved])).strip()


def _judge(bullet: str, spoken: Spoken) -> tuple[list[str], list[str]]:
    """What of a bullet is a constraint, and what is not. A quote is worth more than what a model says around it."""
    if _NONE.match(bullet):
        return [], []
    if spoken.supports(_SPEAKER.sub("", unmarked(bullet), count=1)):
        return [bullet], []
    quotes = [quote for quote in _QUOTE.findall(bullet) if spoken.supports(quote)]
    return [f'"{quote}"' for quote in quotes], [bullet]


def _human_rows(content: str) -> Iterator[str]:
    yield from (block.body for block in split_blocks(content) if block.kind == "user")


def _rules_of_children(content: str) -> Iterator[str]:
    """The constraints that the children state; of a child that stands for itself what humans say in it."""
    for child in map(unescape_labels, split_children(content)):
        if is_rendered(child):
            yield from _human_rows(child)
        else:
            yield from (unmarked(line.text) for line in read_sections(child)[CONSTRAINTS])


def _parts(text: str) -> Iterator[tuple[tuple[str, str] | None, list[str]]]:
    """Each heading, as written and its words, with the lines under it; first the lines before any heading.

    Under Constraints a heading of a lower level is a line like the others.
    """
    title: tuple[str, str] | None = None
    level = 0
    body: list[str] = []
    for line in text.splitlines():
        found = _HEADING.match(line)
        lower = found is not None and title is not None and _level(found) > level and _TITLE.search(title[1])
        if found is None or lower:
            body.append(line)
            continue
        yield title, body
        title, level, body = (line, found["title"] or found["bold"]), _level(found), []
    yield title, body


def _level(heading: re.Match[str]) -> int:
    return len(heading["marks"] or "#######")


def _bullets(lines: Sequence[str]) -> list[str]:
    """The bullets of a section, however they are marked; lines that go on are joined."""
    bullets: list[str] = []
    for line in lines:
        words = bare(line)
        if not words:
            continue
        if bullets and line[:1].isspace() and words == line.strip():
            bullets[-1] += f" {words}"
        else:
            bullets.append(words)
    return bullets


def _with_facts(lines: list[str], facts: list[str]) -> list[str]:
    """The summary with more facts at the end of its Facts."""
    heading = f"## {NAMES[FACTS]}"
    if not facts:
        return lines
    if heading not in lines:
        return [*lines, heading, *facts]
    at = lines.index(heading) + 1
    while at < len(lines) and lines[at].strip() and not _HEADING.match(lines[at]):
        at += 1
    return [*lines[:at], *facts, *lines[at:]]
