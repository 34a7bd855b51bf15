"""What clients take back, write twice or lead astray in their logs, and what tells their formats apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import Transcript, read, read_session
from tests.laws.shapes import answered_ids, called_ids

Rows = list[dict[str, Any]]


def row(name: str, parent: str | None, **more: Any) -> dict[str, Any]:
    """A row of Claude Code: `u1` is of the user, `a1` a reply, others are of the client."""
    kind = {"u": "user", "a": "assistant"}.get(name[0], "system")
    said = {"message": {"role": kind, "content": name}} if kind != "system" else {}
    return {"type": kind, "uuid": name, "parentUuid": parent, "sessionId": "s", **said, **more}


def boundary(name: str, logical: str | None, **meta: Any) -> dict[str, Any]:
    return row(name, None, subtype="compact_boundary", logicalParentUuid=logical, compactMetadata=meta)


def chain(first: int, last: int, parent: str | None) -> Rows:
    names = [f"{letter}{number}" for number in range(first, last + 1) for letter in "ua"]
    return [row(name, above) for name, above in zip(names, [parent, *names], strict=False)]


A, B = chain(1, 2, None), chain(3, 4, "usum")
SUMMARY = row("usum", "b1", isCompactSummary=True)
OLD = [*A, boundary("b1", "a2"), SUMMARY, *B]
KEPT = {"headUuid": "a2", "anchorUuid": "usum", "tailUuid": "a2"}
TREES: dict[str, tuple[Rows, str, dict[str, int]]] = {
    "second compaction": (
        [
            *OLD,
            *A,
            row("h", "a2"),
            boundary("b2", "h"),
            row("usum2", "b2", isCompactSummary=True),
            *chain(5, 5, "usum2"),
        ],
        "u1 a1 u2 a2 u3 a3 u4 a4 u5 a5",
        {"repeated row": 4, "system": 1},
    ),
    "copies at the end": (
        [*OLD, *({**copy, "parentUuid": None} for copy in A)],
        "u1 a1 u2 a2 u3 a3 u4 a4",
        {"repeated row": 4},
    ),
    "a branch goes on": (
        [*OLD, *({**copy, "parentUuid": None} for copy in [*A, *B]), *chain(5, 5, "a4")],
        "u1 a1 u2 a2 u3 a3 u4 a4 u5 a5",
        {"repeated row": 8},
    ),
    "kept rows behind the summary": (
        [*A[:3], boundary("b1", "a2", preservedSegment=KEPT), SUMMARY, row("a2", "usum"), *chain(3, 3, "a2")],
        "u1 a1 u2 a2 u3 a3",
        {},
    ),
    "kept rows written again": (
        [
            *A,
            boundary("b1", "a2", preservedSegment=KEPT),
            SUMMARY,
            row("u2", "usum"),
            row("a2", "u2"),
            *chain(3, 3, "a2"),
        ],
        "u1 a1 u2 a2 u3 a3",
        {"repeated row": 2},
    ),
    "rows after those that are kept": (
        [*A, boundary("b1", "a2", preservedSegment=KEPT), SUMMARY, *chain(3, 3, "a2")],
        "u1 a1 u2 a2 u3 a3",
        {},
    ),
    "two rows name each other": ([row("u1", "a1"), row("a1", "u1"), *chain(2, 2, "a1")], "u1 a1 u2 a2", {}),
    "a rewind": ([*A, *chain(3, 3, "a1")], "u1 a1 u3 a3", {"other branch": 2}),
}


def written(path: Path, rows: Any) -> Path:
    is_lines = path.suffix == ".jsonl"
    path.write_text(
        "".join(json.dumps(each) + "\n" for each in rows) if is_lines else json.dumps(rows), encoding="utf8"
    )
    return path


def said(log: Transcript) -> str:
    return " ".join(str(message["content"]) for message in log.messages)


@pytest.mark.parametrize("name", TREES)
def test_each_message_of_claude_code_stands_once_where_it_was_written_first(name: str, tmp_path: Path) -> None:
    rows, spoken, skipped = TREES[name]
    (log,) = read(written(tmp_path / "a.jsonl", rows))
    assert (said(log), log.skipped) == (spoken, skipped)
    assert len(log.compactions) == sum(each.get("subtype") == "compact_boundary" for each in rows)


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": "event_msg" if "_" in kind else "response_item", "payload": {"type": kind, **payload}}


def spoken(role: str, text: str) -> dict[str, Any]:
    return codex("message", role=role, content=[{"type": "input_text", "text": text}])


TURNS = [turn for name in "123" for turn in (spoken("user", f"q{name}"), spoken("assistant", f"r{name}"))]
CONTEXT = spoken("user", "<environment_context>x</environment_context>")
COPILOT = [
    {"type": "session.start", "id": "e0", "data": {"copilotVersion": "1"}},
    *(
        {"type": f"{role}.message", "id": f"{role}{n}", "data": {"content": f"{role[0]}{n}"}}
        for n in (1, 2)
        for role in ("user", "assistant")
    ),
    {"type": "session.snapshot_rewind", "id": "e1", "data": {"upToEventId": "user2", "eventsRemoved": 2}},
    {"type": "user.message", "id": "user3", "data": {"content": "u3"}},
]


def opencode(name: str, *parts: tuple[str, str], role: str = "user") -> dict[str, Any]:
    made = [{"id": f"{name}-{n}", "type": kind, "text": text, **CALL_PART} for n, (kind, text) in enumerate(parts)]
    return {"info": {"id": name, "role": role, "sessionID": "s"}, "parts": made}


CALL_PART = {"tool": "run", "callID": "c1", "state": {"status": "completed", "input": {"p": 1}, "output": "ok"}}
EXPORT = {
    "info": {"id": "s", "revert": {"messageID": "m2", "partID": "m2-1"}},
    "messages": [opencode("m1", ("text", "u1")), opencode("m2", ("text", "a1"), ("text", "a2"), role="assistant")],
}


def qwen(name: str, parent: str | None, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    kind = {"u": "user", "a": "assistant", "t": "tool_result"}.get(name[0], "system")
    message = {"message": {"role": "model" if kind == "assistant" else "user", "parts": list(parts)}} if parts else {}
    return {"type": kind, "uuid": name, "parentUuid": parent, "sessionId": "s", **message, **more}


QWEN = [
    qwen("u1", None, {"text": "u1"}),
    qwen("a1", "u1", {"text": "hm", "thought": True}, {"functionCall": {"id": "c1", "name": "run", "args": {"p": 1}}}),
    qwen("t1", "a1", {"functionResponse": {"id": "c1", "name": "run", "response": {"output": "ok"}}}),
]
REWOUND = [*QWEN, qwen("u2", "t1", {"text": "u2"}), qwen("r", "t1", subtype="rewind")]


@pytest.mark.parametrize(
    ("rows", "left", "count"),
    [
        ([*TURNS, codex("thread_rolled_back", num_turns=1)], "q1 r1 q2 r2", {"rewound": 2}),
        (
            [CONTEXT, *TURNS, codex("thread_rolled_back", num_turns=9)],
            CONTEXT["payload"]["content"][0]["text"],
            {"rewound": 6},
        ),
        (
            [*TURNS[:2], CONTEXT, *TURNS[2:4], codex("thread_rolled_back", num_turns=1), TURNS[4]],
            "q1 r1 q3",
            {"rewound": 3},
        ),
        (COPILOT, "u1 a1 u3", {"rewound": 2}),
        ([*REWOUND], "u1  ok", {"other branch": 1}),
        ([*REWOUND, qwen("u3", "r", {"text": "u3"})], "u1  ok u3", {"other branch": 1}),
        (EXPORT, "u1 a1", {"reverted": 1}),
    ],
)
def test_what_a_user_took_back_by_the_clients_own_rewind_is_no_message(
    rows: Any, left: str, count: dict[str, int], tmp_path: Path
) -> None:
    log = read_session(written(tmp_path / f"a.json{'' if isinstance(rows, dict) else 'l'}", rows))
    assert said(log) == left
    assert {kind: log.skipped[kind] for kind in count} == count


USE = {"name": "run", "arguments": {"p": 1}}
PI_CALL = {"type": "toolCall", "id": "c1", **USE}
MODEL_CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "run", "input": {"p": 1}}
PAGE = {"type": "tool-run", "toolCallId": "c1", "state": "output-available", "input": {"p": 1}, "output": "ok"}
GOOSE = [
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {
        "role": "assistant",
        "content": [{"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": USE}}],
    },
    {
        "role": "user",
        "content": [{"type": "toolResponse", "id": "c1", "toolResult": {"value": [{"type": "text", "text": "ok"}]}}],
    },
]
STREAM = [
    {"type": "system", "subtype": "init", "session_id": "s"},
    {"type": "user", "session_id": "s", "message": {"role": "user", "content": "hi"}},
    {
        "type": "assistant",
        "session_id": "s",
        "message": {
            "id": "m",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "run", "input": {"p": 1}}],
        },
    },
    {
        "type": "user",
        "session_id": "s",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
    },
]
PI = [
    {"type": "session", "id": "s", "cwd": "/"},
    {"type": "message", "id": "1", "parentId": None, "message": {"role": "user", "content": "hi"}},
    {"type": "message", "id": "0", "parentId": "1", "message": {"role": "user", "content": "left"}},
    {"type": "message", "id": "2", "parentId": "1", "message": {"role": "assistant", "content": [PI_CALL]}},
    {
        "type": "message",
        "id": "3",
        "parentId": "2",
        "message": {"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "ok"}]},
    },
]
FUNCTION = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"p": 1}'}}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("qwen-code", QWEN),
        ("stream-json", STREAM),
        ("pi", PI),
        ("goose", GOOSE),
        ("goose", [{"working_dir": "/"}, *GOOSE]),
        ("opencode", [opencode("m1", ("text", "hi")), opencode("m2", ("tool", ""), role="assistant")]),
        (
            "ai-sdk",
            [{"role": "user", "parts": [{"type": "text", "text": "hi"}]}, {"role": "assistant", "parts": [PAGE]}],
        ),
        (
            "ai-sdk",
            [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [MODEL_CALL]},
                {
                    "role": "tool",
                    "content": [{"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "ok"}}],
                },
            ],
        ),
        (
            "langchain",
            [
                {"type": "human", "content": "hi"},
                {"type": "ai", "content": "", "tool_calls": [], "additional_kwargs": {"tool_calls": [FUNCTION]}},
                {"type": "tool", "content": "ok", "tool_call_id": "c1"},
            ],
        ),
        (
            "langchain",
            [
                {"type": "human", "content": "hi"},
                {"type": "ai", "content": "", "additional_kwargs": {"function_call": USE}},
                {"type": "function", "name": "run", "content": "ok"},
            ],
        ),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_format_is_told_by_its_content_and_its_calls_have_their_results(
    name: str, rows: Rows, suffix: str, tmp_path: Path
) -> None:
    log = read_session(written(tmp_path / f"a.{suffix}", rows))
    calls = [call for message in log.messages for call in called_ids(message)]
    assert log.format == name
    assert calls == [answer for message in log.messages for answer in answered_ids(message)]
    assert calls in (["c1"], ["run"])
    assert [word in json.dumps(log.messages) for word in ("run", "p", "ok", "left")] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("codex exec --json", [{"type": "thread.started", "thread_id": "t"}, {"type": "item.completed", "item": {}}]),
        ("stream-json of Gemini CLI", [{"type": "tool_use", "tool_id": "t", "tool_name": "run"}]),
        ("stream-json of Cursor", [{"type": "tool_call", "subtype": "completed", "call_id": "c", "tool_call": {}}]),
        ("SillyTavern", [{"user_name": "U", "chat_metadata": {}}, {"name": "U", "is_user": True, "mes": "hi"}]),
        ("batch file", [{"custom_id": "1", "method": "POST", "body": {"messages": []}}]),
        ("export of ChatGPT", [{"mapping": {}, "current_node": "n"}]),
        ("ShareGPT", [{"conversations": [{"from": "human", "value": "hi"}]}]),
        ("lines with event, at", [{"event": "x", "at": 1}]),
    ],
)
def test_a_format_that_is_not_read_is_refused_by_its_name(name: str, rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match=rf"a\.jsonl:1: unknown format: {name}; name "):
        list(read(written(tmp_path / "a.jsonl", rows)))


def test_calls_that_were_never_finished_are_counted(tmp_path: Path) -> None:
    half = {"type": "tool-run", "toolCallId": "c2", "state": "input-streaming"}
    rows = [{"role": "assistant", "parts": [{"type": "text", "text": "hi"}, half]}]
    assert read_session(written(tmp_path / "a.json", rows)).skipped == {"dropped call": 1}
