"""What providers billed against what is counted (`evals.usage`)."""

from __future__ import annotations

from typing import Any

from evals.usage import steps_of


def says(role: str, text: str, reported: int | None = None, id: str | None = None, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = (
        {} if reported is None else {"usage": {"input_tokens": 1, "cache_read_input_tokens": reported - 1}}
    )
    return {"role": role, "content": text, "_meta": {**told, "message_id": id}, **more}


def test_a_step_is_what_stands_between_two_requests():
    rows = [
        says("user", "a" * 10),
        says("assistant", "b" * 20, 1_000, "m1"),
        says("assistant", "c" * 30, 1_000, "m1"),  # another part of the same reply
        says("user", "d" * 40),
        says("assistant", "e", 1_700, "m2"),
    ]
    assert list(steps_of(rows, len)) == [(3 * 4 + 20 + 30 + 40, 700)]


def test_steps_that_cannot_be_compared_are_left_out():
    short = [says("assistant", "b", 1_000, "m1"), says("assistant", "c", 1_100, "m2")]
    thinking = [says("assistant", "b", 1_000, "m1", reasoning_content="hm"), says("assistant", "c", 2_000, "m2")]
    compacted = [says("assistant", "b", 9_000, "m1"), says("user", "so far"), says("assistant", "c", 9_900, "m2")]
    compacted[1]["_meta"]["isCompactSummary"] = True
    assert [list(steps_of(rows, len)) for rows in (short, thinking, compacted)] == [[], [], []]
