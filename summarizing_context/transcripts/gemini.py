"""Contents of Gemini: `role` and `parts`, as a list, a request with one, or one a line; and the chats of Gemini CLI.

These are records that set messages, change them by their id, or take them back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from summarizing_context.transcripts.base import (
    Content,
    Draft,
    kind_of,
    listed,
    mapping,
    most,
    objects,
    string,
    text_of,
)

_ROLES = {"model": "assistant", "user": "user", "function": "user"}


def is_gemini(content: Content) -> bool:
    """Whether most contents have a list of parts, and no other content."""
    found = [mapping(item) for _, item in _contents(content)]
    return most(isinstance(item.get("parts"), list) and "content" not in item for item in found)


def read_gemini(content: Content) -> Iterator[Draft]:
    """The contents as one session. Calls without ids are answered in their order."""
    draft = Draft(content.stem)
    request = mapping(content.value)
    for key in ("systemInstruction", "system_instruction"):
        if text := _system(request.get(key)):
            draft.add({"role": "system", "content": text})
    reader = GeminiReader(draft)
    for index, (line, item) in enumerate(_contents(content)):
        parts = mapping(item).get("parts")
        if not isinstance(parts, list):
            what = "a content" if line else f"content {index + 1}"
            draft.unreadable.append(f"{content.path}:{line or 1}: {what} without a list of parts; each needs one")
            continue
        reader.add(str(item.get("role") or "user"), [mapping(part) for part in parts], line)
    yield draft


def _system(value: object) -> str:
    return text_of(mapping(value).get("parts")) if isinstance(value, dict) else text_of(value)


def _contents(content: Content) -> list[tuple[int, Any]]:
    value = content.value
    found = value.get("contents") or value.get("history") if isinstance(value, dict) else value
    return content.records(found)


class GeminiReader:
    """Turns contents into chat messages."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._made = 0  # calls so far
        self._open: list[tuple[str, str]] = []  # name and id of calls without a result

    def add(self, role: str, parts: list[dict[str, Any]], line: int) -> None:
        for part in parts:
            if response := mapping(_either(part, "functionResponse", "function_response")):
                row = {
                    "role": "tool",
                    "tool_call_id": self._answer(response),
                    "content": _text(response.get("response")),
                }
                self._draft.add(row, line)
        calls = [call for part in parts if (call := mapping(_either(part, "functionCall", "function_call")))]
        content = self._content(parts)
        if not content and not calls:
            return
        message: dict[str, Any] = {"role": _ROLES.get(role, role), "content": content}
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        self._draft.add(message, line)

    def _content(self, parts: list[dict[str, Any]]) -> Any:
        blocks: list[dict[str, Any]] = []
        for part in parts:
            media = mapping(_either(part, "inlineData", "inline_data"))
            if part.get("thought") is True:
                self._draft.skipped["part:thought"] += 1
            elif isinstance(part.get("text"), str):
                blocks.append({"type": "text", "text": part["text"]})
            elif media:
                kind = _either(media, "mimeType", "mime_type")
                url = f"data:{kind};base64,{media.get('data', '')}"
                blocks.append({"type": "image_url", "image_url": {"url": url}})
            elif not _is_function(part):
                self._draft.skipped[f"part:{next(iter(part), 'empty')}"] += 1
        return text_of(blocks) if all(block["type"] == "text" for block in blocks) else blocks

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        name = str(call.get("name") or "")
        made = str(call.get("id") or f"call-{self._made}")
        self._open.append((name, made))
        return {
            "id": made,
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(call.get("args") or {})},
        }

    def _answer(self, response: dict[str, Any]) -> str:
        """The id of the call that a response answers: its own, else that of the oldest open call of its name."""
        wanted, name = response.get("id"), response.get("name")
        for index, (called, made) in enumerate(self._open):
            if wanted == made or (wanted is None and called == name):
                del self._open[index]
                return made
        return str(wanted or name or "")


def _either(value: dict[str, Any], first: str, second: str) -> Any:
    return value.get(first, value.get(second))


def _is_function(part: dict[str, Any]) -> bool:
    return bool({"functionCall", "function_call", "functionResponse", "function_response"} & {*part})


def _text(response: object) -> str:
    """A result as text: the one string in it, or its JSON."""
    found = mapping(response)
    if len(found) == 1 and isinstance(only := next(iter(found.values())), str):
        return only
    return response if isinstance(response, str) else json.dumps(response)


_OWN_KEYS = {"$set", "sessionId"}  # of records that hold no message
_OWN_TEXT = "<session_context>"  # begins the row that the client writes by itself


def is_gemini_cli(content: Content) -> bool:
    """Whether a record is that of a session, or a reply in one; older versions wrote one whole record of a session."""
    values = [mapping(content.value)] if content.is_document else [row.value for row in content.rows]
    return any(_is_own(value) for value in values)


def _is_own(value: dict[str, Any]) -> bool:
    is_session = isinstance(value.get("sessionId"), str) and "projectHash" in value
    return is_session or (value.get("type") == "gemini" and isinstance(value.get("id"), str))


def read_gemini_cli(content: Content) -> Iterator[Draft]:
    """The one session of a chat, as its records leave it."""
    rows = [(0, content.value)] if isinstance(content.value, dict) else content.rows
    draft = Draft(next((str(value["sessionId"]) for _, value in rows if "sessionId" in value), content.stem))
    kept: dict[str, tuple[int, dict[str, Any]]] = {}  # by the message's id, each with its line
    for line, value in rows:
        changes = mapping(value.get("$set")) or value
        if isinstance(whole := changes.get("messages"), list):
            told = [mapping(message) for message in whole]
            kept = {str(each.get("id")): kept.get(str(each.get("id")), (line, each)) for each in told}
        elif isinstance(back := value.get("$rewindTo"), str):
            names = list(kept)
            gone = names[names.index(back) :] if back in names else names
            draft.skipped["rewound"] += len(gone)
            kept = {name: one for name, one in kept.items() if name not in gone}
        elif "id" in value:
            kept[str(value["id"])] = (kept.get(str(value["id"]), (line, value))[0], value)
        elif not _OWN_KEYS & {*value}:
            draft.skipped[kind_of("record", value.get("type"))] += 1
    _add_all(draft, kept.values())
    yield draft


def _add_all(draft: Draft, messages: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """Add the messages. A result stands with its call, and mostly once more in a row of its own."""
    reader, answered = GeminiReader(draft), set[str | None]()
    for line, value in messages:
        kind = value.get("type")
        if kind not in ("user", "gemini"):
            draft.skipped[kind_of("message", kind)] += 1
            continue
        if thoughts := listed(value.get("thoughts")):
            draft.skipped["part:thought"] += len(thoughts)
        calls = objects(value.get("toolCalls"))
        asked = [{"functionCall": {name: call.get(name) for name in ("id", "name", "args")}} for call in calls]
        reader.add("model" if kind == "gemini" else "user", [*_unanswered(value, answered), *asked], line)
        if kind == "user" and text_of(value.get("content")).startswith(_OWN_TEXT):
            draft.messages[-1]["metadata"] = {"source": "hook"}
        results = [mapping(part) for call in calls for part in _list(call.get("result"))]
        answered |= {_answered_id(part) for part in results}
        reader.add("user", [part for part in results if "functionResponse" in part], line)


def _unanswered(value: dict[str, Any], answered: set[str | None]) -> list[dict[str, Any]]:
    """The parts of a message without the results that its call has brought already."""
    given = value.get("content")
    parts = [{"text": given}] if isinstance(given, str) else [mapping(part) for part in _list(given)]
    return [part for part in parts if _answered_id(part) is None or _answered_id(part) not in answered]


def _answered_id(part: dict[str, Any]) -> str | None:
    return string(mapping(part.get("functionResponse")).get("id")) or None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
