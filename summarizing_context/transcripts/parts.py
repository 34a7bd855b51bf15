"""Messages that are lists of parts, of all clients: contents of Gemini, its CLI, the AI SDK, OpenCode."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import (
    Compaction,
    Content,
    Draft,
    Fields,
    Row,
    fields,
    listed,
    text_of,
    tool_call,
)

OPENCODE_TABLES = frozenset({"session", "message", "part"})
_ROLES = {"model": "assistant", "function": "user"}  # of Gemini


def add_parts(draft: Draft, role: str, content: object, line: int = 0, marks: Mapping[str, Any] | None = None) -> None:
    """Add the messages that parts of any client make. What is none of a message is counted by its kind."""
    blocks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    results: list[tuple[object, Any]] = []
    role = _ROLES.get(role, role)
    given = [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)
    for part in [*map(fields, given), None]:
        if part is None or part.get("type") == "step-start":  # a reply of the model ends here
            draft.skip("part:step-start", count=part is not None)
            for call_id, said in results if role != "assistant" else []:  # those in a row of the user stand before it
                draft.answer(call_id, said, line)
            if calls or any(block.get("text") != "" for block in blocks):
                draft.say(role, blocks, calls, line, marks)
            else:
                draft.skip("empty", count=bool(blocks))
            for call_id, said in results if role == "assistant" else []:
                draft.answer(call_id, said, line)
            blocks, calls, results = [], [], []
            continue
        kind, name = part.text("type"), part.text("toolName", "name")
        call_id = part.text("toolCallId", "callID", "id")
        response = part.at("functionResponse") or part.at("function_response")
        call = part.at("functionCall") or part.at("function_call")
        if part.get("thought") is True:
            draft.skip("part:thought")
        elif part.get("ignored") is not True and (block := _block(part)):
            blocks.append(block)
        elif response:  # of Gemini: its own id, else that of the oldest open call of its name
            wanted, called, said = response.get("id"), response.get("name"), response.get("response")
            fits = (one for one in draft.open_calls if wanted == one[1] or (wanted is None and called == one[0]))
            answered = next(fits, None)
            if answered:
                draft.open_calls.remove(answered)
            only = [*said.values()] if isinstance(said, dict) else [said]  # a result is often one string
            text = only[0] if len(only) == 1 and isinstance(only[0], str) else json.dumps(said)
            results.append((answered[1] if answered else wanted or called, text))
        elif call:
            draft.made_calls += 1
            call_id = str(call.get("id") or f"call-{draft.made_calls}")
            draft.open_calls.append((call.get("name"), call_id))
            calls.append(tool_call(call_id, call.get("name"), call.get("args")))
        elif kind in ("toolCall", "tool-call"):  # of pi; of the AI SDK's model messages
            calls.append(tool_call(call_id, name, part.get("arguments", part.get("input", part.get("args")))))
        elif kind == "tool-result":
            results.append((call_id, said_by_tool(part.get("output", part.get("result")))))
        elif kind == "tool":  # of OpenCode
            state = part.at("state")
            calls.append(tool_call(call_id, part.get("tool"), state.get("input")))
            ended = state.get("output" if state.get("status") == "completed" else "error")
            results += [(call_id, ended)] if isinstance(ended, str) else []  # it has none while it runs
        elif kind == "dynamic-tool" or kind.startswith("tool-"):  # of the AI SDK's messages of a page
            old = part.at("toolInvocation")
            used = Fields({"input": old.get("args"), "output": old.get("result"), **old}) if old else part
            progress, call_id = used.text("state"), used.text("toolCallId")
            if not call_id or progress in ("input-streaming", "partial-call"):
                draft.skip("dropped call")
                continue
            name = used.text("toolName") or kind.removeprefix("tool-")
            calls.append(tool_call(call_id, name, used.get("input", used.get("rawInput"))))
            if progress in ("output-available", "result"):
                results.append((call_id, said_by_tool(used.get("output"))))
            elif progress.startswith("output-"):
                results.append((call_id, used.text("errorText") or progress))
        else:
            draft.skip(f"part:{kind or next(iter(part), 'empty')}")


def _block(part: Fields) -> dict[str, Any] | None:
    """Return a text or an image in the shape of chat; None for another part."""
    media = part.at("inlineData") or part.at("inline_data") or part
    kind, data = media.text("mimeType", "mime_type", "mediaType"), media.text("data")
    if part.text("type") in ("", "text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if media is part and part.get("type") != "image" and not (part.get("type") == "file" and kind.startswith("image/")):
        return None
    url = part.text("url", "image") or f"data:{kind};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}


def said_by_tool(value: object) -> Any:
    """Return what a tool said: text, blocks of text and images, or JSON."""
    if isinstance(value, str):
        return value
    if {*fields(value)} == {"type", "value"}:
        return said_by_tool(fields(value)["value"])
    blocks = [_block(fields(block)) for block in listed(value)]
    if not blocks or None in blocks:
        return json.dumps(value)
    return text_of(blocks) if all(fields(block).get("type") == "text" for block in blocks) else blocks


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
            content.fault(line, f"{what} without a list of parts; each needs one")
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


def read_ai_sdk(content: Content) -> Iterator[Draft]:
    """Yield the one session."""
    draft = Draft(fields(content.value).text("id") or content.stem)
    for index, (line, value) in enumerate(content.records("messages")):
        said = value.get("parts") or value.get("content")
        if not value.get("parts") and (used := value.each("toolInvocations")):
            text = [{"type": "text", "text": said}] if isinstance(said, str) else listed(value.get("content"))
            said = [*text, *({"type": "tool-invocation", "toolInvocation": each} for each in used)]
        if value.text("role"):
            add_parts(draft, value.text("role"), said, line)
        else:
            content.fault(line, f"message {index + 1} is not a message of the AI SDK; it has no role")
    yield draft


def read_opencode_list(content: Content) -> Iterator[Draft]:
    """Yield the one session of an export of OpenCode, or of a list of messages."""
    session = fields(content.value).at("info")
    records = content.records("messages")
    names = (session.text("id"), *(value.at("info").text("sessionID") for _, value in records), content.stem)
    draft = Draft(next(filter(None, names)))
    for index, (line, value) in enumerate(records):
        if "info" not in value:
            content.fault(line, f"record {index + 1} is not a message of OpenCode; it has no info")
    _add_opencode(
        draft, session, [(line, value.at("info"), value.each("parts")) for line, value in records if "info" in value]
    )
    yield draft


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        fault = f"the database cannot be read ({error}); close OpenCode or copy it"
        raise TranscriptError(f"{path}:1: {fault}") from error


def find_tables(path: Path) -> set[str] | None:
    """Return the tables of a database of SQLite; None for another file. Raise `TranscriptError` where it is damaged."""
    try:
        with path.open("rb") as file:
            is_database = file.read(16) == b"SQLite format 3\0"
    except OSError:
        return None  # reading it will tell why
    if not is_database:
        return None
    with _opened(path) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def read_opencode(content: Content) -> Iterator[Draft]:
    """Yield every session of OpenCode's database, oldest first; those of child agents are sessions of their own."""
    path = content.path
    if not path.exists():
        raise TranscriptError(f"{path}:1: cannot be read (no such file); check the path")
    tables = find_tables(path) or set()
    if {"sessions", "messages"} <= tables:
        raise TranscriptError(f"{path}:1: unknown format: a database of goose; name what `goose session export` wrote")
    if not tables >= OPENCODE_TABLES:
        needed = ", ".join(sorted(OPENCODE_TABLES))
        raise TranscriptError(f"{path}:1: not a database of OpenCode; it needs the tables {needed}")

    def read_record(data: Any, what: str, name: object = None) -> Fields | None:
        try:
            return Fields(fields(json.loads(data)), id=name)
        except (TypeError, ValueError, RecursionError):
            content.fault(0, f"{what} is not JSON; repair or delete it")
            return None

    with _opened(path) as database:
        columns = {name for _, name, *_ in database.execute("PRAGMA table_info(session)")}
        revert = "CAST(revert AS BLOB)" if "revert" in columns else "NULL"  # as bytes, which need not be UTF-8
        query = f"SELECT id, parent_id, {revert} FROM session ORDER BY time_created, id"
        messages_of = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
        parts_of = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"
        for name, parent, back in database.execute(query).fetchall():
            draft = Draft(str(name))
            session = Fields({"parentID": parent} if parent else {})
            if back and (told := read_record(back, f"what was reverted in session {name}")):
                session["revert"] = told
            messages: list[tuple[int, Fields, list[Fields]]] = []
            for made, data in database.execute(messages_of, (name,)).fetchall():
                if (message := read_record(data, f"the record {made}", made)) is not None:
                    rows = database.execute(parts_of, (made,)).fetchall()
                    parts = [read_record(part, f"the record {one}", one) for one, part in rows]
                    messages.append((0, message, [part for part in parts if part is not None]))
            _add_opencode(draft, session, messages)
            yield draft


def _add_opencode(draft: Draft, session: Fields, messages: Sequence[tuple[int, Fields, list[Fields]]]) -> None:
    """Add the messages before what the user has taken back, which OpenCode keeps until the next prompt."""
    last, last_part = session.at("revert").text("messageID"), session.at("revert").text("partID")
    size: int | None = None  # tokens of the newest reply with its request
    for line, data, parts in messages:
        if last and data.text("id") >= last:  # ids rise with time
            draft.skip("reverted")
            parts = [part for part in parts if data.text("id") == last and part.text("id") < last_part]
            if not parts:
                continue
        role = str(data.get("role") or "user")
        texts = [part for part in parts if part.get("type") == "text" and part.get("ignored") is not True]
        compaction = next((part for part in parts if part.get("type") == "compaction"), None)
        known = draft.compactions[-1] if draft.compactions else None
        if data.get("summary") is True:
            draft.compactions[-1:] = [replace(known or Compaction(len(draft.messages)), summary=text_of(texts))]
        elif compaction is not None:
            trigger = "auto" if compaction.get("auto") else "manual"
            draft.compactions.append(Compaction(len(draft.messages), trigger, size))
        else:
            tokens, cache = data.at("tokens"), data.at("tokens").at("cache")
            total = sum(count or 0 for count in (tokens.count("input"), cache.count("read"), cache.count("write")))
            if role == "assistant" and total:
                size = total
                if known and known.tokens_after is None:
                    draft.compactions[-1] = replace(known, tokens_after=size)
            is_synthetic = bool(texts) and all(part.get("synthetic") is True for part in texts)
            marks = {"synthetic": True} if is_synthetic else {"isSidechain": True} if "parentID" in session else None
            add_parts(draft, role, parts, line, marks if role == "user" else None)
