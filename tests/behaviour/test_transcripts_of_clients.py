"""What clients take back, write twice or lead astray in their logs, and what tells their formats apart."""

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import Transcript, read, read_session
from tests.cli.commands import write_transcript as written

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


def item(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}


def back(count: int) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": count}}


TURNS = [turn for name in "123" for turn in (item("user", f"q{name}"), item("assistant", f"r{name}"))]
CONTEXT = item("user", "<environment_context>x</environment_context>")


@pytest.mark.parametrize(
    ("rows", "left", "count"),
    [
        ([*TURNS, back(1)], "q1 r1 q2 r2", {"rewound": 2}),
        ([CONTEXT, *TURNS, back(9)], "<environment_context>x</environment_context>", {"rewound": 6}),
        ([*TURNS[:2], CONTEXT, *TURNS[2:4], back(1), TURNS[4]], "q1 r1 q3", {"rewound": 3}),
    ],
)
def test_what_a_user_took_back_by_the_clients_own_rewind_is_no_message(rows, left, count, tmp_path):
    log = read_session(written(tmp_path / "a.jsonl", rows))
    assert said(log) == left
    assert {kind: log.skipped[kind] for kind in count} == count


PART = {"type": "tool-bash", "toolCallId": "c", "state": "output-available", "input": {}, "output": "a.py"}


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


def test_messages_of_a_user_interface_are_refused_by_their_name(tmp_path: Path):
    rows = [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "parts": [PART]}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    with pytest.raises(TranscriptError, match="unknown format: UI messages of the Vercel AI SDK"):
        list(read(tmp_path / "a.json"))
