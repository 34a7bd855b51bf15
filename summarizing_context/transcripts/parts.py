"""Messages that are lists of parts: contents of Gemini, its CLI and OpenCode."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import SUMMARY, Content, Draft, Record, listed, record, text_of, tool_call

OPENCODE_TABLES = frozenset({"session", "message", "part"})


def add_parts(draft: Draft, role: str, content: object, marks: Mapping[str, Any] | None = None) -> None:
    """Add the messages that parts of any client make. What is none of a message is counted by its kind."""
    blocks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    results: list[tuple[object, Any]] = []
    role = {"model": "assistant", "function": "user"}.get(role, role)  # of Gemini
    given = [{"type": "text", "text": content}] if isinstance(content, str) else listed(content)
    for part in [*map(record, given), None]:
        if part is None or part.get("type") == "step-start":  # a reply of the model ends here
            draft.skip("part:step-start", count=part is not None)
            for call_id, said in results if role != "assistant" else []:  # those in a row of the user stand before it
                draft.answer(call_id, said)
            if calls or any(block.get("text") != "" for block in blocks):
                draft.say(role, blocks, calls, marks)
            else:
                draft.skip("empty", count=bool(blocks))
            for call_id, said in results if role == "assistant" else []:
                draft.answer(call_id, said)
            blocks, calls, results = [], [], []
            continue
        kind = part.text("type")
        if part.get("thought") is True:
            draft.skip("part:thought")
        elif part.get("ignored") is not True and (block := _block(part)):
            blocks.append(block)
        elif response := part.at("functionResponse") or part.at("function_response"):
            # of Gemini: its own id, else that of the oldest open call of its name
            wanted, called, said = response.get("id"), response.get("name"), response.get("response")
            fits = (one for one in draft.open_calls if wanted == one[1] or (wanted is None and called == one[0]))
            answered = next(fits, None)
            if answered:
                draft.open_calls.remove(answered)
            only = [*said.values()] if isinstance(said, dict) else [said]  # a result is often one string
            text = only[0] if len(only) == 1 and isinstance(only[0], str) else json.dumps(said)
            results.append((answered[1] if answered else wanted or called, text))
        elif call := part.at("functionCall") or part.at("function_call"):
            draft.made_calls += 1
            call_id = str(call.get("id") or f"call-{draft.made_calls}")
            draft.open_calls.append((call.get("name"), call_id))
            calls.append(tool_call(call_id, call.get("name"), call.get("args")))
        elif kind == "tool":  # of OpenCode
            state, call_id = part.at("state"), part.text("callID", "id")
            calls.append(tool_call(call_id, part.get("tool"), state.get("input")))
            ended = state.get("output" if state.get("status") == "completed" else "error")
            results += [(call_id, ended)] if isinstance(ended, str) else []  # it has none while it runs
        else:
            draft.skip(f"part:{kind or next(iter(part), 'empty')}")


def _block(part: Record) -> dict[str, Any] | None:
    """Return a text or an image in the shape of chat; None for another part."""
    media = part.at("inlineData") or part.at("inline_data") or part
    kind, data = media.text("mimeType", "mime_type"), media.text("data")
    if part.text("type") in ("", "text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if media is part and part.get("type") != "image" and not (part.get("type") == "file" and kind.startswith("image/")):
        return None
    url = part.text("url") or f"data:{kind};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}


def read_gemini(content: Content) -> Iterator[Draft]:
    """Yield the contents as one session. Calls without ids are answered in their order."""
    draft = Draft(content.stem)
    request = record(content.value)
    for key in ("systemInstruction", "system_instruction"):
        if text := text_of(request.at(key).get("parts") or request.get(key)):
            draft.say("system", text)
    rows = content.records("contents", "history")
    needed = f"{'content {}' if content.is_document else 'a content'} without a list of parts; each needs one"
    for row in content.walk(draft, rows, lambda row: isinstance(row.get("parts"), list) and row, needed):
        add_parts(draft, str(row.get("role") or "user"), row["parts"])
    yield draft


def read_gemini_cli(content: Content) -> Iterator[Draft]:
    """Yield the one session of a chat, as its records leave it: they set messages, change them, or take them back."""
    rows = [record(content.value)] if isinstance(content.value, dict) else content.rows
    draft = Draft(next((str(row["sessionId"]) for row in rows if "sessionId" in row), content.stem))
    kept: dict[str, Record] = {}  # by the message's id, each with the line where it came first
    for row in rows:
        changes = row.at("$set") or row
        if isinstance(changes.get("messages"), list):
            whole = [record(message, row.line) for message in changes["messages"]]
            kept = {name: kept.get(name, each) for each in whole for name in (str(each.get("id")),)}
        elif isinstance(back := row.get("$rewindTo"), str):
            names = list(kept)
            gone = names[names.index(back) :] if back in names else names
            draft.skip("rewound", count=len(gone))
            kept = {name: one for name, one in kept.items() if name not in gone}
        elif "id" in row:
            name = str(row["id"])
            kept[name] = record(row, kept.get(name, row).line)
        elif not {"$set", "sessionId"} & {*row}:
            draft.skip("record", row.get("type"))

    answered = set[str]()
    for row in kept.values():
        draft.line = row.line
        kind, given, calls = row.get("type"), row.get("content"), row.each("toolCalls")
        if kind not in ("user", "gemini"):
            draft.skip("message", kind)
            continue
        draft.skip("part:thought", count=len(listed(row.get("thoughts"))))
        said = [Record(text=given)] if isinstance(given, str) else _parts(given)
        said = [part for part in said if part.at("functionResponse").text("id") not in answered]
        said += [Record(functionCall={name: call.get(name) for name in ("id", "name", "args")}) for call in calls]
        add_parts(draft, "model" if kind == "gemini" else "user", said)
        if kind == "user" and text_of(given).startswith("<session_context>"):  # a row that the client writes by itself
            draft.messages[-1]["metadata"] = {"source": "hook"}
        # A result stands with its call, and mostly once more in a row of its own.
        results = [part for call in calls for part in _parts(call.get("result")) if part.at("functionResponse")]
        answered |= {part.at("functionResponse").text("id") for part in results} - {""}
        add_parts(draft, "user", results)
    yield draft


def _parts(value: object) -> list[Record]:
    return [record(part) for part in (value if isinstance(value, list) else [value]) if part is not None]


def read_opencode_list(content: Content) -> Iterator[Draft]:
    """Yield the one session of an export of OpenCode, or of a list of messages."""
    session, rows = record(content.value).at("info"), content.records("messages")
    names = (session.text("id"), *(row.at("info").text("sessionID") for row in rows), content.stem)
    yield _read_opencode(content, Draft(next(filter(None, names))), session, rows)


def _read_opencode(content: Content, draft: Draft, session: Record, rows: Sequence[Record]) -> Draft:
    """Add the messages before what the user has taken back, which OpenCode keeps until the next prompt."""
    last, last_part = session.at("revert").text("messageID"), session.at("revert").text("partID")
    needed = "record {} is not a message of OpenCode; it has no info"
    for row in content.walk(draft, rows, lambda row: "info" in row and row, needed):
        data, parts = row.at("info"), row.each("parts")
        if last and data.text("id") >= last:  # ids rise with time
            draft.skip("reverted")
            parts = [part for part in parts if data.text("id") == last and part.text("id") < last_part]
            if not parts:
                continue
        role = str(data.get("role") or "user")
        texts = [part for part in parts if part.get("type") == "text" and part.get("ignored") is not True]
        if data.get("summary") is True:
            draft.skip(SUMMARY)
        elif any(part.get("type") == "compaction" for part in parts):
            draft.skip("compaction")
        else:
            is_synthetic = bool(texts) and all(part.get("synthetic") is True for part in texts)
            marks = {"synthetic": True} if is_synthetic else {"isSidechain": True} if "parentID" in session else None
            add_parts(draft, role, parts, marks if role == "user" else None)
    return draft


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter by a schema that is damaged
        fault = f"the database cannot be read ({error}); close OpenCode or copy it"
        raise TranscriptError(f"{path}:1: {fault}") from error


def find_tables(path: Path) -> set[str] | None:
    """Return the tables of a database of SQLite; None for another file. Raise `TranscriptError` where it is damaged."""
    beginning = b""
    with suppress(OSError), path.open("rb") as file:  # reading it will tell why
        beginning = file.read(16)
    if beginning != b"SQLite format 3\0":
        return None
    with _opened(path) as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def read_opencode(content: Content) -> Iterator[Draft]:
    """Yield every session of OpenCode's database, oldest first; those of child agents are sessions of their own."""
    path = content.path
    if not path.exists():
        raise TranscriptError(f"{path}:1: cannot be read (no such file); check the path")
    tables = find_tables(path) or set()
    if not tables >= OPENCODE_TABLES:
        fault = f"not a database of OpenCode; it needs the tables {', '.join(sorted(OPENCODE_TABLES))}"
        is_goose = {"sessions", "messages"} <= tables
        raise TranscriptError(f"{path}:1: {'unknown format: a database of goose' if is_goose else fault}")

    def read_all(rows: Sequence[tuple[str, Any]], what: str) -> list[Record]:
        """Return the records that are JSON, each with the id of its row; note the others as damaged."""
        read = []
        for name, data in rows:
            try:
                read.append(Record(record(json.loads(data)), id=name))
            except (TypeError, ValueError, RecursionError):
                content.fault(0, f"{what} {name} is not JSON; repair or delete it")
        return read

    with _opened(path) as database:
        columns = {name for _, name, *_ in database.execute("PRAGMA table_info(session)")}
        revert = "CAST(revert AS BLOB)" if "revert" in columns else "NULL"  # as bytes, which need not be UTF-8
        query = f"SELECT id, parent_id, {revert} FROM session ORDER BY time_created, id"
        messages_of = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
        parts_of = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"
        for name, parent, back in database.execute(query).fetchall():
            reverted = read_all([(name, back)] if back else [], "what was reverted in session")
            session = Record({"parentID": parent} if parent else {}, revert=next(iter(reverted), None))
            rows = [
                Record(info=info, parts=read_all(database.execute(parts_of, (info["id"],)).fetchall(), "the record"))
                for info in read_all(database.execute(messages_of, (name,)).fetchall(), "the record")
            ]
            yield _read_opencode(content, Draft(str(name)), session, rows)
