"""Files of providers' shapes: what is recognized as which format, what becomes of it, and of what cannot be read."""

import gzip
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import FORMATS, find_transcripts, read, read_session
from tests.cli.commands import write_transcript as rows
from tests.laws.builders import assistant, call, result, user
from tests.laws.shapes import answered_ids, called_ids, media_count

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
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
    path = (rows if lines else written)(tmp_path / f"a.json{'l' * lines}", value)
    log = read_session(path)
    calls = [call for message in log.messages for call in called_ids(message)]
    assert log.format == ("messages" if lines and value in (CHAT, BLOCKS) else name)
    assert len(calls) == 1
    assert calls == [answer for message in log.messages for answer in answered_ids(message)]
    assert all(word in json.dumps(log.messages) for word in ("run", "p", "ok"))
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


def test_the_system_prompt_beside_the_list_comes_first_and_a_named_format_is_taken(tmp_path):
    for value, first in (
        ({"system": "Be brief.", "messages": BLOCKS}, USER),
        ({"instructions": "Be brief.", "input": "Hello"}, user("Hello")),
        ({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": CONTENTS}, USER),
    ):
        log = read_session(written(tmp_path / "a.json", value), "")
        assert list(log.messages[:2]) == [{"role": "system", "content": "Be brief."}, first]
    path = rows(tmp_path / "a.log", CHAT)
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
    ],
)
def test_what_is_no_transcript_is_refused_with_its_line(tmp_path, name, data, problem):
    path = written(tmp_path / name, data)
    with pytest.raises(TranscriptError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}{problem}")


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_the_standard_input_is_a_transcript_and_a_named_pipe_is_refused_before_it_is_opened(
    monkeypatch, tmp_path, packed
):
    data = "".join(json.dumps(message) + "\n" for message in CHAT).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(packed(data))))
    (path,) = find_transcripts([Path("-")])
    assert read_session(path).messages == tuple(CHAT)
    os.mkfifo(tmp_path / "a.jsonl")
    code = f"from summarizing_context.transcripts import read; list(read({str(tmp_path / 'a.jsonl')!r}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert "a.jsonl:1: is a pipe or a device" in ran.stderr


def test_a_folder_names_what_looks_like_a_transcript_and_cannot_be_read(tmp_path):
    damaged = {
        "half.json": b'[{"role": "user", "content": "hi"}, {"role": "assi',
        "half.json.GZ": gzip.compress(json.dumps(CHAT * 40).encode())[:-9],
        "damaged.db": b"SQLite format 3\0" + b"x" * 4000,
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
