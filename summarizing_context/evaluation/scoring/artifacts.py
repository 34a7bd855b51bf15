"""Artifacts: which files and records a view knows, and what it says was last done to each.

Pure. The truth is parsed from the calls of the session; what the view says is parsed from its words and its raw
calls. Both use the same few verbs, and neither uses the summarizer's own code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from summarizing_context.evaluation.cases.reading import Call, Read
from summarizing_context.evaluation.scoring.texts import folded

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
_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})")
_PATCHES = {"Add": _MADE, "Update": _CHANGED, "Delete": _GONE}
_SHORT = 400  # characters of a path


def last_operations(reads: Iterable[Read]) -> dict[str, str]:
    """What the calls last did to each path that they changed."""
    found: dict[str, str] = {}
    for read in reads:
        for call in read.calls:
            found.update(_done_by(call))
    return found


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


def score_artifacts(truth: Mapping[str, str], claimed: Mapping[str, str]) -> tuple[int, int, int]:
    """(right claims, artifacts, claims)."""
    right = sum(truth.get(path) == operation for path, operation in claimed.items())
    return right, len(truth), len(claimed)


def operations_in_view(summaries: Sequence[str], tail: Sequence[Read], truth: Mapping[str, str]) -> dict[str, str]:
    """What a view says about the true artifacts: summaries first, then raw calls."""
    claimed = claimed_operations((line for text in summaries for line in text.split("\n")), truth)
    return {**claimed, **{path: done for path, done in last_operations(tail).items() if path in truth}}


def _done_by(call: Call) -> dict[str, str]:
    patched = {
        path.strip(): _PATCHES[verb]
        for _, text in call.values
        if "*** " in text
        for verb, path in _PATCHED.findall(text)
    }
    if patched:
        return patched
    operation = _operation_of(call)
    if operation is None:
        return {}
    path = next((text for name, text in call.values if name in _PATH_NAMES and len(text) < _SHORT), "")
    return {path: operation} if path else {}


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
