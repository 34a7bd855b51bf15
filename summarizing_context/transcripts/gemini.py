"""Contents of Gemini as a list, a request with one, or one a line; and the chats of Gemini CLI."""

from __future__ import annotations

from collections.abc import Iterator

from summarizing_context.transcripts.base import Content, Draft, Fields, Row, fields, listed, text_of
from summarizing_context.transcripts.parts import add_parts


def read_gemini(content: Content) -> Iterator[Draft]:
    """Yield the contents as one session. Calls without ids are answered in their order."""
    draft = Draft(content.stem)
    request = fields(content.value)
    for key in ("systemInstruction", "system_instruction"):
        if text := text_of(request.at(key).get("parts") or request.get(key)):
            draft.say("system", text)
    for index, (line, value) in enumerate(content.records("contents", "history")):
        if isinstance(value.get("parts"), list):
            add_parts(draft, str(value.get("role") or "user"), value["parts"], line)
        else:
            what = "a content" if line else f"content {index + 1}"
            draft.unreadable.append(f"{content.path}:{line or 1}: {what} without a list of parts; each needs one")
    yield draft


def read_gemini_cli(content: Content) -> Iterator[Draft]:
    """Yield the one session of a chat, as its records leave it: they set messages, change them, or take them back."""
    rows = [Row(0, fields(content.value))] if isinstance(content.value, dict) else content.rows
    draft = Draft(next((str(value["sessionId"]) for _, value in rows if "sessionId" in value), content.stem))
    kept: dict[str, tuple[int, Fields]] = {}  # by the message's id, each with its line
    for line, value in rows:
        changes = value.at("$set") or value
        if isinstance(changes.get("messages"), list):
            whole = [fields(message) for message in changes["messages"]]
            kept = {str(each.get("id")): kept.get(str(each.get("id")), (line, each)) for each in whole}
        elif isinstance(back := value.get("$rewindTo"), str):
            names = list(kept)
            gone = names[names.index(back) :] if back in names else names
            draft.skip("rewound", count=len(gone))
            kept = {name: one for name, one in kept.items() if name not in gone}
        elif "id" in value:
            kept[str(value["id"])] = (kept.get(str(value["id"]), (line, value))[0], value)
        elif not {"$set", "sessionId"} & {*value}:
            draft.skip("record", value.get("type"))

    answered = set[str]()
    for line, value in kept.values():
        kind, given, calls = value.get("type"), value.get("content"), value.each("toolCalls")
        if kind not in ("user", "gemini"):
            draft.skip("message", kind)
            continue
        draft.skip("part:thought", count=len(listed(value.get("thoughts"))))
        said = [Fields(text=given)] if isinstance(given, str) else _parts(given)
        said = [part for part in said if part.at("functionResponse").text("id") not in answered]
        said += [Fields(functionCall={name: call.get(name) for name in ("id", "name", "args")}) for call in calls]
        add_parts(draft, "model" if kind == "gemini" else "user", said, line)
        if kind == "user" and text_of(given).startswith("<session_context>"):  # a row that the client writes by itself
            draft.messages[-1]["metadata"] = {"source": "hook"}
        # A result stands with its call, and mostly once more in a row of its own.
        results = [part for call in calls for part in _parts(call.get("result")) if part.at("functionResponse")]
        answered |= {part.at("functionResponse").text("id") for part in results} - {""}
        add_parts(draft, "user", results, line)
    yield draft


def _parts(value: object) -> list[Fields]:
    return [fields(part) for part in (value if isinstance(value, list) else [value]) if part is not None]
