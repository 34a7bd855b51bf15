"""Logs that coding clients wrote; `tests/data/clients/README.md` tells how."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import Transcript, find_transcripts, read, read_session
from tests.cli.commands import write_transcript as written
from tests.laws.shapes import answered_ids, blocks, called_ids

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
    both = written(tmp_path / "both.jsonl", [*lines_of(AGENT), *rows])
    for found, alone in zip(read(both), (main, log), strict=True):
        assert (found.session_id, found.messages) == (alone.session_id, alone.messages)
    # sidechains that an early version did not name
    old = [{name: value for name, value in row.items() if name != "agentId"} for row in lines_of(AGENT)]
    again = json.loads(json.dumps(old).replace('uuid": "', 'uuid": "again-').replace('Uuid": "', 'Uuid": "again-'))
    logs = list(read(written(tmp_path / "both.jsonl", [*old, *again])))
    assert [each.messages for each in logs] == [log.messages] * 2
    assert [each.session_id.rpartition(":")[2] for each in logs] == ["sidechain-1", f"sidechain-{len(old) + 1}"]
    # a lost row cuts nothing off
    rest = [row for row in rows if row.get("message", {}).get("content") != LATER[0]]
    log = read_session(written(tmp_path / "a.jsonl", rest))
    assert (len(log.messages), log.skipped["missing parent"]) == (len(main.messages) - 1, 1)
    later = next(row for row in rows if row.get("message", {}).get("content") == LATER[-1])
    later["parentUuid"] = None
    first, second = read(written(tmp_path / "a.jsonl", rows))
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
        log = read_session(written(tmp_path / "a.jsonl", changed))
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


def test_an_opencode_database_holds_sessions_and_those_of_its_child_agents(opencode):
    main, agent = whole = list(read(opencode))
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
    changed(opencode, "ALTER TABLE session DROP COLUMN revert")  # a version without reverts
    assert [log.messages for log in read(opencode)] == [log.messages for log in whole]


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


def test_a_broken_record_of_opencode_is_skipped_and_told_and_the_others_stay(opencode):
    main, agent = read(opencode)
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
    log = read_session(written(tmp_path / "session.jsonl", [*rows, {"id": "i1", "type": "info", "content": "Saved."}]))
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
    (log,) = read(written(tmp_path / "a.jsonl", rows))
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
        log = read_session(written(tmp_path / "a.jsonl", rows))
        assert (said(log), log.skipped["rewound"]) == (left, rewound)


@pytest.mark.parametrize(
    ("name", "first"),
    [
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
    ],
)
def test_a_format_that_is_not_read_is_refused_by_its_name(name: str, first: dict[str, Any], tmp_path: Path):
    with pytest.raises(TranscriptError, match=rf"a\.jsonl:1: unknown format: {name}; name "):
        list(read(written(tmp_path / "a.jsonl", [first, {"type": "other"}])))
    part = {"type": "tool-bash", "toolCallId": "c", "state": "output-available", "input": {}, "output": "a.py"}
    rows = [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "parts": [part]}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    with pytest.raises(TranscriptError, match="unknown format: UI messages of the Vercel AI SDK"):
        list(read(tmp_path / "a.json"))
