"""Logs that coding clients wrote and files of providers' shapes: what becomes of each, and of what cannot be read.

`tests/data/clients/README.md` tells how the clients wrote theirs.
"""

import gzip
import io
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import FORMATS, Transcript, find_transcripts, read, read_session
from tests.cli.commands import write_transcript as in_lines
from tests.laws.builders import assistant, call, result, user
from tests.laws.shapes import answered_ids, blocks, called_ids, media_count

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
CLAUDE_CODE = next((CLIENTS / "claude-code").glob("*.jsonl"))
(AGENT,) = (CLIENTS / "claude-code").rglob("agent-*.jsonl")
CODEX = CLIENTS / "codex" / "rollout-2026-11-23.jsonl"
GEMINI = CLIENTS / "gemini-cli" / "session-2026-11-24.jsonl"
FIRST = "Mend divide in calc.py. Always keep the tests green."
LATER = ["Look at the tests again.", "Now try a negative number."]
ENDED = {"divide now returns 1.5 for 3 and 2; both tests pass.", "divide(-3, 2) is -1.5, as it should be."}

OTHER_KEYS: list[dict[str, Any]] = [{"session_id": "s"}, {"type": "system", "data": {}}]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def texts(log: Transcript, role: str) -> list[str]:
    """What a role said, in blocks or without."""
    said = [message for message in log.messages if message["role"] == role]
    blocks_of = [[block["text"] for block in blocks(row) if block["type"] == "text"] for row in said]
    return [text for row, all in zip(said, blocks_of, strict=True) for text in (all or [str(row["content"])])]


def human(log: Transcript) -> list[str]:
    """What stands in rows of a user, without results, and is not marked as a host's."""
    rows = [row for row in log.messages if row["role"] == "user" and not answered_ids(row)]
    marks = ("isMeta", "isCompactSummary", "isSidechain", "metadata")
    return [str(row["content"]) for row in rows if not any(row.get(mark) for mark in marks)]


def check_spoken(log: Transcript, client: str, skipped: dict[str, int]) -> None:
    """What the client said is there, each call is answered, and a summary that it made of its own context is none."""
    assert log.format == client
    assert set(texts(log, "assistant")) >= ENDED
    answers = [answer for message in log.messages for answer in answered_ids(message)]
    assert [call for message in log.messages for call in called_ids(message) if call not in answers] == []
    assert "calc.py line 5 was edited" not in json.dumps(log.messages)
    assert {name: log.skipped[name] for name in skipped} == skipped


def test_a_claude_code_session_is_read_as_it_was_spoken():
    assert len(find_transcripts([CLIENTS])) == 4
    log = read_session(CLAUDE_CODE)
    compacted = {"system:compact_boundary": 1, "compaction summary": 1}
    check_spoken(log, "claude-code", {"attachment:skill_listing": 2, "queue-operation": 8, **compacted})
    assert log.session_id == CLAUDE_CODE.stem
    assert human(log)[0] == FIRST
    # blocks of one reply are one message, also where parallel calls fork the tree
    assert [block["type"] for block in log.messages[1]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    on_the_chain = {row["parentUuid"] for row in lines_of(CLAUDE_CODE) if "parentUuid" in row}
    result = next(row for row in lines_of(CLAUDE_CODE) if "file" in (row.get("toolUseResult") or {}))
    assert result["uuid"] not in on_the_chain  # the result of one of the calls has no row after it


def test_child_agents_of_claude_code_and_conversations_that_were_cleared_are_sessions_of_their_own(tmp_path):
    log, main, rows = read_session(AGENT), read_session(CLAUDE_CODE), lines_of(CLAUDE_CODE)
    assert log.session_id == f"{CLAUDE_CODE.stem}:{AGENT.stem.removeprefix('agent-')}"
    assert (len(log.messages), human(log)) == (4, [])
    both = in_lines(tmp_path / "both.jsonl", [*lines_of(AGENT), *rows])
    for found, alone in zip(read(both), (main, log), strict=True):
        assert (found.session_id, found.messages) == (alone.session_id, alone.messages)
    # sidechains that an early version did not name
    old = [{name: value for name, value in row.items() if name != "agentId"} for row in lines_of(AGENT)]
    again = json.loads(json.dumps(old).replace('uuid": "', 'uuid": "again-').replace('Uuid": "', 'Uuid": "again-'))
    logs = list(read(in_lines(tmp_path / "both.jsonl", [*old, *again])))
    assert [each.messages for each in logs] == [log.messages] * 2
    assert [each.session_id.rpartition(":")[2] for each in logs] == ["sidechain-1", f"sidechain-{len(old) + 1}"]
    # a lost row cuts nothing off
    rest = [row for row in rows if row.get("message", {}).get("content") != LATER[0]]
    log = read_session(in_lines(tmp_path / "a.jsonl", rest))
    assert (len(log.messages), log.skipped["missing parent"]) == (len(main.messages) - 1, 1)
    later = next(row for row in rows if row.get("message", {}).get("content") == LATER[-1])
    later["parentUuid"] = None
    first, second = read(in_lines(tmp_path / "a.jsonl", rows))
    assert (first.session_id, second.session_id) == (CLAUDE_CODE.stem, f"{CLAUDE_CODE.stem}:2")
    assert (*first.messages, *second.messages) == main.messages
    assert human(second) == LATER[-1:]


def test_another_way_to_write_a_log_gives_the_same_messages(tmp_path):
    rows, codex = lines_of(CLAUDE_CODE), lines_of(CODEX)
    boundary = next(at for at, row in enumerate(rows) if row.get("type") == "system" and "parentUuid" in row)
    block = next(row for row in rows if row.get("message", {}).get("id") == "msg_0004")
    again = {**block, "uuid": "again", "parentUuid": block["uuid"]}
    for path, changed, skipped in (
        # keys and types of other clients, a block that is written twice, rows without their envelope
        *((CLAUDE_CODE, [*rows[:boundary], rows[boundary] | key, *rows[boundary + 1 :]], {}) for key in OTHER_KEYS),
        (CLAUDE_CODE, [*rows[:12], again, *rows[11:]], {"repeated row": 1, "repeated block": 1}),
        (CODEX, [row["payload"] if row["type"] == "response_item" else row for row in codex], {}),
    ):
        log = read_session(in_lines(tmp_path / "a.jsonl", changed))
        assert log.messages == read_session(path).messages
        assert {name: log.skipped[name] for name in skipped} == skipped


@pytest.fixture
def opencode(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.db"
    changed(path, (CLIENTS / "opencode.sql").read_text(encoding="utf8"))
    return path


def changed(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(script)


def names(path: Path, query: str) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute(query)]


MAIN = "session_id = (SELECT id FROM session WHERE parent_id IS NULL)"


def test_an_opencode_database_holds_sessions_and_those_of_child_agents_and_a_broken_record_is_skipped_and_told(
    opencode,
):
    main, agent = read(opencode)
    check_spoken(main, "opencode", {"part:reasoning": 1, "compaction": 1, "compaction summary": 1})
    assert (human(main)[0], len(human(main))) == (f'"{FIRST}"', 3)
    assert texts(agent, "assistant") == ["test_divide expects 1.5 and gets 1."]
    assert human(agent) == []
    # what a user has reverted is no message
    last = names(opencode, f"SELECT max(id) FROM message WHERE {MAIN}")[0]
    parts = f"SELECT max(id) FROM part WHERE message_id = '{last}' AND data LIKE '%\"text\"%'"
    told = f"json_object('messageID', '{last}', 'partID', ({parts}))"
    changed(opencode, f"UPDATE session SET revert = {told} WHERE parent_id IS NULL")
    log = next(read(opencode))
    assert log.messages == main.messages[:-1]  # the text of the last reply
    assert log.skipped["reverted"] == 1
    # what is broken is skipped and told, and the others stay
    first, *_, last = names(opencode, f"SELECT id FROM message WHERE {MAIN} ORDER BY time_created, id")
    broken = f"UPDATE session SET revert = '{{half' WHERE id = '{main.session_id}';"
    broken += f"UPDATE part SET data = '{{half' WHERE message_id = '{first}';"
    changed(opencode, f"{broken} UPDATE message SET data = CAST(x'7bff' AS TEXT) WHERE id = '{last}'")
    log, other = read(opencode)
    assert other == agent
    assert 0 < len(log.messages) < len(main.messages)
    assert log.skipped["unreadable record"] == len(log.unreadable)
    told = "\n".join(log.unreadable)
    assert told.startswith(f"{opencode}:1: what was reverted in session {main.session_id} is not JSON")
    assert f"{opencode}:1: the record {last} is not JSON" in told
    changed(opencode, "ALTER TABLE session DROP COLUMN revert")  # a version without reverts
    assert [one.messages for one in read(opencode)] == [log.messages, agent.messages]


def test_a_database_of_something_else_is_told(opencode, tmp_path):
    for name, script, told in (
        ("goose.db", "CREATE TABLE sessions (id); CREATE TABLE messages (id)", "unknown format: a database of goose"),
        ("other.db", "CREATE TABLE session (id)", "not a database of OpenCode"),
        ("none.db", "", "cannot be read"),
    ):
        if script:
            changed(tmp_path / name, script)
        with pytest.raises(TranscriptError, match=rf"{name}:1: {told}"):
            list(read(tmp_path / name))
    assert find_transcripts([tmp_path]) == [opencode]


def test_a_codex_rollout_is_read_as_it_was_spoken_and_a_chat_of_gemini_cli_is_its_records_put_together(tmp_path: Path):
    log = read_session(CODEX)
    check_spoken(log, "codex", {"response_item:reasoning": 1, "event_msg:token_count": 11, "compacted": 1})
    assert log.session_id == "01a20a33-bc49-7fc0-a553-455b29c63c84"
    assert human(log) == [FIRST, *LATER]
    first = next(message for message in log.messages if message["role"] == "assistant")
    assert [json.loads(call["function"]["arguments"])["cmd"] for call in first["tool_calls"]] == ["ls", "cat calc.py"]
    rows, log = lines_of(GEMINI), read_session(GEMINI)
    assert (log.format, log.session_id) == ("gemini-cli", rows[0]["sessionId"])
    assert human(log) == ["Now divide -3 by 2."]  # the client wrote the first row by itself
    assert [message["role"] for message in log.messages] == ["user", "user", "assistant", "tool", "tool", "assistant"]
    answers = [answer for message in log.messages for answer in answered_ids(message)]
    assert [call for message in log.messages for call in called_ids(message)] == answers
    assert log.skipped == {"part:thought": 1}
    assert len(log.lines) == len(log.messages)
    # without what its user takes back
    second = next(row["id"] for row in rows if row.get("content") == [{"text": "Now divide -3 by 2."}])
    rows += [{"$rewindTo": second}, {"id": "u9", "type": "user", "content": [{"text": "Leave it."}]}]
    log = read_session(in_lines(tmp_path / "session.jsonl", [*rows, {"id": "i1", "type": "info", "content": "Saved."}]))
    assert human(log) == ["Leave it."]
    assert len(log.messages) == 2
    assert (log.skipped["rewound"], log.skipped["message:info"]) == (4, 1)


# What clients take back, write twice or lead astray in their logs, and what tells their formats apart.

Rows = list[dict[str, Any]]


def row(name: str, parent: str | None, **more: Any) -> dict[str, Any]:
    """A row of Claude Code: `u1` is of the user, `a1` a reply, others are of the client."""
    kind = {"u": "user", "a": "assistant"}.get(name[0], "system")
    said = {} if kind == "system" else {"message": {"role": kind, "content": name}}
    return {"type": kind, "uuid": name, "parentUuid": parent, "sessionId": "s", **said, **more}


def boundary(name: str, logical: str, tail: str = "") -> Rows:
    """A compaction after the row `logical`, and its summary `u<name>`."""
    meta = {"compactMetadata": {"preservedSegment": {"tailUuid": tail}}}
    mark = row(name, None, subtype="compact_boundary", logicalParentUuid=logical, **meta)
    return [mark, row(f"u{name}", name, isCompactSummary=True)]


def chain(first: int, last: int, parent: str | None) -> Rows:
    names = [f"{letter}{number}" for number in range(first, last + 1) for letter in "ua"]
    return [row(name, above) for name, above in zip(names, [parent, *names], strict=False)]


A = chain(1, 2, None)
OLD = [*A, *boundary("b", "a2"), *chain(3, 4, "ub")]
TWICE = [*A, *boundary("b", "a2", "a2")]
COPIES = [{**copy, "parentUuid": None} for copy in A]
AGAIN = [*A, row("h", "a2"), *boundary("c", "h", "h")]


@pytest.mark.parametrize(
    ("rows", "spoken", "skipped"),
    [
        ([*OLD, *AGAIN, *chain(5, 5, "uc")], "u1 a1 u2 a2 u3 a3 u4 a4 u5 a5", {"repeated row": 4, "system": 1}),
        ([*OLD, *COPIES], "u1 a1 u2 a2 u3 a3 u4 a4", {"repeated row": 4}),
        ([*OLD, *COPIES, *chain(5, 5, "a4")], "u1 a1 u2 a2 u3 a3 u4 a4 u5 a5", {"repeated row": 4}),
        ([*A[:3], *boundary("b", "a2", "a2"), row("a2", "ub"), *chain(3, 3, "a2")], "u1 a1 u2 a2 u3 a3", {}),
        ([*TWICE, row("a2", "ub"), *chain(3, 3, "a2")], "u1 a1 u2 a2 u3 a3", {"repeated row": 1}),
        ([*TWICE, *chain(3, 3, "a2")], "u1 a1 u2 a2 u3 a3", {}),
        ([row("u1", "a1"), row("a1", "u1"), *chain(2, 2, "a1")], "u1 a1 u2 a2", {}),
        ([*A, *chain(3, 3, "a1")], "u1 a1 u3 a3", {"other branch": 2}),
    ],
    ids=["compacted twice", "copied", "branched", "kept", "kept twice", "led past", "circle", "rewound"],
)
def test_each_message_of_claude_code_stands_once_where_it_was_written_first(rows, spoken, skipped, tmp_path):
    (log,) = read(in_lines(tmp_path / "a.jsonl", rows))
    compactions = sum(each.get("subtype") == "compact_boundary" for each in rows)
    own = {"compaction summary": compactions, "system:compact_boundary": compactions} if compactions else {}
    assert (said(log), log.skipped) == (spoken, {**skipped, **own})


def said(log: Transcript) -> str:
    return " ".join(str(message["content"]) for message in log.messages)


def test_what_a_user_took_back_by_the_clients_own_rewind_is_no_message(tmp_path):
    def item(role: str, text: str) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text}]
        return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}

    def back(count: int) -> dict[str, Any]:
        return {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": count}}

    turns = [turn for name in "123" for turn in (item("user", f"q{name}"), item("assistant", f"r{name}"))]
    context = item("user", "<environment_context>x</environment_context>")
    for rows, left, rewound in (
        ([*turns, back(1)], "q1 r1 q2 r2", 2),
        ([context, *turns, back(9)], "<environment_context>x</environment_context>", 6),
        ([*turns[:2], context, *turns[2:4], back(1), turns[4]], "q1 r1 q3", 3),
    ):
        log = read_session(in_lines(tmp_path / "a.jsonl", rows))
        assert (said(log), log.skipped["rewound"]) == (left, rewound)


# Files of providers' shapes.

USER = user("Run the tests.")
RUN = ("c1", "run", {"path": "."})
CHAT = [USER, call("openai", RUN), result("openai", "c1", "ok")]
BLOCKS = [USER, call("anthropic", RUN), result("anthropic", "c1", "ok")]
ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Run the tests."}]},
    {"type": "reasoning", "id": "r1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"path": "."}'},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
]
CONTENTS = [
    {"role": "user", "parts": [{"text": "Run the tests."}]},
    {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"path": "."}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "run", "response": {"output": "ok"}}}]},
]
LISTS = {"openai-chat": CHAT, "anthropic": BLOCKS, "openai-responses": ITEMS, "gemini": CONTENTS}
STATE = {"status": "completed", "input": {"p": 1}, "output": "ok"}
PART = {"id": "p1", "type": "tool", "callID": "c1", "tool": "run", "state": STATE}
OPENCODE = [{"info": {"id": "m", "role": "assistant"}, "parts": [PART]}]


def written(path: Path, value: Any) -> Path:
    """Write JSON, or bytes as they are, packed where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        *((name, value, lines) for name, value in [*LISTS.items(), ("opencode", OPENCODE)] for lines in (False, True)),
        *((name, {"messages": LISTS[name]}, False) for name in ("openai-chat", "anthropic")),
        ("openai-responses", {"model": "m", "input": ITEMS}, False),
        ("gemini", {"contents": CONTENTS}, False),
        ("openai-responses", {"session_id": "s", "items": ITEMS}, False),
        ("gemini", {"contents": CONTENTS, "usageMetadata": {}}, False),
    ],
)
def test_a_list_a_request_and_lines_are_read_in_their_own_format(tmp_path, name, value, lines):
    path = (in_lines if lines else written)(tmp_path / f"a.json{'l' * lines}", value)
    log = read_session(path)
    calls = [call for message in log.messages for call in called_ids(message)]
    assert log.format == ("messages" if lines and value in (CHAT, BLOCKS) else name)
    assert len(calls) == 1
    assert calls == [answer for message in log.messages for answer in answered_ids(message)]
    assert all(word in json.dumps(log.messages) for word in ("run", "p", "ok"))
    if lines:
        assert log.where(len(log.messages) - 1) == f"{path}:{len(value)}"


def test_each_line_of_a_fine_tuning_file_is_a_session(tmp_path):
    path = in_lines(tmp_path / "a.jsonl", [{"messages": CHAT, "tools": []}, {"messages": CHAT[:1]}])
    first, second = read(path)
    assert (first.format, first.session_id, first.messages) == ("openai-finetune", "a:1", tuple(CHAT))
    assert (second.session_id, second.where(0)) == ("a:2", f"{path}:2")
    assert first.skipped == {"key:tools": 1}
    with pytest.raises(TranscriptError, match=r"a\.jsonl:1: holds 2 sessions \(a:1, a:2\)"):
        read_session(path)
    for key in ("session_id", "parentId"):
        (log,) = read(in_lines(path, [{key: "s", "messages": CHAT}]))
        assert (log.format, log.messages) == ("openai-finetune", tuple(CHAT))


def test_the_system_prompt_beside_the_list_comes_first_and_a_named_format_is_taken(tmp_path):
    for value, first in (
        ({"system": "Be brief.", "messages": BLOCKS}, USER),
        ({"instructions": "Be brief.", "input": "Hello"}, user("Hello")),
        ({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": CONTENTS}, USER),
    ):
        log = read_session(written(tmp_path / "a.json", value), "")
        assert list(log.messages[:2]) == [{"role": "system", "content": "Be brief."}, first]
    path = in_lines(tmp_path / "a.log", CHAT)
    assert [log.format for log in read(path, format="messages")] == ["messages"]
    with pytest.raises(TranscriptError, match=r"no format 'xml'; known are auto, .*anthropic, .*opencode"):
        list(read(path, format="xml"))
    with pytest.raises(TranscriptError, match=r"a\.log:1: a content without a list of parts"):
        list(read(path, format="gemini"))
    assert {"messages", "openai-chat", "anthropic", "claude-code", "codex", "opencode"} <= FORMATS.keys()


def test_text_and_calls_of_one_response_are_one_message_and_free_text_of_a_tool_is_json(tmp_path):
    items = [
        ITEMS[0],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I patch."}]},
        {"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "*** Begin"},
        {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}},
        {"type": "custom_tool_call_output", "call_id": "p", "output": [{"type": "input_text", "text": "done"}]},
        {"type": "local_shell_call_output", "call_id": "s", "output": {"output": "a.py", "exit": 0}},
        {"type": "web_search_call", "id": "w"},
    ]
    log = read_session(written(tmp_path / "a.json", items))
    _, reply, patched, listed = log.messages
    assert reply["content"] == "I patch."
    arguments = [json.loads(call["function"]["arguments"]) for call in reply["tool_calls"]]
    assert arguments == [{"input": "*** Begin"}, {"input": {"command": ["ls"]}}]
    assert (patched["content"], listed["content"]) == ("done", "a.py")
    assert log.skipped == {"web_search_call": 1}
    # calls of Gemini have no ids: they are answered by name, in their order
    calls = [{"functionCall": {"name": "run", "args": {"path": path}}} for path in "ab"]
    said = [{"result": text, "code": 0} for text in ("first", "second")]
    answers = [{"functionResponse": {"name": "run", "response": each}} for each in said]
    contents = [
        CONTENTS[0],
        {"role": "model", "parts": [{"thought": True, "text": "hm"}, {"text": "Both."}, *calls]},
        {"role": "user", "parts": [*answers, {"executableCode": {}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
    ]
    log = read_session(written(tmp_path / "a.json", contents))
    _, reply, *told, image = log.messages
    ids = [call["id"] for call in reply["tool_calls"]]
    assert (reply["content"], len(set(ids))) == ("Both.", 2)
    answered = [(row["tool_call_id"], json.loads(row["content"])["result"]) for row in told]
    assert answered == [(ids[0], "first"), (ids[1], "second")]
    assert media_count(image["content"]) == 1
    assert log.skipped == {"part:executableCode": 1, "part:thought": 1}


UNKNOWN: list[tuple[str, dict[str, Any]]] = [  # what a format is called, and a first line of it
    ("codex exec --json", {"type": "thread.started", "thread_id": "t"}),
    ("stream-json", {"type": "system", "subtype": "init", "session_id": "s"}),
    ("goose", {"working_dir": "/", "description": "x"}),
    ("Qwen Code", {"uuid": "1", "parentUuid": None, "type": "system", "systemPayload": {}}),
    ("SillyTavern", {"name": "U", "is_user": True, "mes": "hi"}),
    ("batch file", {"custom_id": "1", "method": "POST", "body": {"messages": []}}),
    ("export of ChatGPT", {"mapping": {}, "current_node": "n"}),
    ("ShareGPT", {"conversations": [{"from": "human", "value": "hi"}]}),
    ("Qwen Code", {"uuid": "1", "type": "user", "message": {"role": "user", "parts": [{"text": "hi"}]}}),
    ("dump of LangChain", {"type": "human", "data": {"content": "hi", "type": "human"}}),
    ("lines with event, at", {"event": "x", "at": 1}),
]
PART_OF_UI = {"type": "tool-bash", "toolCallId": "c", "state": "output-available", "input": {}, "output": "a.py"}
OF_UI = [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "parts": [PART_OF_UI]}]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.json", b'[{"role": "user",\n "content": ]', ":2: not JSON: Expecting value at column 13; the file must be"),
        *(("a.json", data, ":1: no known format of a transcript") for data in (b"{}", b"3")),
        ("a.jsonl", b'{"role": "user"}\nab\n\ncd\n', ":2: not JSON: Expecting value at column 1; each line must"),
        *(("a.jsonl", data, ":1: not JSON: ") for data in (b"\0" * 512, b'{\n"role": "user",\n"content": "hi"\n}\n')),
        ("a.jsonl", b'{"role": "us\n', ":1: not JSON: Unterminated string starting at column 10"),
        ("a.jsonl", b"[1]\n", ":1: a JSON array, not an object"),
        ("a.jsonl", b"1\n", ":1: a JSON number or truth value, not an object"),
        ("a.jsonl", b'{"role": "\xff"}\n', ":1: byte 11 is not UTF-8"),
        ("a.jsonl", b"[" * 100_000, ":1: JSON that cannot be read (RecursionError)"),
        ("a.json", OF_UI, ":1: unknown format: UI messages of the Vercel AI SDK"),
        *(
            ("a.jsonl", f'{json.dumps(first)}\n{{"type": "other"}}'.encode(), f":1: unknown format: {called}; name ")
            for called, first in UNKNOWN
        ),
    ],
)
def test_what_is_no_transcript_or_of_a_format_that_is_not_read_is_refused_with_its_line(tmp_path, name, data, problem):
    path = written(tmp_path / name, data)
    with pytest.raises(TranscriptError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}{problem}")


def test_the_standard_input_is_a_transcript_and_a_named_pipe_is_refused_before_it_is_opened(monkeypatch, tmp_path):
    data = "".join(json.dumps(message) + "\n" for message in CHAT).encode()
    for given in (data, gzip.compress(data)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        (path,) = find_transcripts([Path("-")])
        assert read_session(path).messages == tuple(CHAT)
    os.mkfifo(tmp_path / "a.jsonl")
    code = f"from summarizing_context.transcripts import read; list(read({str(tmp_path / 'a.jsonl')!r}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "a.jsonl:1: is a pipe or a device" in ran.stderr


def test_a_folder_names_what_looks_like_a_transcript_and_cannot_be_read(tmp_path):
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE part (id)")
        schema = database.serialize()
    damaged = {
        "half.json": b'[{"role": "user", "content": "hi"}, {"role": "assi',
        "half.json.GZ": gzip.compress(json.dumps(CHAT * 40).encode())[:-9],
        "damaged.db": b"SQLite format 3\0" + b"x" * 4000,
        "schema.db": schema.replace(b"TABLE", b"T\x8aBLE"),  # what SQLite says of it is not UTF-8
        "several.json": json.dumps([[{"messages": CHAT}], [{"messages": CHAT}]]).encode(),
    }
    others = {
        **dict.fromkeys(("settings.json", "tsconfig.json"), b'{"role": "x", // a comment\n'),
        "package.json": {"name": "chat", "type": "module"},
        "users.json": {"users": [{"type": "user"}], "session_id": "s"},
        "chat.meta.json": {"messages": CHAT},
        "notes.txt": b"",
    }
    good = {"a/1.jsonl": b"", "b/2.jsonl.gz": b"", "long.json": {"tools": ["x" * 150_000], "messages": CHAT}}
    for name, data in {**damaged, **others, **good}.items():
        written(tmp_path / name, data).rename(tmp_path / name.lower())
    found = find_transcripts([tmp_path, tmp_path / "long.json"])
    assert found == sorted(tmp_path / name.lower() for name in {**damaged, **good})  # each once, in order
    for path in [tmp_path / name.lower() for name in damaged]:
        with pytest.raises(TranscriptError, match=rf"{path.name}:1: (not JSON|the gz|the database|no known)"):
            list(read(path))
    (tmp_path / "empty").mkdir()
    problems = {"none": "no such file or folder", "notes.txt": "is not .jsonl or", "empty": "holds no transcript"}
    for name, problem in problems.items():
        with pytest.raises(TranscriptError, match=problem):
            find_transcripts([tmp_path / name])
    with pytest.raises(TranscriptError, match="no transcript was named"):
        find_transcripts([])


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("write", [in_lines, written])
def test_no_message_is_dropped_in_silence_whatever_format_is_named(tmp_path, name, write):
    path = write(tmp_path / f"a.json{'l' if write is in_lines else ''}", CHAT)
    try:
        told = sum(len(log.messages) + sum(log.skipped.values()) for log in read(path, format=name))
    except TranscriptError as error:
        told = len(CHAT) if str(error).startswith(f"{path}:1: ") else 0
    assert told >= len(CHAT)


@pytest.mark.parametrize(("name", "value"), LISTS.items())
def test_one_wrong_part_of_a_list_is_skipped_and_told(tmp_path, name, value):
    whole = read_session(written(tmp_path / "a.json", value))
    path = written(tmp_path / "a.json", [value[0], None, *value[1:]])
    log = read_session(path)
    assert (log.format, log.messages) == (name, whole.messages)
    (told,) = log.unreadable
    assert told.startswith(f"{path}:1: ")
    assert " 2 " in told
    assert log.skipped["unreadable record"] == 1
    with pytest.raises(TranscriptError, match=r"a\.json:1: "):
        list(read(written(path, [*value, *[None] * 9]), format=name))
    if name == "openai-chat":
        assert read_session(written(path, [USER, None])).messages == (USER,)


# One message a line.


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_each_line_becomes_a_message_without_the_keys_that_are_ours(tmp_path, name):
    path = written(tmp_path / name, b'{"role": "user", "content": "hi", "_meta": {"a": 1}}\n\n{"role": "tool"}\n')
    log = read_session(path)
    assert log.messages == (user("hi"), {"role": "tool"})
    assert (log.format, log.session_id, log.where(1)) == ("messages", "a", f"{path}:3")
    # inner keys, lone surrogates and separators of lines are kept, behind a byte order mark; no number is null
    message = user([{"_inner": "\ud800 a\u2028b"}])
    lines = f"\ufeff{json.dumps(message, ensure_ascii=False)}\n" + json.dumps({**USER, "score": float("nan")})
    lines += "\n" + json.dumps({**USER, "score": -float("inf")})
    log = read_session(written(tmp_path / name, lines.encode("utf8", "surrogatepass")))
    assert log.messages == (message, {**USER, "score": None}, {**USER, "score": None})


# Lines and values that cannot be read, in a file whose others can: they are skipped and told, whatever the format.

CLIENT_LOGS = {
    path.relative_to(CLIENTS).parts[0]: path.read_bytes()
    for path in find_transcripts([CLIENTS])
    if ".jsonl" in path.name
}
OWN_LINES: dict[str, list[Any]] = {
    "messages": [user("hi"), assistant("ho")] * 3,
    "openai-finetune": [{"messages": [user("hi"), assistant("ho")]}] * 6,
    "openai-responses": ITEMS[:1] * 6,
    "gemini": CONTENTS[:1] * 6,
}
OWN_LOGS = {name: "".join(json.dumps(each) + "\n" for each in all).encode() for name, all in OWN_LINES.items()}

BROKEN = {
    "half a line": b'{"role": "user", "content": "ha',
    "half a line and another": b'{"role": "us{"role": "user"}',
    "zeros": b"\0" * 512,
    "no UTF-8": b'{"role": "\xff\xfe"}',
    "no object": b"[1, 2]",
}


@pytest.mark.parametrize(("name", "data"), {**CLIENT_LOGS, **OWN_LOGS}.items(), ids=[*CLIENT_LOGS, *OWN_LOGS])
def test_a_broken_line_anywhere_is_skipped_and_told_with_its_number(name: str, data: bytes, tmp_path: Path):
    lines, path = data.splitlines(keepends=True), tmp_path / "log.jsonl"
    path.write_bytes(data)
    spoken = [log.messages for log in read(path)]
    for why, bad in BROKEN.items():
        for at in (0, len(lines) // 2, len(lines)):
            end = b"" if at == len(lines) else b"\n"
            path.write_bytes(b"".join([*lines[:at], bad + end, *lines[at:]]))
            found = list(read(path))
            assert [(log.format, log.messages) for log in found] == [(name, each) for each in spoken], (why, at)
            assert [log.skipped.get("unreadable line", 0) for log in found] == [1, *[0] * (len(found) - 1)]
            (told,) = found[0].unreadable
            assert told.startswith(f"{path}:{at + 1}: ")
    for at in range(len(lines)):  # and a log that lost any one line is still a log of that client
        path.write_bytes(b"".join([*lines[:at], lines[at][: len(lines[at]) // 2] + b"\n", *lines[at + 1 :]]))
        found = list(read(path))
        assert {log.format for log in found} == {name}
        assert found[0].unreadable[0].startswith(f"{path}:{at + 1}: not JSON")
        assert any(log.messages for log in found)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


@pytest.mark.parametrize("log", sorted(find_transcripts([CLIENTS])), ids=lambda path: path.parent.name + path.suffix)
def test_a_value_of_another_kind_anywhere_in_a_clients_log_is_no_fault_of_the_program(log, tmp_path):
    """It is skipped, or the file is refused by its line."""
    is_lines = log.suffix == ".jsonl"
    text = log.read_text(encoding="utf8")
    text = f"[{','.join(text.splitlines())}]" if is_lines else text
    paths, picked = list(places(json.loads(text))), random.Random(7)
    path = tmp_path / f"a{log.suffix}"
    for _ in range(50):
        held = whole = json.loads(text)
        *above, last = picked.choice(paths)
        for key in above:
            held = held[key]
        held[last] = json.loads(picked.choice(("[]", '["x"]', "{}", '{"a": [1]}', "5", "null", '"x"', "true")))
        path.write_text("".join(json.dumps(row) + "\n" for row in (whole if is_lines else [whole])), encoding="utf8")
        told = f"{path}:"
        try:
            assert all(isinstance(message, dict) for session in read(path) for message in session.messages)
        except TranscriptError as error:
            told = str(error)
        assert told.startswith(f"{path}:")
