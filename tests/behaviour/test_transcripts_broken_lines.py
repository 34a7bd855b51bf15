"""Lines that cannot be read, in a file whose other lines can: they are skipped and told, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import find_transcripts, read

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
CLIENT_LOGS = {
    path.relative_to(CLIENTS).parts[0]: path for path in find_transcripts([CLIENTS]) if ".jsonl" in path.name
}

USER, ASSISTANT = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
OWN_LINES: dict[str, list[dict[str, Any]]] = {
    "messages": [USER, ASSISTANT] * 3,
    "openai-finetune": [{"messages": [USER, ASSISTANT]}] * 6,
    "openai-responses": [ITEM] * 6,
    "gemini": [{"role": "user", "parts": [{"text": "hi"}]}] * 6,
    "langchain": [{"type": "human", "content": "hi"}, {"type": "ai", "content": "ho", "tool_calls": []}] * 3,
}

BROKEN = {
    "half a line": b'{"role": "user", "content": "ha',
    "half a line and another": b'{"role": "us{"role": "user"}',
    "zeros": b"\0" * 512,
    "no UTF-8": b'{"role": "\xff\xfe"}',
    "no object": b"[1, 2]",
}


def logs(folder: Path) -> dict[str, bytes]:
    """A log of each format that is written line by line."""
    own = {name: "".join(json.dumps(row) + "\n" for row in rows).encode() for name, rows in OWN_LINES.items()}
    return {**{name: path.read_bytes() for name, path in CLIENT_LOGS.items()}, **own}


LOGS = logs(CLIENTS)


@pytest.mark.parametrize("name", LOGS)
def test_a_broken_line_anywhere_is_skipped_and_told_with_its_number(name: str, tmp_path: Path) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    whole = tmp_path / "log.jsonl"
    whole.write_bytes(LOGS[name])
    spoken = [log.messages for log in read(whole)]
    for why, bad in BROKEN.items():
        for at in (0, len(lines) // 2, len(lines)):
            end = b"" if at == len(lines) else b"\n"
            whole.write_bytes(b"".join([*lines[:at], bad + end, *lines[at:]]))
            found = list(read(whole))
            assert [log.format for log in found] == [name] * len(found), (why, at)
            assert [log.messages for log in found] == spoken, (why, at)
            assert [log.skipped.get("unreadable line", 0) for log in found] == [1, *[0] * (len(found) - 1)]
            (told,) = found[0].unreadable
            assert told.startswith(f"{whole}:{at + 1}: ")


@pytest.mark.parametrize("name", CLIENT_LOGS)
def test_a_client_log_that_lost_any_one_line_is_still_a_log_of_that_client(name: str, tmp_path: Path) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    path = tmp_path / "log.jsonl"
    for at in range(len(lines)):
        path.write_bytes(b"".join([*lines[:at], lines[at][: len(lines[at]) // 2] + b"\n", *lines[at + 1 :]]))
        found = list(read(path))
        assert {log.format for log in found} == {name}
        assert found[0].unreadable[0].startswith(f"{path}:{at + 1}: not JSON")
        assert any(log.messages for log in found)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            b'{"role": "user"}\nab\n\ncd\n',
            ":2: not JSON: Expecting value at column 1; each line must be one JSON object (2 ",
        ),
        (b'{"role": "us\n', ":1: not JSON: "),
        (b"\0" * 512, ":1: not JSON: "),
        (b'{\n"role": "user",\n"content": "hi"\n}\n', ":1: not JSON: "),
    ],
)
def test_a_file_of_which_most_lines_are_broken_is_refused_by_its_first(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    with pytest.raises(TranscriptError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}{said}")
