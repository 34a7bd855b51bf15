"""Gemini CLI's chats: records that set messages, change them by their id, or take them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from summarizing_context.transcripts.base import Content, Draft, kind_of, listed, mapping, objects, string, text_of
from summarizing_context.transcripts.gemini import GeminiReader

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
