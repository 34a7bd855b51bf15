"""Logs that coding clients wrote; `tests/data/clients/README.md` tells how."""

import json
import sqlite3
from collections.abc import Mapping
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
CODEX = CLIENTS / "codex" / "rollout-2026-11-23.jsonl"
GEMINI = CLIENTS / "gemini-cli" / "session-2026-11-24.jsonl"
ENDED = ["divide now returns 1.5 for 3 and 2; both tests pass.", "divide(-3, 2) is -1.5, as it should be."]


@pytest.fixture
def opencode(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((CLIENTS / "opencode.sql").read_text(encoding="utf8"))
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def texts(log: Transcript, role: str) -> list[str]:
    said = [message for message in log.messages if message["role"] == role]
    return [text for each in said for text in (words(each) if isinstance(each["content"], list) else [each["content"]])]


def words(message: Mapping[str, Any]) -> list[str]:
    return [str(block["text"]) for block in blocks(message) if block["type"] == "text"]


def unanswered(log: Transcript) -> list[str]:
    answers = [answer for message in log.messages for answer in answered_ids(message)]
    return [call for message in log.messages for call in called_ids(message) if call not in answers]


def human(log: Transcript) -> list[str]:
    """What stands in rows of a user, without results, and is not marked as a host's."""
    rows = [row for row in log.messages if row["role"] == "user" and not answered_ids(row)]
    marks = ("isMeta", "isCompactSummary", "isSidechain", "metadata")
    return [str(row["content"]) for row in rows if not any(row.get(mark) for mark in marks)]


def test_a_claude_code_session_is_read_as_it_was_spoken():
    assert len(find_transcripts([CLIENTS])) == 4
    log = read_session(CLAUDE_CODE)
    assert (log.format, log.session_id) == ("claude-code", CLAUDE_CODE.stem)
    assert human(log)[0] == "Mend divide in calc.py. Always keep the tests green."
    assert set(ENDED) <= set(texts(log, "assistant"))
    assert unanswered(log) == []
    assert (log.skipped["attachment:skill_listing"], log.skipped["queue-operation"]) == (2, 8)


def test_blocks_of_one_reply_are_one_message_also_where_parallel_calls_fork_the_tree():
    reply = read_session(CLAUDE_CODE).messages[1]
    assert [block["type"] for block in reply["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    on_the_chain = {row["parentUuid"] for row in lines_of(CLAUDE_CODE) if "parentUuid" in row}
    result = next(row for row in lines_of(CLAUDE_CODE) if "file" in (row.get("toolUseResult") or {}))
    assert result["uuid"] not in on_the_chain  # the result of one of the calls has no row after it


def test_child_agents_of_claude_code_are_sessions_in_which_no_human_speaks_also_in_the_file_of_another(tmp_path):
    (agent,) = (CLIENTS / "claude-code").rglob("agent-*.jsonl")
    log = read_session(agent)
    assert log.session_id == f"{CLAUDE_CODE.stem}:{agent.stem.removeprefix('agent-')}"
    assert (len(log.messages), human(log)) == (4, [])
    both = written(tmp_path / "both.jsonl", [*lines_of(agent), *lines_of(CLAUDE_CODE)])
    for found, alone in zip(read(both), (read_session(CLAUDE_CODE), log), strict=True):
        assert (found.session_id, found.messages) == (alone.session_id, alone.messages)


def test_sidechains_that_an_early_version_did_not_name_are_sessions_of_their_own(tmp_path):
    (agent,) = (CLIENTS / "claude-code").rglob("agent-*.jsonl")
    rows = [{name: value for name, value in row.items() if name != "agentId"} for row in lines_of(agent)]
    again = json.loads(json.dumps(rows).replace('uuid": "', 'uuid": "again-').replace('Uuid": "', 'Uuid": "again-'))
    logs = list(read(written(tmp_path / "both.jsonl", [*rows, *again])))
    assert [log.messages for log in logs] == [read_session(agent).messages] * 2
    assert [log.session_id.rpartition(":")[2] for log in logs] == ["sidechain-1", f"sidechain-{len(rows) + 1}"]


def test_a_summary_that_claude_code_made_of_its_own_context_is_counted_and_is_no_message():
    log = read_session(CLAUDE_CODE)
    assert (log.skipped["system:compact_boundary"], log.skipped["compaction summary"]) == (1, 1)
    assert "calc.py line 5 was edited" not in json.dumps(log.messages)


def test_a_conversation_that_was_cleared_is_a_session_of_its_own(tmp_path):
    rows = lines_of(CLAUDE_CODE)
    later = next(row for row in rows if row.get("message", {}).get("content") == "Now try a negative number.")
    later["parentUuid"] = None
    first, second = read(written(tmp_path / "a.jsonl", rows))
    assert (first.session_id, second.session_id) == (CLAUDE_CODE.stem, f"{CLAUDE_CODE.stem}:2")
    assert (*first.messages, *second.messages) == read_session(CLAUDE_CODE).messages
    assert human(second) == ["Now try a negative number."]


@pytest.mark.parametrize("added", [{"session_id": "s"}, {"type": "system", "data": {}}])
def test_a_key_of_another_client_in_one_row_of_claude_code_does_not_matter(tmp_path, added):
    rows = lines_of(CLAUDE_CODE)
    boundary = next(at for at, row in enumerate(rows) if row.get("type") == "system" and "parentUuid" in row)
    rows[boundary] |= added
    assert read_session(written(tmp_path / "a.jsonl", rows)).messages == read_session(CLAUDE_CODE).messages


def test_rows_that_a_client_wrote_twice_are_taken_once(tmp_path):
    rows = lines_of(CLAUDE_CODE)
    block = next(row for row in rows if row.get("message", {}).get("id") == "msg_0004")
    streamed = {**block, "uuid": "again", "parentUuid": block["uuid"]}
    log = read_session(written(tmp_path / "a.jsonl", [*rows[:12], streamed, *rows[11:]]))
    assert log.messages == read_session(CLAUDE_CODE).messages
    assert (log.skipped["repeated row"], log.skipped["repeated block"]) == (1, 1)


def test_a_lost_row_does_not_cut_off_what_was_said_before_it(tmp_path):
    rows = [row for row in lines_of(CLAUDE_CODE) if row.get("message", {}).get("content") != "Look at the tests again."]
    log = read_session(written(tmp_path / "a.jsonl", rows))
    assert len(log.messages) == len(read_session(CLAUDE_CODE).messages) - 1
    assert log.skipped["missing parent"] == 1


def test_a_codex_rollout_is_read_as_it_was_spoken():
    log = read_session(CODEX)
    assert (log.format, log.session_id) == ("codex", "01a20a33-bc49-7fc0-a553-455b29c63c84")
    asked = ["Mend divide in calc.py. Always keep the tests green.", "Look at the tests again."]
    assert human(log) == [*asked, "Now try a negative number."]
    assert set(ENDED) <= set(texts(log, "assistant"))
    assert unanswered(log) == []
    first = next(message for message in log.messages if message["role"] == "assistant")
    assert [json.loads(call["function"]["arguments"])["cmd"] for call in first["tool_calls"]] == ["ls", "cat calc.py"]
    assert log.skipped["response_item:reasoning"] == 1
    assert log.skipped["event_msg:token_count"] == 11
    assert log.skipped["compacted"] == 1
    assert "calc.py line 5 was edited" not in json.dumps(log.messages)


def test_items_of_an_early_codex_without_an_envelope_are_messages(tmp_path):
    rows = [row["payload"] if row["type"] == "response_item" else row for row in lines_of(CODEX)]
    assert read_session(written(tmp_path / "a.jsonl", rows)).messages == read_session(CODEX).messages


def test_an_opencode_database_holds_sessions_and_those_of_its_child_agents(opencode):
    main, agent = read(opencode)
    assert main.format == "opencode"
    assert human(main)[0] == '"Mend divide in calc.py. Always keep the tests green."'
    assert len(human(main)) == 3
    assert set(ENDED) <= set(texts(main, "assistant"))
    assert unanswered(main) == []
    assert main.skipped["part:reasoning"] == 1
    assert texts(agent, "assistant") == ["test_divide expects 1.5 and gets 1."]
    assert human(agent) == []
    assert (main.skipped["compaction"], main.skipped["compaction summary"]) == (1, 1)
    assert "calc.py line 5 was edited" not in json.dumps(main.messages)


def test_what_a_user_of_opencode_has_reverted_is_no_message(opencode):
    whole = next(read(opencode)).messages
    with closing(sqlite3.connect(opencode)) as database, database:
        query = "SELECT id FROM message WHERE session_id = (SELECT id FROM session WHERE parent_id IS NULL) ORDER BY id"
        last = [name for (name,) in database.execute(query)][-1]
        parts = "SELECT max(id) FROM part WHERE message_id = ?1"
        told = f"json_object('messageID', ?1, 'partID', ({parts} AND data LIKE '%\"text\"%'))"
        database.execute(f"UPDATE session SET revert = {told} WHERE parent_id IS NULL", (last,))
    log = next(read(opencode))
    assert log.messages == whole[:-1]  # the text of the last reply
    assert log.skipped["reverted"] == 1


def test_an_opencode_database_of_a_version_without_reverts_is_read(opencode):
    whole = [log.messages for log in read(opencode)]
    with closing(sqlite3.connect(opencode)) as database, database:
        database.execute("ALTER TABLE session DROP COLUMN revert")
    assert [log.messages for log in read(opencode)] == whole


def test_a_database_of_something_else_is_told(opencode, tmp_path):
    with closing(sqlite3.connect(tmp_path / "goose.db")) as database:
        database.executescript("CREATE TABLE sessions (id); CREATE TABLE messages (id)")
    with pytest.raises(TranscriptError, match=r"goose\.db:1: unknown format: a database of goose"):
        list(read(tmp_path / "goose.db"))
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE session (id)")
    with pytest.raises(TranscriptError, match=r"other\.db:1: not a database of OpenCode"):
        list(read(tmp_path / "other.db"))
    with pytest.raises(TranscriptError, match=r"none\.db:1: cannot be read"):
        list(read(tmp_path / "none.db"))
    assert find_transcripts([tmp_path]) == [opencode]


def test_a_broken_record_of_opencode_is_skipped_and_told_and_the_others_stay(opencode):
    main, agent = read(opencode)
    with closing(sqlite3.connect(opencode)) as database, database:
        database.execute("UPDATE session SET revert = '{half' WHERE id = ?", (main.session_id,))
        of_main = "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id"
        first, *_, last = [name for (name,) in database.execute(of_main, (main.session_id,))]
        database.execute("UPDATE part SET data = '{half' WHERE message_id = ?", (first,))
        database.execute("UPDATE message SET data = CAST(x'7bff' AS TEXT) WHERE id = ?", (last,))
    broken, other = read(opencode)
    assert other == agent
    assert 0 < len(broken.messages) < len(main.messages)
    assert broken.skipped["unreadable record"] == len(broken.unreadable)
    said = "\n".join(broken.unreadable)
    assert said.startswith(f"{opencode}:1: what was reverted in session {main.session_id} is not JSON")
    assert f"{opencode}:1: the record {last} is not JSON" in said


def test_a_chat_of_gemini_cli_is_its_records_put_together():
    log = read_session(GEMINI)
    assert (log.format, log.session_id) == ("gemini-cli", lines_of(GEMINI)[0]["sessionId"])
    assert human(log) == ["Now divide -3 by 2."]  # the client wrote the first row by itself
    assert [message["role"] for message in log.messages] == ["user", "user", "assistant", "tool", "tool", "assistant"]
    assert unanswered(log) == []
    assert log.skipped == {"part:thought": 1}
    assert len(log.lines) == len(log.messages)


def test_what_a_user_of_gemini_cli_takes_back_is_no_message(tmp_path: Path):
    rows = lines_of(GEMINI)
    second = next(row["id"] for row in rows if row.get("content") == [{"text": "Now divide -3 by 2."}])
    rows += [{"$rewindTo": second}, {"id": "u9", "type": "user", "content": [{"text": "Leave it."}]}]
    log = read_session(written(tmp_path / "session.jsonl", [*rows, {"id": "i1", "type": "info", "content": "Saved."}]))
    assert human(log) == ["Leave it."]
    assert len(log.messages) == 2
    assert (log.skipped["rewound"], log.skipped["message:info"]) == (4, 1)
