"""OpenCode's database: sessions, their messages, and the parts of these as JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts.base import Compaction, Draft, integer, mapping

_HEAD = b"SQLite format 3\0"
_TABLES = {"session", "message", "part"}


class _Message(NamedTuple):
    data: dict[str, Any]
    parts: list[dict[str, Any]]


def is_database(path: Path) -> bool:
    """Whether a file is SQLite's."""
    try:
        with path.open("rb") as file:
            return file.read(len(_HEAD)) == _HEAD
    except OSError:
        return False  # reading it will tell why


def is_opencode(path: Path) -> bool:
    """Whether a file is SQLite's and has the tables of OpenCode. Raises `TranscriptError` where SQLite cannot tell."""
    if not is_database(path):
        return False
    try:
        with closing(_opened(path)) as database:
            return {name for (name,) in database.execute("SELECT name FROM sqlite_master")} >= _TABLES
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def read_opencode(path: Path) -> Iterator[Draft]:
    """Every session of the database, oldest first; those of child agents are sessions of their own."""
    if not path.exists():
        raise TranscriptError(f"{path}:1: cannot be read (no such file); check the path")
    if not is_opencode(path):
        raise TranscriptError(f"{path}:1: not a database of OpenCode; it needs the tables {', '.join(sorted(_TABLES))}")
    try:
        with closing(_opened(path)) as database:
            query = "SELECT id, parent_id FROM session ORDER BY time_created, id"
            for name, parent in database.execute(query).fetchall():
                draft = Draft(str(name))
                reader = _Reader(draft, is_agent=parent is not None)
                reverted = _reverted(database, path, draft)
                for made, message in _messages(database, path, draft):
                    if reverted and made >= reverted:
                        draft.skipped["reverted"] += 1
                    else:
                        reader.add(message)
                yield draft
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: sqlite3.Error) -> TranscriptError:
    return TranscriptError(f"{path}:1: the database cannot be read ({error}); close OpenCode or copy it")


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _reverted(database: sqlite3.Connection, path: Path, draft: Draft) -> str:
    """The first message that the user has taken back; OpenCode keeps it until the next prompt. Ids rise with time."""
    columns = {name for _, name, *_ in database.execute("PRAGMA table_info(session)")}
    query = "SELECT CAST(revert AS BLOB) FROM session WHERE id = ?"
    (found,) = database.execute(query, (draft.session_id,)).fetchone() if "revert" in columns else (None,)
    told = _object(found, f"{path}:1: what was reverted in session {draft.session_id}", draft) if found else None
    return str(mapping(told).get("messageID") or "")


def _messages(database: sqlite3.Connection, path: Path, draft: Draft) -> Iterator[tuple[str, _Message]]:
    """The messages of a session with their parts, without damaged ones. As bytes, which need not be UTF-8."""
    query = "SELECT id, CAST(data AS BLOB) FROM message WHERE session_id = ? ORDER BY time_created, id"
    parts_of = "SELECT id, CAST(data AS BLOB) FROM part WHERE message_id = ? ORDER BY id"
    for name, data in database.execute(query, (draft.session_id,)).fetchall():
        rows = database.execute(parts_of, (name,)).fetchall()
        message = _object(data, f"{path}:1: the record {name}", draft)
        if message is not None:
            parts = [_object(part, f"{path}:1: the record {made}", draft) for made, part in rows]
            yield str(name), _Message(message, [part for part in parts if part is not None])


def _object(data: Any, what: str, draft: Draft) -> dict[str, Any] | None:
    """The object that a record holds; None for a damaged one, which the draft then tells."""
    try:
        return mapping(json.loads(data))
    except (TypeError, ValueError, RecursionError):
        draft.unreadable.append(f"{what} is not JSON; repair or delete it")
        return None


class _Reader:
    """Turns the messages of one session into chat messages."""

    def __init__(self, draft: Draft, *, is_agent: bool) -> None:
        self.draft = draft
        self._is_agent = is_agent
        self._size: int | None = None  # tokens of the newest reply with its request

    def add(self, message: _Message) -> None:
        data, parts = message
        compaction = next((part for part in parts if part.get("type") == "compaction"), None)
        if data.get("summary") is True:
            self._change_last(summary=_text(parts))
        elif compaction is not None:
            trigger = "auto" if compaction.get("auto") else "manual"
            self.draft.compactions.append(Compaction(len(self.draft.messages), trigger, self._size))
        else:
            self._note_size(data)
            self._add_rows(str(data.get("role") or "user"), parts)

    def _note_size(self, data: dict[str, Any]) -> None:
        tokens = mapping(data.get("tokens"))
        cache = mapping(tokens.get("cache"))
        counts = (tokens.get("input"), cache.get("read"), cache.get("write"))
        size = sum(integer(count) or 0 for count in counts)
        if data.get("role") != "assistant" or not size:
            return
        self._size = size
        if self.draft.compactions and self.draft.compactions[-1].tokens_after is None:
            self._change_last(tokens_after=size)

    def _change_last(self, **changes: Any) -> None:
        compactions = self.draft.compactions or [Compaction(len(self.draft.messages))]
        self.draft.compactions = [*compactions[:-1], replace(compactions[-1], **changes)]

    def _add_rows(self, role: str, parts: list[dict[str, Any]]) -> None:
        texts = [part for part in parts if part.get("type") == "text" and part.get("ignored") is not True]
        tools = [part for part in parts if part.get("type") == "tool"]
        message: dict[str, Any] = {"role": role, "content": _text(texts)}
        if texts and role == "user" and all(part.get("synthetic") is True for part in texts):
            message["metadata"] = {"synthetic": True}
        elif self._is_agent and role == "user":
            message["metadata"] = {"isSidechain": True}
        if tools:
            message["tool_calls"] = [_call(part) for part in tools]
        if texts or tools:
            self.draft.add(message)
        for part in tools:
            result = _result(mapping(part.get("state")))
            if result is not None:
                self.draft.add({"role": "tool", "tool_call_id": str(part.get("callID")), "content": result})
        kept = {id(part) for part in (*texts, *tools)}
        self.draft.skipped.update(f"part:{part.get('type')}" for part in parts if id(part) not in kept)


def _text(parts: list[dict[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str))


def _call(part: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(mapping(part.get("state")).get("input") or {})
    function = {"name": str(part.get("tool") or ""), "arguments": arguments}
    return {"id": str(part.get("callID")), "type": "function", "function": function}


def _result(state: dict[str, Any]) -> str | None:
    """The result of a call; None while it runs."""
    found = state.get("output") if state.get("status") == "completed" else state.get("error")
    return found if isinstance(found, str) else None
