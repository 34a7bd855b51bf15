"""Lists of messages in the shape of a provider: one a line, OpenAI chat, OpenAI fine-tuning, Anthropic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Content, Draft, listed, mapping, most, objects, string

_ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})


def is_anything(_content: Content) -> bool:
    """The last format of the table takes what no other has; a context then says what a message lacks."""
    return True


def read_messages(content: Content) -> Iterator[Draft]:
    """One message a line, without the keys that begin with `_`."""
    draft = Draft(content.stem)
    for line, value in content.rows:
        draft.add({key: item for key, item in value.items() if not key.startswith("_")}, line)
    if content.is_document:
        raise TranscriptError(
            f"{content.path}:1: no known format of a transcript; it needs a list of messages, or an object with one"
        )
    yield draft


def is_finetune(content: Content) -> bool:
    """Lines of which most hold a list `messages`, and no role of their own."""
    return most(isinstance(row.value.get("messages"), list) and "role" not in row.value for row in content.rows)


def read_finetune(content: Content) -> Iterator[Draft]:
    """Each line is a session of its own."""
    for line, value in content.rows:
        draft = Draft(f"{content.stem}:{line}")
        if not isinstance(value.get("messages"), list):
            draft.unreadable.append(f"{content.path}:{line}: a line without a list `messages`; each needs one")
        _add_all(draft, listed(value.get("messages")), f"{content.path}:{line}", line)
        draft.skipped.update({f"key:{key}": 1 for key in value if key not in ("messages", "system")})
        yield draft


def is_anthropic(content: Content) -> bool:
    """A list of messages, or a request with one, that has Anthropic's blocks or its `system` beside the list."""
    if not _is_list_of_messages(content):
        return False
    if isinstance(content.value, dict) and "system" in content.value:
        return True
    blocks = [block for message in objects(_messages(content)) for block in objects(message.get("content"))]
    return any(string(block.get("type")) in _ANTHROPIC_BLOCKS for block in blocks)


def is_chat(content: Content) -> bool:
    """A list of messages, or a request with one."""
    return _is_list_of_messages(content)


def read_list(content: Content) -> Iterator[Draft]:
    """The messages as they are, after the system prompt that stands beside them; also one a line."""
    if not content.is_document:
        yield from read_messages(content)
        return
    draft = Draft(content.stem)
    request = mapping(content.value)
    if request.get("system"):
        draft.add({"role": "system", "content": request["system"]})
    _add_all(draft, _messages(content), f"{content.path}:1", 0)
    draft.skipped.update({f"key:{key}": 1 for key in request if key not in ("messages", "system")})
    yield draft


def _messages(content: Content) -> list[Any]:
    value = content.value
    found = value.get("messages") if isinstance(value, dict) else value
    return found if isinstance(found, list) else []


def _is_list_of_messages(content: Content) -> bool:
    messages = _messages(content) if content.is_document else []
    sound = objects(messages)
    return bool(sound) and 2 * len(sound) >= len(messages) and _has_roles(sound)


def _has_roles(messages: list[dict[str, Any]]) -> bool:
    return all(isinstance(each.get("role"), str) and "parts" not in each for each in messages)


def _add_all(draft: Draft, messages: list[Any], where: str, line: int) -> None:
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            draft.unreadable.append(f"{where}: message {index + 1} is not an object; each needs a role and a content")
        else:
            draft.add({key: item for key, item in message.items() if not key.startswith("_")}, line)
