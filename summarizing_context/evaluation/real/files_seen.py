"""What a coding agent reads again after a compaction: project instructions, and the files that it touched last.

Pure. Reads calls and results by the names that common tools use; a file is as its newest reading or writing shows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from summarizing_context.evaluation.real.rendering import Message, as_text, blocks_of, parts_of

_PATHS = ("file_path", "path", "filePath", "filename", "absolute_path")
_COMMANDS = ("command", "cmd", "script")
_WRITTEN = ("content", "file_text", "text")
_READS = re.compile(r"(?:read|view|open|cat)", re.IGNORECASE)
_SHELL_READ = re.compile(r"^\s*(?:cat|nl|head|tail|sed)\b[^|;&<>]*?\s(?P<path>[\w@~./+-]*[\w/][.][\w.]{1,12})\s*$")
_INSTRUCTION_FILE = re.compile(r"(?:^|/)(?:AGENTS|CLAUDE|GEMINI)(?:\.local)?\.md$")
_INJECTED = re.compile(r"(?:AGENTS|CLAUDE)\.md instructions|Contents of \S*(?:AGENTS|CLAUDE)\.md")


class _Call(NamedTuple):
    id: str
    tool: str
    arguments: dict[str, Any]


def seen_files(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Paths with their newest text, the one touched last first; without files of instructions."""
    return [(path, text) for path, text in _all_seen(messages) if not _INSTRUCTION_FILE.search(path)]


def instructions_of(messages: Sequence[Message]) -> list[str]:
    """Project instructions: what a client put before the session, and instruction files that the agent read."""
    found = [
        part.text
        for message in messages
        for part in parts_of(message)
        if part.label == "user" and _INJECTED.search(part.text[:2_000])
    ]
    found += [f"{path}\n{text}" for path, text in _all_seen(messages) if _INSTRUCTION_FILE.search(path)]
    return list(dict.fromkeys(found))


def _all_seen(messages: Sequence[Message]) -> list[tuple[str, str]]:
    seen: dict[str, str] = {}
    asked: dict[str, str] = {}  # path by the id of the call that reads it
    for message in messages:
        for id, text in _results(message):
            if (path := asked.pop(id, None)) is not None and text:
                seen.pop(path, None)
                seen[path] = text
        for call in _calls(message):
            path = _path_of(call)
            if path is None:
                continue
            written = next((call.arguments[name] for name in _WRITTEN if isinstance(call.arguments.get(name), str)), "")
            if written:
                seen.pop(path, None)
                seen[path] = written
            elif _READS.search(call.tool) or not any(name in call.arguments for name in _PATHS):
                asked[call.id] = path
            elif path in seen:  # edited: the text as it was last seen, and the file is the newest
                seen[path] = seen.pop(path)
    return list(reversed(seen.items()))


def _path_of(call: _Call) -> str | None:
    for name in _PATHS:
        if isinstance(path := call.arguments.get(name), str) and path:
            return path
    for name in _COMMANDS:
        command = call.arguments.get(name)
        if isinstance(command, list):
            command = command[-1] if command else ""
        if isinstance(command, str) and (read := _SHELL_READ.match(command)):
            return read["path"]
    return None


def _calls(message: Message) -> Iterator[_Call]:
    for block in blocks_of(message):
        if block.get("type") in ("tool_use", "tool_call"):
            yield _Call(str(block.get("id")), str(block.get("name")), _object(block.get("input")))
    for call in message.get("tool_calls") or []:
        function = call.get("function", call)
        yield _Call(str(call.get("id")), str(function.get("name")), _object(function.get("arguments")))


def _results(message: Message) -> Iterator[tuple[str, str]]:
    if message.get("role") in ("tool", "function"):
        yield str(message.get("tool_call_id")), as_text(message.get("content"))
    for block in blocks_of(message):
        if block.get("type") == "tool_result":
            yield str(block.get("tool_use_id")), as_text(block.get("content"))


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
