"""Artifacts: the files and records that a session changed, and what a view says about them.

Pure. The truth is parsed from tool calls, and from shell commands with the standard lexer. Shell operations count only
where they name their files plainly. The summarizer's own code is not used.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from summarizing_context.evaluation.cases.model import Call, Read
from summarizing_context.evaluation.cases.verdicts import folded

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


_MADE, _CHANGED, _GONE = "made", "changed", "gone"

_VERBS = {
    _MADE: ("create", "creat", "write", "wrote", "written", "save", "add", "made"),
    _CHANGED: ("edit", "updat", "modif", "chang", "replac", "insert", "patch", "extend", "apply", "applied"),
    _GONE: ("delet", "remov", "drop", "clos", "archiv"),
}

_STEMS = sorted((verb for verbs in _VERBS.values() for verb in verbs), key=len, reverse=True)

_VERB = re.compile(rf"(?<![\w/.-])(?:{'|'.join(_STEMS)})")

_OPERATION = {verb: operation for operation, verbs in _VERBS.items() for verb in verbs}

_PATH_NAMES = frozenset(
    ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name", "ticket")
)

_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})(?:\n\*\*\* Move to: ([^\n\\\"]{1,400}))?")

_PATCHES = {"Add": _MADE, "Update": _CHANGED, "Delete": _GONE}

_SAME = {"moved": "removed"}  # from where it was

_COMMANDS = ("command", "cmd", "script")

_REFUSED = re.compile(
    r"(?i)\W{0,3}(?:<tool_use_error>|\w{0,30}error\b(?!\W{1,4}null)|success\W{1,4}false\b|"
    r"(?:failed|failure|fatal|invalid|cannot|could not|unable to|no such|not found|permission denied|"
    r"no (?:replacement|changes?) was|string to replace not|old_str\w{0,4} not|"
    r"the user (?:does ?n['’]t want|rejected|denied))\b)"
)

_SHORT = 400  # characters of a path

_SEEN = 2_000  # characters of a result in which a program would complain


def last_operations(reads: Iterable[Read]) -> dict[str, str]:
    """What the calls last did to each path that they changed; what its result refuses was not done."""
    done: list[list[Change]] = []  # by call
    waiting: dict[str, int] = {}
    for read in reads:
        for call in read.calls:
            waiting[call.id] = len(done)
            done.append(list(_done_by(call)))
        for id, text, failed in read.results:
            at = waiting.pop(id, None)
            if at is not None:
                done[at] = [change for change in done[at] if not _is_refused(change, text, failed)]
    return {change.path: change.operation for changes in done for change in changes}


def claimed_operations(lines: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
    """What the words of a view say was last done to each of these paths."""
    wanted = {folded(path): path for path in paths}
    found: dict[str, str] = {}
    for line in lines:
        bare = folded(line)
        for short, path in wanted.items():
            at = bare.find(short)
            if at > 0 and (verbs := _VERB.findall(bare[:at])):
                found[path] = _OPERATION[verbs[-1]]
    return found


def ledger_operations(facts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What a ledger says was last done to the paths that it calls changed."""
    changed = ((path, _VERB.search(_SAME.get(operation, operation))) for path, operation in facts)
    return {path: _OPERATION[found[0]] for path, found in changed if found}


def score_artifacts(truth: Mapping[str, str], claimed: Mapping[str, str]) -> tuple[int, int, int]:
    """(right claims, artifacts, claims)."""
    right = sum(truth.get(path) == operation for path, operation in claimed.items())
    return right, len(truth), len(claimed)


def operations_in_view(summaries: Sequence[str], tail: Sequence[Read], truth: Mapping[str, str]) -> dict[str, str]:
    """What a view says about the true artifacts: summaries first, then raw calls."""
    claimed = claimed_operations((line for text in summaries for line in text.split("\n")), truth)
    return {**claimed, **{path: done for path, done in last_operations(tail).items() if path in truth}}


def _done_by(call: Call) -> Iterator[Change]:
    patched = [match for _, text in call.values if "*** " in text for match in _PATCHED.findall(text)]
    for verb, path, target in patched:
        yield Change(path.strip(), _GONE if target else _PATCHES[verb], "")
        if target:
            yield Change(target.strip(), _MADE, "")
    if patched:
        return
    operation = _operation_of(call)
    path = next((text for name, text in call.values if name in _PATH_NAMES and len(text) < _SHORT), "")
    if operation is not None and path:
        yield Change(path, operation, "")
    elif command := " ".join(text for name, text in call.values if name in _COMMANDS):
        yield from shell_changes(command)


def _is_refused(change: Change, text: str, failed: bool) -> bool:
    """A tool's own failure; of a command, the complaint of the program that should have made the change."""
    if change.program:
        return f"{change.program}: " in text[:_SEEN]
    return failed or _REFUSED.match(text) is not None


def _operation_of(call: Call) -> str | None:
    """By the tool's name, or by its `command` where one tool does several things."""
    names = [text for name, text in call.values if name == "command" and " " not in text]
    for name in (*names, call.tool):
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
        for word in words:
            found = _VERB.match(word.lower())
            if found:
                return _OPERATION[found[0]]
    return None
