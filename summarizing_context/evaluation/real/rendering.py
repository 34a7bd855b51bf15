"""Messages as the text that a reader gets, and what a coding agent reads again after a compaction.

Pure, and not the renderer of the product. A text stands under a line that names who said it: `[user]`,
`[assistant calls Read]`, `[tool result]`. Calls and results are read by the names that common tools use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from summarizing_context.messages.estimate import estimate_text

Message = dict[str, Any]
RESULT, CALLS, THINKS = "tool result", "assistant calls", "assistant thinks"
_TEXTS = ("text", "input_text", "output_text")
_CALLS = ("tool_use", "tool_call")


class Part(NamedTuple):
    """One text of a message, and who says it."""

    label: str
    text: str


def parts_of(message: Message) -> list[Part]:
    """The texts of a message in their order; images and empty texts are left out."""
    content, role = message.get("content"), str(message.get("role"))
    found = [Part(RESULT if role in ("tool", "function") else role, content)] if isinstance(content, str) else []
    for block in blocks_of(message):
        kind = block.get("type")
        if kind in _TEXTS:
            found.append(Part(RESULT if role == "tool" else role, str(block.get("text") or "")))
        elif kind == "thinking":
            found.append(Part(THINKS, str(block.get("thinking") or "")))
        elif kind in _CALLS:
            found.append(Part(f"{CALLS} {block.get('name')}", as_text(block.get("input"))))
        elif kind == "tool_result":
            found.append(Part(RESULT, as_text(block.get("content", block.get("output")))))
    for call in message.get("tool_calls") or []:
        function = call.get("function", call)
        found.append(Part(f"{CALLS} {function.get('name')}", as_text(function.get("arguments"))))
    return [part for part in found if part.text]


def blocks_of(message: Message) -> list[Message]:
    """The blocks of a message whose content is a list."""
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def as_text(value: object) -> str:
    """A text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def text_of(messages: Iterable[Message]) -> str:
    """Messages as one text."""
    return joined(part for message in messages for part in parts_of(message))


def joined(parts: Iterable[Part]) -> str:
    """Parts as one text."""
    return "\n\n".join(f"[{part.label}]\n{part.text}" for part in parts)


def tokens_of(text: str) -> int:
    """What a text costs. One counter measures all arms."""
    return estimate_text(text)


def clipped(text: str, characters: int) -> str:
    """The beginning and the end of a text that is longer than so many characters."""
    if len(text) <= characters:
        return text
    left = len(text) - characters
    return f"{text[: 2 * characters // 3]} …[{left} characters left out]… {text[-characters // 3 :]}"


def numbered(messages: Sequence[Message], *, longest: int, first: int = 0) -> str:
    """A log with numbered messages and clipped texts, for a model that reads all of it.

    Args:
        messages: The whole log, or its beginning.
        longest: Characters of a text; results get two thirds.
        first: The number of the first message.
    """
    lines = []
    for number, message in enumerate(messages, first):
        for label, text in parts_of(message):
            most = longest * 2 // 3 if label == RESULT else longest
            lines.append(f"\n[{number}] {label}: {clipped(text, most)}\n")
    return "".join(lines)


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
