"""Values of another kind than a client writes: they are skipped, or the file is refused by its line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import TranscriptError
from summarizing_context.transcripts import find_transcripts, read

CLIENTS = Path(__file__).parents[1] / "data" / "clients"
LOGS = sorted(find_transcripts([CLIENTS]))
ODD = ("[]", '["x"]', "{}", '{"a": [1]}', "5", "null", '"x"', "true")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(each, dict | list):
            yield from places(each, (*path, key))


def replaced(text: str, path: tuple[Any, ...], odd: str) -> Any:
    whole = json.loads(text)
    held = whole
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = json.loads(odd)
    return whole


def refusal(path: Path) -> str:
    """What is said of a file that cannot be read; nothing where its messages are objects."""
    try:
        sessions = list(read(path))
    except TranscriptError as error:
        return str(error)
    assert all(isinstance(message, dict) for session in sessions for message in session.messages)
    return ""


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.parent.name + path.suffix)
def test_a_value_of_another_kind_anywhere_in_a_clients_log_is_no_fault_of_the_program(
    log: Path, tmp_path: Path
) -> None:
    lines = log.read_text(encoding="utf8")
    text = f"[{','.join(lines.splitlines())}]" if log.suffix == ".jsonl" else lines
    paths = list(places(json.loads(text)))
    picked = random.Random(7)
    for number in range(50):
        path = tmp_path / f"{number}{log.suffix}"
        found = replaced(text, picked.choice(paths), picked.choice(ODD))
        rows = found if log.suffix == ".jsonl" else [found]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")
        said = refusal(path)
        assert not said or said.startswith(f"{path}:")
