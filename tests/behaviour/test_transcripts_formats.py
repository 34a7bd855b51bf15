"""Files of providers' shapes: what is recognized as which format, and what becomes of it."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import FORMATS, find_transcripts, read, read_session
from tests.cli.commands import write_transcript as rows
from tests.laws.builders import assistant, result, user
from tests.laws.shapes import answered_ids, called_ids, media_count

USER = user("Run the tests.")
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"path": "."}'}}
CHAT = [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, result("openai", "c1", "ok")]
BLOCKS = [
    USER,
    assistant([{"type": "tool_use", "id": "c1", "name": "run", "input": {"path": "."}}]),
    user([{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]),
]
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
STATE = {"status": "completed", "input": {"p": 1}, "output": "ok"}
PART = {"id": "p1", "type": "tool", "callID": "c1", "tool": "run", "state": STATE}
LOGS = {"opencode": [{"info": {"id": "m", "role": "assistant"}, "parts": [PART]}]}
LISTS = {"openai-chat": CHAT, "anthropic": BLOCKS, "openai-responses": ITEMS, "gemini": CONTENTS}


def written(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf8")
    return path


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        *((name, value, lines) for name, value in [*LISTS.items(), *LOGS.items()] for lines in (False, True)),
        *((name, {"messages": LISTS[name]}, False) for name in ("openai-chat", "anthropic")),
        ("openai-responses", {"model": "m", "input": ITEMS}, False),
        ("gemini", {"contents": CONTENTS}, False),
        ("openai-responses", {"session_id": "s", "items": ITEMS}, False),
        ("gemini", {"contents": CONTENTS, "usageMetadata": {}}, False),
    ],
)
def test_a_list_a_request_and_lines_are_read_in_their_own_format(tmp_path, name, value, lines):
    path = (rows if lines else written)(tmp_path / f"a.json{'l' * lines}", value)
    log = read_session(path)
    calls = [call for message in log.messages for call in called_ids(message)]
    assert log.format == ("messages" if lines and value in (CHAT, BLOCKS) else name)
    assert len(calls) == 1
    assert calls == [answer for message in log.messages for answer in answered_ids(message)]
    assert [word in json.dumps(log.messages) for word in ("run", "p", "ok")] == [True] * 3
    if lines:
        assert log.where(len(log.messages) - 1) == f"{path}:{len(value)}"


def test_each_line_of_a_fine_tuning_file_is_a_session(tmp_path):
    path = rows(tmp_path / "a.jsonl", [{"messages": CHAT, "tools": []}, {"messages": CHAT[:1]}])
    first, second = read(path)
    assert (first.format, first.session_id, first.messages) == ("openai-finetune", "a:1", tuple(CHAT))
    assert (second.session_id, second.where(0)) == ("a:2", f"{path}:2")
    assert first.skipped == {"key:tools": 1}
    with pytest.raises(TranscriptError, match=r"a\.jsonl:1: holds 2 sessions \(a:1, a:2\)"):
        read_session(path)
    for key in ("session_id", "parentId"):
        (log,) = read(rows(path, [{key: "s", "messages": CHAT}]))
        assert (log.format, log.messages) == ("openai-finetune", tuple(CHAT))


@pytest.mark.parametrize(
    "value",
    [
        {"system": "Be brief.", "messages": BLOCKS},
        {"instructions": "Be brief.", "input": "Hello"},
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": CONTENTS},
    ],
)
def test_the_system_prompt_beside_the_list_comes_first(tmp_path, value):
    log = read_session(written(tmp_path / "a.json", value), "")
    if "input" in value:
        assert log.messages[1] == user("Hello")
    assert log.messages[0] == {"role": "system", "content": "Be brief."}


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


def test_calls_of_gemini_without_ids_are_answered_by_name_in_their_order(tmp_path):
    def call(path: str) -> dict[str, Any]:
        return {"functionCall": {"name": "run", "args": {"path": path}}}

    def answer(text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": "run", "response": {"result": text, "code": 0}}}

    contents = [
        CONTENTS[0],
        {"role": "model", "parts": [{"thought": True, "text": "hm"}, {"text": "Both."}, call("a"), call("b")]},
        {"role": "user", "parts": [answer("first"), answer("second"), {"executableCode": {}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
    ]
    log = read_session(written(tmp_path / "a.json", contents))
    _, reply, first, second, image = log.messages
    ids = [call["id"] for call in reply["tool_calls"]]
    assert (reply["content"], len(set(ids))) == ("Both.", 2)
    answers = [(row["tool_call_id"], json.loads(row["content"])["result"]) for row in (first, second)]
    assert answers == [(ids[0], "first"), (ids[1], "second")]
    assert media_count(image["content"]) == 1
    assert log.skipped == {"part:executableCode": 1, "part:thought": 1}


def test_a_named_format_is_taken_and_an_unknown_one_refused(tmp_path):
    path = rows(tmp_path / "a.log", CHAT)
    assert [log.format for log in read(path, format="messages")] == ["messages"]
    with pytest.raises(TranscriptError, match=r"no format 'xml'; known are auto, .*anthropic, .*opencode"):
        list(read(path, format="xml"))
    with pytest.raises(TranscriptError, match=r"a\.log:1: a content without a list of parts"):
        list(read(path, format="gemini"))
    assert {"messages", "openai-chat", "anthropic", "claude-code", "codex", "opencode"} <= FORMATS.keys()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"role": "user",\n "content": ]', ":2: not JSON: Expecting value at column 13; the file must be one JSON"),
        ("{}", ":1: no known format of a transcript"),
        ("3", ":1: no known format of a transcript"),
    ],
)
def test_json_that_is_no_transcript_is_refused_with_its_line(tmp_path, text, problem):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf8")
    with pytest.raises(TranscriptError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}{problem}")


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_the_standard_input_is_a_transcript_too(monkeypatch, packed):
    data = "".join(json.dumps(message) + "\n" for message in CHAT).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(packed(data))))
    (path,) = find_transcripts([Path("-")])
    assert read_session(path).messages == tuple(CHAT)


def test_a_folder_names_what_looks_like_a_transcript_and_cannot_be_read(tmp_path):
    damaged = {
        "half.json": b'[{"role": "user", "content": "hi"}, {"role": "assi',
        "half.json.gz": gzip.compress(json.dumps(CHAT * 40).encode())[:-9],
        "damaged.db": b"SQLite format 3\0" + b"x" * 4000,
        "several.json": json.dumps([[{"messages": CHAT}], [{"messages": CHAT}]]).encode(),
    }
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    for name in ("settings.json", "tsconfig.json"):
        (tmp_path / name).write_text('{"role": "x", // a comment\n', encoding="utf8")
    written(tmp_path / "package.json", {"name": "chat", "type": "module"})
    written(tmp_path / "users.json", {"users": [{"type": "user"}], "session_id": "s"})
    written(tmp_path / "chat.meta.json", {"messages": CHAT})
    written(tmp_path / "long.json", {"tools": ["x" * 150_000], "messages": CHAT})
    rows(tmp_path / "good.jsonl", CHAT)
    found = find_transcripts([tmp_path])
    assert {path.name for path in found} == {*damaged, "good.jsonl", "long.json"}
    for path in found:
        if path.name in damaged:
            with pytest.raises(TranscriptError, match=rf"{path.name}:1: (not JSON|the gz|the database|no known)"):
                list(read(path))


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("write", [rows, written])
def test_no_message_is_dropped_in_silence_whatever_format_is_named(tmp_path, name, write):
    path = write(tmp_path / f"a.json{'l' if write is rows else ''}", CHAT)
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


def test_no_number_is_read_as_null(tmp_path):
    path = rows(tmp_path / "a.jsonl", [USER, {**CHAT[1], "score": float("nan")}, {**USER, "score": -float("inf")}])
    assert [message.get("score", 0) for message in read_session(path).messages] == [0, None, None]


def test_a_named_pipe_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "a.jsonl")
    code = f"from summarizing_context.transcripts import read; list(read({str(tmp_path / 'a.jsonl')!r}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "a.jsonl:1: is a pipe or a device" in ran.stderr
