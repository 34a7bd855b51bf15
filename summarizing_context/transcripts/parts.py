"""Messages that are lists of parts, of all clients: OpenCode's database and lists, the AI SDK."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Compaction, Content, Draft, Fields, fields, listed, text_of, tool_call

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
            where = f"{content.path}:{line or 1}: message {index + 1}"
            draft.unreadable.append(f"{where} is not a message of the AI SDK; it has no role")
    yield draft


def read_opencode_list(content: Content) -> Iterator[Draft]:
    """Yield the one session of an export of OpenCode, or of a list of messages."""
    session = fields(content.value).at("info")
    records = content.records("messages")
    names = (session.text("id"), *(value.at("info").text("sessionID") for _, value in records), content.stem)
    draft = Draft(next(filter(None, names)))
    for index, (line, value) in enumerate(records):
        if "info" not in value:
            what = f"{content.path}:{line or 1}: record {index + 1}"
            draft.unreadable.append(f"{what} is not a message of OpenCode; it has no info")
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


def read_opencode(path: Path) -> Iterator[Draft]:
    """Yield every session of OpenCode's database, oldest first; those of child agents are sessions of their own."""
    if not path.exists():
        raise TranscriptError(f"{path}:1: cannot be read (no such file); check the path")
    tables = find_tables(path) or set()
    if {"sessions", "messages"} <= tables:
        raise TranscriptError(f"{path}:1: unknown format: a database of goose; name what `goose session export` wrote")
    if not tables >= OPENCODE_TABLES:
        needed = ", ".join(sorted(OPENCODE_TABLES))
        raise TranscriptError(f"{path}:1: not a database of OpenCode; it needs the tables {needed}")
    with _opened(path) as database:
        columns = {name for _, name, *_ in database.execute("PRAGMA table_info(session)")}
        revert = "CAST(revert AS BLOB)" if "revert" in columns else "NULL"  # as bytes, which need not be UTF-8
        query = f"SELECT id, parent_id, {revert} FROM session ORDER BY time_created, id"
        messages_of = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
        parts_of = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"
        for name, parent, back in database.execute(query).fetchall():
            draft = Draft(str(name))
            session = Fields({"parentID": parent} if parent else {})
            if back and (told := _object(back, f"{path}:1: what was reverted in session {name}", draft)):
                session["revert"] = told
            messages: list[tuple[int, Fields, list[Fields]]] = []
            for made, data in database.execute(messages_of, (name,)).fetchall():
                message = _object(data, f"{path}:1: the record {made}", draft, made)
                rows = database.execute(parts_of, (made,)).fetchall() if message is not None else []
                parts = [_object(part, f"{path}:1: the record {one}", draft, one) for one, part in rows]
                if message is not None:
                    messages.append((0, message, [part for part in parts if part is not None]))
            _add_opencode(draft, session, messages)
            yield draft


def _object(data: Any, what: str, draft: Draft, name: object = None) -> Fields | None:
    """Return the object that a record holds, with its name; None for a damaged one, which the draft then tells."""
    try:
        return Fields(fields(json.loads(data)), id=name)
    except (TypeError, ValueError, RecursionError):
        draft.unreadable.append(f"{what} is not JSON; repair or delete it")
        return None


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
