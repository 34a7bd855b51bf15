"""Reading a job's content back into blocks: who speaks, what is called, what came of it.

Pure. The labels are written by `core.rendering`, which escapes every other line that looks like one: a body
cannot forge a label. Whatever does not follow the grammar is kept as a block of kind `other`, never as human.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from summarizing_context.core.authorship import split_words

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
    """What the user typed, and what a host put beside it: older contents hold both under one label."""
    typed, put_in = split_words(body)
    said = [Block("user", typed)] if typed.strip() or not put_in else []
    return [*said, Block("note", put_in)] if put_in else said


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
