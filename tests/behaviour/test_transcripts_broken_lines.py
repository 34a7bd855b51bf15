"""Lines and values that cannot be read, in a file whose others can: they are skipped and told, whatever the format."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import find_transcripts, read
from tests.laws.builders import assistant, user

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
CLIENT_LOGS = {
    path.relative_to(CLIENTS).parts[0]: path for path in find_transcripts([CLIENTS]) if ".jsonl" in path.name
}

USER, ASSISTANT = user("hi"), assistant("ho")
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
OWN_LINES: dict[str, list[dict[str, Any]]] = {
    "messages": [USER, ASSISTANT] * 3,
    "openai-finetune": [{"messages": [USER, ASSISTANT]}] * 6,
    "openai-responses": [ITEM] * 6,
    "gemini": [{"role": "user", "parts": [{"text": "hi"}]}] * 6,
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
def test_a_broken_line_anywhere_is_skipped_and_told_with_its_number(name: str, tmp_path: Path):
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
def test_a_client_log_that_lost_any_one_line_is_still_a_log_of_that_client(name: str, tmp_path: Path):
    lines = LOGS[name].splitlines(keepends=True)
    path = tmp_path / "log.jsonl"
    for at in range(len(lines)):
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
        said = f"{path}:"
        try:
            assert all(isinstance(message, dict) for session in read(path) for message in session.messages)
        except TranscriptError as error:
            said = str(error)
        assert said.startswith(f"{path}:")
