"""The sections of a summary: read them, and write those lines that fit; and the blocks of a job's content.

Pure.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from summarizing_context.messages.text import GONE, clip, shown
from summarizing_context.messages.tokens import estimate_text

INTENT, CONSTRAINTS, DONE, DECISIONS, ERRORS, STATE, FACTS = range(7)
NAMES = (
    *("Intent", "Constraints and corrections", "Done", "Decisions", "Errors and fixes", "State and next step"),
    "Facts",
)
PRIORITY = (CONSTRAINTS, STATE, INTENT, DECISIONS, ERRORS, DONE, FACTS)  # what is kept longest comes first
SHARES = (14, 30, 18, 14, 14, 6, 34)  # percents of a summary
STRICT_RANK = 6  # of constraints: from here on they are no mere preferences
GUIDE_RANK = 100  # of facts: rules that a guide states


class Line(NamedTuple):
    text: str  # on one line, without the bullet
    rank: int = 0  # the higher, the longer it is kept; equal ranks: the later


Sections = list[list[Line]]  # one list for each name, each in the order in which it is shown


def read_sections(summary: str) -> Sections:
    """Return the bullets of a summary text. Text outside the fixed sections counts as facts, a line each."""
    sections: Sections = [[] for _ in NAMES]
    section = FACTS
    for line in map(shown, summary.split("\n")):
        if line.startswith("## "):
            section = NAMES.index(line[3:]) if line[3:] in NAMES else section
        elif len(line) > 2:
            sections[section].append(Line(line.removeprefix("- ")))
    return sections


def nothing_readable(content: str) -> Line:
    """Return what to say of a content in which no line can be shown."""
    return Line(f"({len(content)} characters without words)")


def fit(sections: Sections, max_tokens: int) -> str:
    """Write the summary of the lines that fit. Never empty.

    Strict constraints and rules of guides go first, then each section has its share; what is left over goes to all.
    Where no line fits, the most important one is cut at a word's end.
    """
    ranked = [sorted(enumerate(lines), key=lambda it: (-it[1].rank, -it[0])) for lines in sections]
    taken: dict[tuple[int, int], None] = {}  # section and number of each line, in the order of choice
    used = dict.fromkeys(range(len(NAMES)), 0)  # tokens by section
    cost_of = cache(estimate_text)
    rounds = [(CONSTRAINTS, 70, STRICT_RANK), (FACTS, 20, GUIDE_RANK)]  # a section, percents of the room, a least rank
    rounds += [(section, SHARES[section], 0) for section in PRIORITY] + [(section, 100, 0) for section in PRIORITY]
    for section, percent, lowest in rounds:
        missed = 0
        for at, line in ranked[section]:
            if line.rank < lowest or missed > 2:  # three too long ones end it
                break
            cost = cost_of(f"- {line.text}\n") + (0 if used[section] else cost_of(f"## {NAMES[section]}\n"))
            if (section, at) in taken:
                continue
            if cost <= min(max_tokens * percent // 100 - used[section], max_tokens - sum(used.values())):
                taken[section, at] = None
                used[section] += cost
            else:
                missed += 1
    while taken:
        parts = {section: f"## {NAMES[section]}" for section, _ in sorted(taken)}
        for section, at in sorted(taken):
            parts[section] += f"\n- {sections[section][at].text}"
        if estimate_text(text := "\n".join(parts.values())) <= max_tokens:
            return text
        taken.popitem()
    section = next((section for section in PRIORITY if sections[section]), FACTS)
    first = max(sections[section], key=lambda line: line.rank, default=Line(GONE)).text
    text = f"## {NAMES[section]}\n- {first}"
    return text if estimate_text(text) <= max_tokens else shorten(first, max_tokens)


def shorten(text: str, max_tokens: int) -> str:
    """Cut `text` at a word's end to at most `max_tokens`; the mark alone if no word fits."""
    text = shown(text)
    while (tokens := estimate_text(text)) > max_tokens and text != GONE:
        text = clip(text.removesuffix(f" {GONE}"), min(len(text) - 1, max(len(text) * max_tokens // tokens, 1)))
    return text


_LABEL = re.compile(
    r"(?:(?P<outcome>failed |late )?result of (?P<tool>.+?)"
    r"|(?P<role>user|assistant|system|developer|tool|function)"
    r"(?: (?:(?P<what>note|thinks|media)(?: \S+)?|calls (?P<called>.+?)))?)(?: \(\d+ times\))?\Z"
)
_SUMMARY_LABEL = re.compile(r"(?:\A|(?<=\n))### summary \d+ of \d+(?:\n|\Z)")


class Block(NamedTuple):
    kind: str  # user, assistant, thinks, call, result, failed, note, system, media or other
    body: str
    tool: str = ""


def split_blocks(content: str) -> list[Block]:
    """Return the blocks of a segment's content, in order; text before the first label is a block of kind `other`."""
    first, *pieces = f"\n{content}".split("\n### ")
    blocks = [Block("other", first)] if first.strip() else []
    for piece in pieces:
        label, _, body = piece.partition("\n")
        if (found := _LABEL.match(label)) is None:
            blocks.append(Block("other", piece))
        elif found["tool"]:
            blocks.append(Block("failed" if found["outcome"] == "failed " else "result", body, found["tool"]))
        elif found["called"]:
            blocks.append(Block("call", body, found["called"]))
        else:
            kinds = {"developer": "system", "tool": "result", "function": "result"}
            kind = found["what"] or found["role"]
            blocks.append(Block(kinds.get(kind, kind), body))
    return blocks


def is_rendered(text: str) -> bool:
    """Say whether this is a segment's own content, standing for itself because it is short."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith("### ") and _LABEL.match(first[4:]) is not None


def split_children(content: str) -> list[str]:
    """Return the texts under the `### summary i of n` lines of a rollup's content; all of it, if there is none. They
    are as they were before they were put into it."""
    texts = [piece.rstrip("\n") for piece in _SUMMARY_LABEL.split(content) if piece.strip()]
    return [re.sub(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])\\(\\*### )", r"\1\2", text) for text in texts]


def escape_labels(text: str) -> str:
    """Return a model's text in which no line can be taken for the label of a block."""

    def escaped(found: re.Match[str]) -> str:
        is_label = _LABEL.match(found[1]) or _SUMMARY_LABEL.match(found[0].lstrip())
        return f"\\{found[0].lstrip()}" if is_label else found[0]

    return re.sub(r"^[ \t]*### (.*)$", escaped, text, flags=re.MULTILINE)
