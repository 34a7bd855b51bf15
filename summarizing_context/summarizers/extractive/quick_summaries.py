"""Quick summaries: rules, errors, paths and last words of a content, found by plain searches.

Pure. They are used where hundreds of segments must be shown at once. `segments` reads the same content thoroughly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.tool_calls import looks_only, verb_of
from summarizing_context.messages.text import cleaned, clip, list_whole, shown, split_prose
from summarizing_context.summarizers.extractive.salience import Found
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    DONE,
    ERRORS,
    FACTS,
    INTENT,
    STATE,
    Block,
    Line,
    Sections,
    empty_sections,
    nothing_readable,
    split_blocks,
)
from summarizing_context.summarizers.extractive.statements import find_constraints, find_intent, sentence

SKIM_SHARES = (20, 60, 25, 0, 25, 20, 15)

_FAILURES = ("Traceback (most", "\nFAILED", "\n--- FAIL", "rror: ", "xit code ", "fatal: ", "panic: ", "ERROR")

_PATH = re.compile(r'path":\s?"([^"\\\n]{1,300})"')

_END_CHARACTERS = 500  # characters; twice as many at the end of a block are read


def skim_sections(content: str) -> Sections:
    """The few lines that plain searches find."""
    blocks = split_blocks(content)
    sections = empty_sections()
    human = [(at, block) for at, block in enumerate(blocks) if block.kind == "user" and block.body]
    sections[CONSTRAINTS] = find_constraints(block.body for _, block in human)
    known = {line.text for line in sections[CONSTRAINTS]}
    if human:
        sections[INTENT] = find_intent(_sentences(human[-1:]), known)[-1:]
    sections[ERRORS] = _failures(blocks)
    sections[DONE] = _paths(blocks)
    spoken = [(at, block) for at, block in enumerate(blocks) if block.kind in ("assistant", "thinks")][-1:]
    if last := [one for one in _sentences(spoken) if len(one.words) > 3][-1:]:
        sections[STATE] = [Line(shown(last[0].text))]
    if not any(sections):
        sections[FACTS] = _any_line(blocks, content)
    return sections


def _sentences(blocks: Iterable[tuple[int, Block]]) -> list[Found]:
    """The sentences at the end of these blocks."""
    return [sentence(text, at) for at, block in blocks for text in split_prose(cleaned(_end_of(block.body)))[0]]


def _end_of(body: str) -> str:
    """The last lines of a body, or the whole words near its end."""
    if len(body) <= 2 * _END_CHARACTERS:
        return body
    low = len(body) - 2 * _END_CHARACTERS
    at = body.find("\n", low)
    return body[at if at >= 0 else max(body.find(" ", low), low) :]


def _failures(blocks: Sequence[Block]) -> list[Line]:
    lines: dict[str, Line] = {}
    for block in blocks:
        failed = block.kind == "failed"
        if not failed and (block.kind != "result" or looks_only(block.tool)):
            continue
        if failed or any(mark in block.body for mark in _FAILURES):
            line = first_error_line(block.body, failed)
            if line:
                lines.pop(line, None)
                lines[line] = Line(f"{block.tool}: {line}", 2 if failed else 1)
    return list(lines.values())[-6:]


def _paths(blocks: Sequence[Block]) -> list[Line]:
    changed: dict[str, None] = {}
    looked: dict[str, None] = {}
    for block in blocks:
        if block.kind == "call" and 'path":' in block.body:
            names = changed if verb_of(block.tool) else looked
            for found in islice(_PATH.finditer(block.body), 8):
                names[found[1]] = None
    lines = [Line(f"changed {list_whole(changed, 240)}", 2)] if changed else []
    return [*lines, Line(f"looked at {list_whole(looked, 160)}", 1)] if looked else lines


def _any_line(blocks: Sequence[Block], content: str) -> list[Line]:
    """The first words of the newest block that has some."""
    for block in reversed(blocks):
        if len(block.body) > 1 and len(words := clip(shown(cleaned(block.body[:2000])), 200)) > 1:
            return [Line(words)]
    return nothing_readable(content)
