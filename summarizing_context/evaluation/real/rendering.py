"""Messages as the text that a reader gets. Pure, and not the renderer of the product.

A text stands under a line that names who said it: `[user]`, `[assistant calls Read]`, `[tool result]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
