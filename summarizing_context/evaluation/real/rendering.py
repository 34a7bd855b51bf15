"""Messages as the text that a reader gets, and what a coding agent reads again after a compaction.

Pure, and not the renderer of the product. A text stands under a line that names who said it: `[user]`,
`[assistant calls Read]`, `[tool result]`. Calls and results are read by the names that common tools use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Message = dict[str, Any]
RESULT, CALLS, THINKS = "tool result", "assistant calls", "assistant thinks"

_SHELL_READ = re.compile(r"^\s*(?:cat|nl|head|tail|sed)\b[^|;&<>]*?\s(?P<path>[\w@~./+-]*[\w/][.][\w.]{1,12})\s*$")
_INSTRUCTION_FILE = re.compile(r"(?:^|/)(?:AGENTS|CLAUDE|GEMINI)(?:\.local)?\.md$")
_INJECTED = re.compile(r"(?:AGENTS|CLAUDE)\.md instructions|Contents of \S*(?:AGENTS|CLAUDE)\.md")


class Part(NamedTuple):
    """One text of a message, and who says it."""

    label: str
    text: str


def parts_of(message: Message) -> list[Part]:
    """Return the texts of a message in their order; images and empty texts are left out."""
    content, role = message.get("content"), str(message.get("role"))
    found = [Part(RESULT if role in ("tool", "function") else role, content)] if isinstance(content, str) else []
    for block in _blocks(message):
        kind = block.get("type")
        if kind in ("text", "input_text", "output_text"):
            found.append(Part(RESULT if role == "tool" else role, str(block.get("text") or "")))
        elif kind == "thinking":
            found.append(Part(THINKS, str(block.get("thinking") or "")))
        elif kind == "tool_result":
            found.append(Part(RESULT, _as_text(block.get("content", block.get("output")))))
        elif kind in ("tool_use", "tool_call"):
            found.append(Part(f"{CALLS} {block.get('name')}", _as_text(block.get("input"))))
    for call in message.get("tool_calls") or []:
        function = call.get("function", call)
        found.append(Part(f"{CALLS} {function.get('name')}", _as_text(function.get("arguments"))))
    return [part for part in found if part.text]


def _blocks(message: Message) -> list[Message]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _as_text(value: object) -> str:
    """Return a text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def text_of(messages: Iterable[Message]) -> str:
    """Return messages as one text."""
    return joined(part for message in messages for part in parts_of(message))


def joined(parts: Iterable[Part]) -> str:
    """Return parts as one text."""
    return "\n\n".join(f"[{part.label}]\n{part.text}" for part in parts)


def clipped(text: str, characters: int) -> str:
    """Return the beginning and the end of a text that is longer than so many characters."""
    if len(text) <= characters:
        return text
    left = len(text) - characters
    return f"{text[: 2 * characters // 3]} …[{left} characters left out]… {text[-characters // 3 :]}"


def numbered(messages: Sequence[Message], *, longest: int) -> str:
    """Return a log with numbered messages for a model that reads all of it; texts are clipped to `longest` characters,
    results to two thirds of them."""
    return "".join(
        f"\n[{number}] {label}: {clipped(text, longest * 2 // 3 if label == RESULT else longest)}\n"
        for number, message in enumerate(messages)
        for label, text in parts_of(message)
    )


def seen_files(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return paths with their newest text, the one touched last first; without files of instructions."""
    return [(path, text) for path, text in _all_seen(messages) if not _INSTRUCTION_FILE.search(path)]


def instructions_of(messages: Sequence[Message]) -> list[str]:
    """Return project instructions: what a client put before the session, and instruction files that the agent read."""
    found = [
        part.text
        for message in messages
        for part in parts_of(message)
        if part.label == "user" and _INJECTED.search(part.text[:2_000])
    ]
    found += [f"{path}\n{text}" for path, text in _all_seen(messages) if _INSTRUCTION_FILE.search(path)]
    return list(dict.fromkeys(found))


def _all_seen(messages: Sequence[Message]) -> list[tuple[str, str]]:
    seen: dict[str, str] = {}  # by path, what was touched last at the end
    asked: dict[str, str] = {}  # path by the id of the call that reads it
    for message in messages:
        results = [
            (block.get("tool_use_id"), block) for block in _blocks(message) if block.get("type") == "tool_result"
        ]
        if message.get("role") in ("tool", "function"):
            results.insert(0, (message.get("tool_call_id"), message))
        for id, result in results:
            path, text = asked.pop(str(id), None), _as_text(result.get("content"))
            if path is not None and text:
                seen.pop(path, None)
                seen[path] = text
        calls = [block for block in _blocks(message) if block.get("type") in ("tool_use", "tool_call")]
        for call in (*calls, *(message.get("tool_calls") or ())):
            function = call.get("function", call)
            arguments = function.get("input", function.get("arguments"))
            if isinstance(arguments, str):
                try:
                    arguments = json.loads(arguments)
                except ValueError:
                    continue
            if not isinstance(arguments, dict):
                continue
            names = [arguments.get(key) for key in ("file_path", "path", "filePath", "filename", "absolute_path")]
            path = next((name for name in names if isinstance(name, str) and name), None) or _path_read(arguments)
            if path is None:
                continue
            texts = [arguments.get(key) for key in ("content", "file_text", "text")]
            written = next((text for text in texts if isinstance(text, str)), "")
            if written:
                seen.pop(path, None)
                seen[path] = written
            elif names == [None] * len(names) or re.search("read|view|open|cat", str(function.get("name")), re.I):
                asked[str(call.get("id"))] = path
            elif path in seen:  # edited: the text as it was last seen, and the file is the newest
                seen[path] = seen.pop(path)
    return list(reversed(seen.items()))


def _path_read(arguments: dict[str, Any]) -> str | None:
    """Return the file that a command of a shell shows; None for any other command."""
    for key in ("command", "cmd", "script"):
        command = arguments.get(key)
        last = command[-1] if isinstance(command, list) and command else command
        if isinstance(last, str) and (read := _SHELL_READ.match(last)):
            return read["path"]
    return None
