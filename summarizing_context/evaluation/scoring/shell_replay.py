"""What a shell command did to files, replayed with Python's own shell lexer: a second opinion on the ledger.

Pure. Only operations that name their files plainly are told: no variables, no patterns, no here-documents' bodies.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LONGEST = 4_000  # characters of a command
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:\n\s*\2(?=\W|\Z)|\Z)", re.DOTALL)
_PLAIN = re.compile(r"[\w./~+@%:=,-]{1,400}\Z")
_ENDS = {"&&", "||", ";", "|", "\n", "&", "(", ")"}
_DELETES = {"rm", "unlink", "rmdir"}
_BEFORE = {"sudo", "command", "env", "time", "then", "do", "else", "!"}


class Change(NamedTuple):
    """One file changed, and the program that did it."""

    path: str
    operation: str  # made, changed, gone
    program: str


def shell_changes(command: str) -> list[Change]:
    """The changes of a command, in order; none of one that no shell could read."""
    text = re.sub(r"\A\s*(?:/\S*/)?(?:ba|z|da)?sh -l?c ", "", command[:_LONGEST])
    folder = ""
    found: list[Change] = []
    for number, (words, written) in enumerate(_commands(_HEREDOC.sub(r"<<\2\3 ", re.sub(r"(?m)^\s*#.*$", "", text)))):
        found += [Change(path, "made", "sh") for path in written]
        if number == 0 and words[:1] == ["cd"] and len(words) == 2:
            folder = words[1]
        found += _changes(words)
    plain = [change for change in found if _PLAIN.match(change.path) and change.path not in (".", "..", "/")]
    return [_within(folder, change) for change in plain if not change.path.startswith(("/dev/", "-"))]


def _commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters = " \t\r", ""
    try:
        tokens = list(lexer)
    except ValueError:
        return
    words: list[str] = []
    written: list[str] = []
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else ""
        if token in _ENDS or set(token) <= {"\n", ";"}:
            yield words, written
            words, written = [], []
        elif before in (">", ">>", "&>", "&>>"):
            if tokens[at - 2 : at - 1] != ["2"]:
                written.append(token)
        elif token.isdigit() and tokens[at + 1 : at + 2] and tokens[at + 1][0] == ">":
            continue
        elif before not in ("<", "<<", ">&") and not set(token) <= set("<>&"):
            words.append(token)
    yield words, written


def _changes(words: Sequence[str]) -> list[Change]:
    while words and words[0] in _BEFORE:
        words = words[1:]
    if words[:2] in (["git", "rm"], ["git", "mv"]):
        words = words[1:]
    program, names = (words[0] if words else ""), [word for word in words[1:] if word and not word.startswith("-")]
    if program in _DELETES:
        return [Change(name, "gone", program) for name in names]
    if program in ("mkdir", "tee"):
        return [Change(name, "made", program) for name in names]
    if program in ("mv", "cp") and len(names) == 2:
        target = names[1] + (names[0].rstrip("/").rpartition("/")[2] if names[1].endswith("/") else "")
        gone = [Change(names[0], "gone", program)] if program == "mv" else []
        return [*gone, Change(target, "made", program)]
    if program == "sed" and any(word.startswith("-i") or word == "--in-place" for word in words):
        return [Change(name, "changed", program) for name in names[1:] if "/" in name or "." in name]
    return []


def _within(folder: str, change: Change) -> Change:
    if not folder or not _PLAIN.match(folder) or change.path.startswith(("/", "~")):
        return change
    return change._replace(path=f"{folder.rstrip('/')}/{change.path.removeprefix('./')}")
