"""The judge of replays, on views that break a law and on views that do not."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.evaluation.laws import Judge, canonical

Message = dict[str, Any]


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def call(*ids: str, role: str = "assistant") -> Message:
    calls = [{"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}} for id in ids]
    return {"role": role, "content": "", "tool_calls": calls}


def result(id: str, text: str = "ok") -> Message:
    return {"role": "tool", "tool_call_id": id, "content": text}


def uses(*ids: str) -> Message:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in ids]}


def used(*ids: str) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids]}


def amplifier(*ids: str) -> Message:
    blocks = [{"type": "tool_call", "id": id, "name": "run", "input": {}} for id in ids]
    return {"role": "assistant", "content": blocks, "tool_calls": [{"id": id, "tool": "run"} for id in ids]}


def judged(log: list[Message], *views: list[Message]) -> Judge:
    judge = Judge()
    for message in log:
        judge.add(message)
    for view in views:
        judge.look(view, [canonical(message) for message in view])
    return judge


def broken(judge: Judge) -> set[str]:
    """The laws that the last view breaks."""
    laws = {"unsafe": judge.tool_unsafe, "order": judge.out_of_order, "hidden": judge.newest_missing}
    return {law for law, is_broken in laws.items() if is_broken}


HELLO, BYE, A, B = says("user", "hello"), says("user", "bye"), call("a"), call("b")
REPORT = says("assistant", "the report of last week " + "goes on " * 400)
LATE = [HELLO, A, BYE, result("a", "finished at last")]
WAITING = [HELLO, A, result("a", "[no result of this call was recorded]"), BYE]
NOTE = says("user", '<late_result call="a">\nfinished at last\n</late_result>')


@pytest.mark.parametrize(
    "log",
    [
        [HELLO, call("a", "b"), result("b"), result("a"), BYE],
        [HELLO, uses("a", "b"), used("a", "b"), BYE],
        [HELLO, amplifier("a"), result("a"), BYE],
        [HELLO, call("a", "b"), result("b")],  # in flight
        [HELLO, A, result("a"), BYE, {**A, "content": "again"}],  # a reused id in flight
        [{"role": "user", "content": None}, says("user", "\ud800")],
        [HELLO, says("user", "<late_result>text</late_result>")],
        [{"role": "assistant", "content": ["text", 1], "tool_calls": "none"}],
    ],
)
def test_a_log_as_it_came_is_lawful(log: list[Message]):
    assert broken(judged(log, log)) == set()


@pytest.mark.parametrize(
    ("log", "view", "law"),
    [
        *(
            (view, view, "unsafe")  # a call parted from its results
            for view in (
                [HELLO, A, BYE],
                [HELLO, call("a", "b"), result("a"), BYE],
                [HELLO, result("a")],
                [HELLO, A, result("b")],
                [HELLO, A, result("a"), result("a")],
                [HELLO, A, B, result("a"), result("b")],
                [HELLO, call("a", role="user"), BYE],
            )
        ),
        ([HELLO, A, result("a")], [HELLO, A], "unsafe"),
        ([HELLO, A, B, result("a"), result("b"), BYE], [HELLO, A, result("a"), B, result("b"), BYE], ""),
        ([HELLO, BYE], [BYE, HELLO], "order"),
        ([result("a"), HELLO, A], [HELLO, A, result("a")], "order"),
        ([HELLO, BYE, HELLO, BYE], [HELLO, says("user", "<history>"), HELLO, BYE], ""),
        ([HELLO, BYE, HELLO, BYE], [BYE, BYE, HELLO], "order"),
        *(([HELLO, newest], [HELLO], "hidden") for newest in (BYE, B, uses("b"))),
        *(([HELLO, A, newest], [HELLO, A], "hidden") for newest in (result("a"), used("a"))),
        (LATE, WAITING, "hidden"),
        (LATE, [*WAITING, NOTE], ""),
        ([HELLO, REPORT], [HELLO, says("assistant", "the report of last week " + "goes on " * 30)], ""),
        ([HELLO, REPORT], [HELLO, says("assistant", "the report of […390 tokens left out…] goes on")], ""),
        ([HELLO, REPORT], [HELLO, says("user", "the report of […390 tokens left out…] goes on")], "hidden"),
        ([HELLO, REPORT], [HELLO, says("assistant", "the report of this week […90 tokens left out…] on")], "hidden"),
        ([HELLO, REPORT], [HELLO, says("assistant", "the report of this week " + "goes on " * 30)], "hidden"),
    ],
)
def test_a_view_that_breaks_a_law_is_seen_and_no_other(log: list[Message], view: list[Message], law: str):
    assert law in broken(judged(log, view)) if law else not broken(judged(log, view))


def test_it_counts_what_a_view_begins_with_as_the_view_before():
    log = [HELLO, A, result("a"), BYE]
    judge = judged(log, [HELLO, A], log)
    assert (judge.common, broken(judge)) == (2, set())
    for view, laws in (([BYE, HELLO], {"order"}), ([HELLO, BYE], set())):
        judge.look(view, [canonical(message) for message in view])
        assert broken(judge) & {"order"} == laws
    assert judge.common == 0


def test_an_older_equal_message_is_not_the_newest():
    judge = judged([HELLO, BYE], [HELLO, BYE])
    judge.add(HELLO)
    for view, laws in (([HELLO, BYE], {"hidden"}), ([HELLO, BYE, HELLO], set())):
        judge.look(view, [canonical(message) for message in view])
        assert broken(judge) == laws
