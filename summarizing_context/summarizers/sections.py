"""The fixed sections of a summary: reading them, writing them, and choosing what fits.

Pure. What goes into a section is decided elsewhere; here lines compete for the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from summarizing_context.core.sentences import GONE, clip, shown
from summarizing_context.summarizers.parameters import SHIPPED

Count = Callable[[str], int]
STRICT_SHARE = SHIPPED.room.strict

INTENT, CONSTRAINTS, DONE, DECISIONS, ERRORS, STATE, FACTS = range(7)
NAMES = (
    "Intent",
    "Constraints and corrections",
    "Done",
    "Decisions",
    "Errors and fixes",
    "State and next step",
    "Facts",
)
PRIORITY = (CONSTRAINTS, STATE, INTENT, DECISIONS, ERRORS, DONE, FACTS)  # what is kept longest comes first
_SECOND = (CONSTRAINTS, ERRORS, DONE, FACTS, DECISIONS, STATE, INTENT)  # who is asked first for what is left over
STRICT_RANK = 6  # of constraints: from here on they are no mere preferences
_BY_HEADING = {f"## {name}": section for section, name in enumerate(NAMES)}


class Line(NamedTuple):
    """One bullet of a section."""

    text: str  # on one line, without the bullet
    rank: int = 0  # the higher, the longer it is kept; equal ranks: the later


Sections = list[list[Line]]  # one list for each name, each in the order in which it is shown


def empty_sections() -> Sections:
    """No line in any section."""
    return [[] for _ in NAMES]


def read_sections(summary: str) -> Sections:
    """The bullets of a summary text. Text outside the fixed sections counts as facts, a line each."""
    sections = empty_sections()
    section = FACTS
    for raw in summary.split("\n"):
        line = shown(raw)
        if line in _BY_HEADING:
            section = _BY_HEADING[line]
        elif len(line) > 2 and not line.startswith("## "):
            sections[section].append(Line(line[2:] if line.startswith("- ") else line))
    return sections


def nothing_readable(content: str) -> list[Line]:
    """What to say of a content in which no line can be shown."""
    kind = "text without words" if content.strip() else "blank text"
    return [Line(f"({kind}: {len(content)} characters)")]


def write_sections(sections: Iterable[Sequence[str]]) -> str:
    """The summary text of these bullets; empty sections are omitted."""
    parts = [
        f"## {name}\n" + "\n".join(f"- {text}" for text in texts)
        for name, texts in zip(NAMES, sections, strict=True)
        if texts
    ]
    return "\n".join(parts)


class _Room:
    """What is taken so far, and what is left of the budget."""

    def __init__(self, max_tokens: int, count: Count) -> None:
        self.left = max_tokens
        self.used = [0] * len(NAMES)  # tokens by section
        self.taken: list[dict[int, str]] = [{} for _ in NAMES]
        self.order: list[tuple[int, int]] = []  # in which the lines were taken
        self.costs: dict[tuple[int, int], int] = {}
        self._count = count

    def take(self, section: int, lines: Sequence[Line], most: int, least_rank: int = 0) -> None:
        """Take lines of a section by rank, up to `most` tokens for all of them; three that are too long end it."""
        missed = 0
        for at in sorted(range(len(lines)), key=lambda at: (-lines[at].rank, -at)):
            if at in self.taken[section]:
                continue
            if lines[at].rank < least_rank:
                break
            cost = self._cost(section, at, lines[at].text)
            if cost > min(most - self.used[section], self.left):
                missed += 1
                if missed > 2:
                    break
                continue
            self.taken[section][at] = lines[at].text
            self.order.append((section, at))
            self.left -= cost
            self.used[section] += cost

    def write(self) -> str:
        return write_sections([[texts[at] for at in sorted(texts)] for texts in self.taken])

    def give_back(self) -> None:
        """Drop the line that was taken last."""
        section, at = self.order.pop()
        del self.taken[section][at]

    def _cost(self, section: int, at: int, text: str) -> int:
        cost = self.costs.get((section, at))
        if cost is None:
            cost = self.costs[section, at] = self._count(f"- {text}\n")
        return cost if self.taken[section] else cost + self._heading_cost(section)

    def _heading_cost(self, section: int) -> int:
        cost = self.costs.get((section, -1))
        if cost is None:
            cost = self.costs[section, -1] = self._count(f"## {NAMES[section]}\n")
        return cost


def fit(sections: Sections, shares: Sequence[int], max_tokens: int, count: Count, *, strict: int = STRICT_SHARE) -> str:
    """The summary of the lines that fit. `shares` are percents for each section; what is left over goes by priority.

    `strict` is the percentage of the room that strict constraints may take before all others.
    """
    room = _Room(max_tokens, count)
    room.take(CONSTRAINTS, sections[CONSTRAINTS], max_tokens * strict // 100, STRICT_RANK)
    for section in PRIORITY:
        room.take(section, sections[section], max_tokens * shares[section] // 100)
    for section in _SECOND:
        room.take(section, sections[section], max_tokens * shares[section] * 3 // 200)
    for section in PRIORITY:
        room.take(section, sections[section], max_tokens)
    while room.order:
        text = room.write()
        if count(text) <= max_tokens:
            return text
        room.give_back()
    return squeeze(sections, max_tokens, count)


def squeeze(sections: Sections, max_tokens: int, count: Count) -> str:
    """The most important line alone, with its heading if both fit, else cut at a word's end; never empty."""
    for section in PRIORITY:
        for line in sorted(sections[section], key=lambda line: -line.rank)[:1]:
            whole = f"## {NAMES[section]}\n- {line.text}"
            return whole if count(whole) <= max_tokens else shorten(line.text, max_tokens, count)
    return GONE


def shorten(text: str, max_tokens: int, count: Count) -> str:
    """`text` cut at a word's end so that `count` gives at most `max_tokens`; the mark alone if no word fits."""
    text = shown(text)
    tokens = count(text)
    while tokens > max_tokens and text != GONE:
        text = clip(text.removesuffix(f" {GONE}"), min(len(text) - 1, max(len(text) * max_tokens // tokens, 1)))
        tokens = count(text)
    return text
