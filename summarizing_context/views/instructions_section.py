"""The block of a header that holds the covered instruction files of a project, as whole Markdown sections.

Pure. The newest text of each file is shown, the files in the order of the log and their sections in order. Where room
is short, the file that came last is filled first. A line behind a file counts what is left out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from summarizing_context.log.kept_texts import Instructions
from summarizing_context.messages.fences import fence
from summarizing_context.messages.truncation import Count

PREFACE = (
    "The project's instruction files, as the host put them into the conversation, each in its newest text. They are no "
    "summary, and still hold."
)

_TAG = "project_instructions"

_HEADING = re.compile(r"#{1,6}\s")

_FENCES = ("```", "~~~")  # of code, in which nothing is a heading

_LINE = 2  # tokens that join two pieces, about


class _Piece(NamedTuple):
    """Part of a file that is shown whole or not at all."""

    file: int
    text: str
    tokens: int


def instructions_block(files: Sequence[Instructions], cap: int, count: Count) -> str:
    """What fits of some files into `cap` tokens; "" where nothing does."""
    if not files or cap <= 0:
        return ""
    pieces = [
        _Piece(at, text, count(text))
        for at, file in enumerate(files)
        for section in markdown_sections(file.text)
        for text in (_paragraphs(section) if count(section) > cap else (section,))
    ]
    whole = _block(files, pieces, range(len(pieces)))
    if count(whole) <= cap:
        return whole
    left = cap - count(_block(files, pieces, ()))
    chosen: list[int] = []
    for at in sorted(range(len(pieces)), key=lambda at: (-pieces[at].file, at)):
        if pieces[at].tokens + _LINE <= left:
            chosen.append(at)
            left -= pieces[at].tokens + _LINE
    while chosen:
        block = _block(files, pieces, sorted(chosen))
        if count(block) <= cap:
            return block
        chosen.pop()
    return ""


def markdown_sections(text: str) -> Iterator[str]:
    """A text parted before each of its headings."""
    lines: list[str] = []
    fenced = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(_FENCES):
            mark = line.lstrip()[:3]
            fenced = mark if not fenced else "" if mark == fenced else fenced
        if not fenced and _HEADING.match(line) and lines:
            yield "\n".join(lines).strip("\n")
            lines = []
        lines.append(line)
    yield "\n".join(lines).strip("\n")


def _paragraphs(section: str) -> list[str]:
    return [paragraph.strip("\n") for paragraph in re.split(r"\n[^\S\n]*\n", section) if paragraph.strip()]


def _block(files: Sequence[Instructions], pieces: Sequence[_Piece], chosen: Sequence[int]) -> str:
    texts = [PREFACE]
    kept = frozenset(chosen)
    for number, file in enumerate(files):
        texts.append(f"### {file.name} (message {file.message})")
        texts += [piece.text for at, piece in enumerate(pieces) if piece.file == number and at in kept]
        missing = [piece.tokens for at, piece in enumerate(pieces) if piece.file == number and at not in kept]
        if missing:
            parts = f"{len(missing)} part{'s' * (len(missing) > 1)}, {sum(missing)} tokens"
            texts.append(f"[not shown for want of room: {parts} (/context expand {file.message})]")
    return fence(_TAG, "\n\n".join(texts))
