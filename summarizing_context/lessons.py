"""What a session leaves behind for later ones: the constraints and decisions that it ended with.

First what the human said, by the ledger, without what was taken back; then what summaries tell of it besides, such as
what the agent chose. Keeping it is `memories`' matter.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from summarizing_context.core.tree import Node
from summarizing_context.parts import Parts

_LATEST, _SUPERSEDED = " (latest)", " (superseded)"  # marks of rules in what stands for a segment
_MOST = 50  # lessons of one session, the newest
_WITHIN = 0.5  # seconds to read summaries, some of which are only made by that
_LONGEST = 2_000  # characters
_HEADINGS = ("## Constraints and corrections", "## Decisions")
_CUT = "…"


def lessons(parts: Parts) -> list[str]:
    """The constraints and decisions of a session, oldest first, each once."""
    facts = [fact for fact in parts.ledger.newest_facts() if fact.kind in ("constraint", "decision")]
    gone = {_flat(rule.text) for rule in parts.timeline.rules.before(len(parts.timeline)).replaced}
    gone |= {_flat(fact.value) for fact in facts if fact.superseded}
    said = gone | {_flat(fact.value) for fact in facts}
    valid = [text for text in dict.fromkeys(_flat(fact.value) for fact in facts) if text not in gone][-_MOST:]
    told: dict[str, None] = {}
    for line in _told(parts):
        if len(valid) + len(told) >= _MOST:
            break
        if not _is_said(line, said):
            told[line] = None
    return [line[:_LONGEST] for line in [*reversed(told), *valid]]


def _told(parts: Parts) -> Iterator[str]:
    """Lines of the sections that outlive a session, in what stands for its segments and for the rest of it; the newest
    first, as long as there is time."""
    timeline, book = parts.timeline, parts.book
    until = time.monotonic() + _WITHIN
    rest = timeline.covered_by_segments
    if rest < len(timeline):
        yield from _section_lines(book.provisional(rest, len(timeline), parts.settings.summary_max_tokens))
    for at in reversed(range(len(timeline.segments))):
        if time.monotonic() > until:
            return
        yield from _section_lines(book.text_of(Node(0, at)).text)


def _section_lines(text: str) -> list[str]:
    """The lines of these sections, the last first, without the marks of a quote."""
    found: list[str] = []
    wanted = False
    for line in text.splitlines():
        if line.startswith("## "):
            wanted = line.strip() in _HEADINGS
        elif wanted and len(line) > 2 and line.startswith("- "):
            text, superseded = line[2:].strip().removesuffix(_LATEST), line.rstrip().endswith(_SUPERSEDED)
            if not superseded:
                found.append(_flat(text.removeprefix('"').removesuffix('"')))
    return found[::-1]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _is_said(line: str, said: set[str]) -> bool:
    if line in said:
        return True
    start, cut, _ = line.partition(_CUT)
    return bool(cut and start) and any(value.startswith(start.strip()) for value in said)
