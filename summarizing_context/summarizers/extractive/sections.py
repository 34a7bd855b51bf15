"""The sections of a summary: read them, write them, choose what fits; and the blocks of a job's content.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from summarizing_context.messages.authorship import split_words
from summarizing_context.messages.text import GONE, clip, shown
from summarizing_context.summarizers.extractive.figures import STRICT_SHARE

Count = Callable[[str], int]


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

_LAST = (CONSTRAINTS, STATE, INTENT, DECISIONS, ERRORS, FACTS, DONE)  # who takes what is still left

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


def without_section(summary: str, section: int) -> str:
    """A summary text without one of its fixed sections."""
    kept: list[str] = []
    is_kept = True
    for line in summary.split("\n"):
        if line.startswith("## "):
            is_kept = line != f"## {NAMES[section]}"
        kept += [line] if is_kept else []
    return "\n".join(kept)


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

    def take(self, section: int, ranked: Sequence[tuple[int, Line]], most: int, least_rank: int = 0) -> None:
        """Take numbered lines of a section, in order, up to `most` tokens for all; three too long ones end it."""
        missed = 0
        for at, line in ranked:
            if at in self.taken[section]:
                continue
            if line.rank < least_rank:
                break
            cost = self._cost(section, at, line.text)
            if cost > min(most - self.used[section], self.left):
                missed += 1
                if missed > 2:
                    break
                continue
            self.taken[section][at] = line.text
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
    ranked = [sorted(enumerate(lines), key=lambda it: (-it[1].rank, -it[0])) for lines in sections]
    room.take(CONSTRAINTS, ranked[CONSTRAINTS], max_tokens * strict // 100, STRICT_RANK)
    for section in PRIORITY:
        room.take(section, ranked[section], max_tokens * shares[section] // 100)
    for section in _SECOND:
        room.take(section, ranked[section], max_tokens * shares[section] * 3 // 200)
    for section in _LAST:
        room.take(section, ranked[section], max_tokens)
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
            text = f"## {NAMES[section]}\n- {line.text}"
            return text if count(text) <= max_tokens else shorten(line.text, max_tokens, count)
    return GONE


def shorten(text: str, max_tokens: int, count: Count) -> str:
    """`text` cut at a word's end so that `count` gives at most `max_tokens`; the mark alone if no word fits."""
    text = shown(text)
    tokens = count(text)
    while tokens > max_tokens and text != GONE:
        text = clip(text.removesuffix(f" {GONE}"), min(len(text) - 1, max(len(text) * max_tokens // tokens, 1)))
        tokens = count(text)
    return text


BlockKind = Literal["user", "assistant", "thinks", "call", "result", "failed", "note", "system", "media", "other"]

_LABEL = re.compile(
    r"(?:(?P<outcome>failed |late )?result of (?P<tool>.+)"
    r"|(?P<role>user|assistant|system|developer|tool|function)"
    r"(?: (?:(?P<what>note|thinks|media)(?: \S+)?|calls (?P<called>.+)))?)\Z"
)

_TIMES = re.compile(r" \((\d+) times\)\Z")

_SUMMARY_LABEL = re.compile(r"(?:\A|(?<=\n))### summary \d+ of \d+(?:\n|\Z)")

_ESCAPED = re.compile(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])\\(\\*### )")

_LABEL_LIKE = re.compile(r"^[ \t]*### (.*)$", re.MULTILINE)

_ROLES: dict[str, BlockKind] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

_PARTS: dict[str, BlockKind] = {"note": "note", "thinks": "thinks", "media": "media"}


class Block(NamedTuple):
    """What stands under one label."""

    kind: BlockKind
    body: str
    tool: str = ""


def split_blocks(content: str) -> list[Block]:
    """The blocks of a segment's content, in order; text before the first label is a block of kind `other`."""
    known: dict[str, tuple[BlockKind, str] | None] = {}
    blocks: list[Block] = []
    pieces = ("\n" + content).split("\n### ")
    if pieces[0].strip():
        blocks.append(Block("other", pieces[0]))
    for piece in pieces[1:]:
        label, _, body = piece.partition("\n")
        if label not in known:
            known[label] = _read_label(label)
        read = known[label]
        if read is not None and read[0] == "user":
            blocks += _user_blocks(body)
        else:
            blocks.append(Block(read[0], body, read[1]) if read else Block("other", piece))
    return blocks


def _user_blocks(body: str) -> list[Block]:
    """The user's words, and what a host put beside them. Older contents hold both under one label."""
    typed, put_in = split_words(body)
    blocks = [Block("user", typed)] if typed.strip() or not put_in else []
    return [*blocks, Block("note", put_in)] if put_in else blocks


def split_children(content: str) -> list[str]:
    """The texts under the `### summary i of n` lines of a rollup's content; all of it, if there is no such line."""
    pieces = _SUMMARY_LABEL.split(content)
    return [piece.rstrip("\n") for piece in pieces if piece.strip()]


def unescape_labels(text: str) -> str:
    """A child's text as it was before it was put into a rollup's content."""
    return _ESCAPED.sub(r"\1\2", text) if "\\### " in text else text


def escape_labels(text: str) -> str:
    """A model's text in which no line can be taken for the label of a block."""

    def escaped(found: re.Match[str]) -> str:
        is_label = _read_label(found[1]) is not None or _SUMMARY_LABEL.match(found[0].lstrip())
        return f"\\{found[0].lstrip()}" if is_label else found[0]

    return _LABEL_LIKE.sub(escaped, text)


def is_rendered(text: str) -> bool:
    """Whether this is a segment's own content, standing for itself because it is short."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith("### ") and _read_label(first[4:]) is not None


def _read_label(label: str) -> tuple[BlockKind, str] | None:
    bare = _TIMES.sub("", label) if label.endswith(" times)") else label
    found = _LABEL.match(bare)
    if found is None:
        return None
    if tool := found["tool"]:
        return ("failed" if found["outcome"] == "failed " else "result"), tool
    if called := found["called"]:
        return "call", called
    if what := found["what"]:
        return _PARTS[what], ""
    return _ROLES.get(found["role"], "result"), ""
