"""What makes a message matter, told from it alone: it decides, it failed, it changes something, it names files.

Pure, and bounded: of long texts only both ends are looked at. What these traits weigh is said in `importance`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.tool_calls import CHANGES, COMMITS, verb_of
from summarizing_context.messages.parts import Part
from summarizing_context.messages.reading import Reading

DECISION, ERROR, WRITE = 1, 2, 4

_END = 1_000  # characters of either end of a long text

_NAMES = 8  # files that one call names

_HINTS = (  # without which no line names an error; looking for them is quick
    *("rror:", "ERR", "FAIL", "xception", "fatal:", "panic:", "not found", "No such", "enied", "imed out", " failed"),
    *("Traceback", "xit code", "xit status", "xited with", "rror[", "rror ("),
)

_CHOOSING = ("decid", "decision", "chose", "choosing", "go with", "going with", "opt", "settled", "agreed", "switch")

_CHOICE = re.compile(
    r"\b(?:chose|chosen|choosing|decided (?:to|on|that|against)|going with|(?:let['’]?s|i['’]?ll) go with|"
    r"opt(?:ed|ing)? for|settled on|agreed (?:to|on|that)|decision (?:is|was)|switch(?:ed|ing) to)\b"
)

_COMMAND = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\]|\\.){1,400})')

_FILE = re.compile(r"[\w.~-]{0,60}/[\w./~-]{2,200}|\b[\w-]{1,60}\.[A-Za-z]{1,5}\b")


class Traits(NamedTuple):
    """The traits of a message, and the names of the files in its calls, as numbers."""

    flags: int = 0
    names: tuple[int, ...] = ()


NO_TRAITS = Traits()


def read_traits(reading: Reading, typed: Sequence[str]) -> Traits:
    """What is noteworthy in a message; `typed` are its human texts."""
    flags, names = 0, dict[int, None]()
    for part in reading.parts:
        if part.kind == "result":
            flags |= ERROR * _is_error(part)
        elif part.kind == "call":
            text = _ends("".join(part.texts))
            flags |= WRITE * _changes(part.name, text)
            names.update(dict.fromkeys(crc32(name.encode("utf-8", "replace")) for name in _FILE.findall(text)))
    written = (text for part in reading.parts if part.kind == "text" for text in part.texts)
    if any(map(_decides, written if reading.role == "assistant" else typed)):
        flags |= DECISION
    return Traits(flags, tuple(names)[:_NAMES]) if flags or names else NO_TRAITS


def _is_error(part: Part) -> bool:
    if part.failed:
        return True
    ends = map(_ends, part.texts)
    return any(any(hint in text for hint in _HINTS) and first_error_line(text, False) for text in ends)


def _decides(text: str) -> bool:
    said = _ends(text).lower()
    return any(hint in said for hint in _CHOOSING) and _CHOICE.search(" ".join(said.split())) is not None


def _changes(tool: str, arguments: str) -> bool:
    """Whether a call changes something, by its tool's name, a patch, or the command that it runs."""
    if verb_of(tool) or "*** Begin Patch" in arguments:
        return True
    command = _COMMAND.search(arguments)
    if command is None:
        return False
    said = command[1]
    return bool(verb_of(said) if said.isidentifier() else COMMITS.search(said) or CHANGES.search(said))


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _END else f"{text[:_END]}\n{text[-_END:]}"
