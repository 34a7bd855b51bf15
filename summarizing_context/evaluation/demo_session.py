"""The bundled demo session: its messages and what is asked about it."""

from __future__ import annotations

import gzip
import json
import tomllib
from importlib.resources import files
from typing import Any

_FOLDER = files("summarizing_context.evaluation")
_ASKED_ABOUT = (0, 1, 2, 4, 7, 24)  # turns that say what the questions ask


def demo_session(turns: int | None = None) -> list[dict[str, Any]]:
    """The session's messages in OpenAI chat shape: 44 turns, some 500 messages and 170k tokens.

    A shorter session keeps the turns that the questions ask about, and the earliest of the others.
    """
    lines = gzip.decompress((_FOLDER / "demo_session.jsonl.gz").read_bytes()).splitlines()
    messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    others = [number for number in range(len(starts)) if number not in _ASKED_ABOUT]
    wanted = len(starts) if turns is None else turns
    kept = sorted([*_ASKED_ABOUT, *others[: max(0, wanted - len(_ASKED_ABOUT))]])
    ends = [*starts[1:], len(messages)]
    return [*messages[: starts[0]], *(one for number in kept for one in messages[starts[number] : ends[number]])]


def asked_questions() -> list[dict[str, Any]]:
    """The questions, as `demo_questions.toml` has them."""
    questions: list[dict[str, Any]] = tomllib.loads((_FOLDER / "demo_questions.toml").read_text("utf8"))["question"]
    return questions
