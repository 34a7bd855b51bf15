"""The judge of replays, on views that break a law and on views that do not."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.evaluation.laws import Judge, answered_ids, called_ids, canonical

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


HELLO, BYE = says("user", "hello"), says("user", "bye")


@pytest.mark.parametrize(
    ("message", "calls", "answers"),
    [
        (call("a", "b"), ["a", "b"], []),
        (call("a", role="user"), ["a"], []),
        (result("a"), [], ["a"]),
        (uses("a", "b"), ["a", "b"], []),
        (used("a", "b"), [], ["a", "b"]),
        (amplifier("a", "b"), ["a", "b"], []),
        (says("user", "<late_result>text</late_result>"), [], []),
        ({"role": "assistant", "content": ["text", 1], "tool_calls": "none"}, [], []),
    ],
)
def test_calls_and_results_are_found_in_every_shape(message: Message, calls: list[str], answers: list[str]):
    assert (called_ids(message), answered_ids(message)) == (calls, answers)


@pytest.mark.parametrize(
    "log",
    [
        [HELLO, call("a", "b"), result("b"), result("a"), BYE],
        [HELLO, uses("a", "b"), used("a", "b"), BYE],
        [HELLO, amplifier("a"), result("a"), BYE],
        [HELLO, call("a", "b"), result("b")],  # in flight
        [HELLO, call("a"), result("a"), BYE, {**call("a"), "content": "again"}],  # a reused id in flight
        [{"role": "user", "content": None}, says("user", "\ud800")],
    ],
)
def test_a_log_as_it_came_is_lawful(log: list[Message]):
    judge = judged(log, log)
    assert (judge.tool_unsafe, judge.out_of_order, judge.newest_missing) == (False, False, False)


@pytest.mark.parametrize(
    "view",
    [
        [HELLO, call("a"), BYE],
        [HELLO, call("a", "b"), result("a"), BYE],
        [HELLO, result("a")],
        [HELLO, call("a"), result("b")],
        [HELLO, call("a"), result("a"), result("a")],
        [HELLO, call("a"), call("b"), result("a"), result("b")],
    ],
)
def test_a_call_parted_from_its_results_is_unsafe(view: list[Message]):
    assert judged(view, view).tool_unsafe


def test_a_result_that_the_log_has_and_the_view_leaves_out_is_unsafe():
    log = [HELLO, call("a"), result("a")]
    assert judged(log, log[:2]).tool_unsafe


def test_results_may_overtake_but_other_messages_may_not():
    first, second = call("a"), call("b")
    log = [HELLO, first, second, result("a"), result("b"), BYE]
    lawful = judged(log, [HELLO, first, result("a"), second, result("b"), BYE])
    assert (lawful.tool_unsafe, lawful.out_of_order) == (False, False)
    assert judged(log, [BYE, HELLO]).out_of_order
    assert judged([result("a"), HELLO, call("a")], [HELLO, call("a"), result("a")]).out_of_order
    assert not judged([HELLO, BYE, HELLO, BYE], [HELLO, says("user", "<history>"), HELLO, BYE]).out_of_order
    assert judged([HELLO, BYE, HELLO, BYE], [BYE, BYE, HELLO]).out_of_order


def test_a_view_that_only_grew_is_read_from_where_it_grew():
    log = [HELLO, call("a"), result("a"), BYE]
    judge = judged(log, [HELLO, call("a")], log)
    assert (judge.common, judge.tool_unsafe, judge.out_of_order) == (2, False, False)
    judge.look([BYE, HELLO], [canonical(BYE), canonical(HELLO)])
    assert (judge.common, judge.out_of_order) == (0, True)
    judge.look([HELLO, BYE], [canonical(HELLO), canonical(BYE)])
    assert not judge.out_of_order


@pytest.mark.parametrize("newest", [BYE, call("b"), uses("b"), result("a"), used("a")])
def test_a_view_without_the_newest_message_hides_it(newest: Message):
    log = [HELLO, call("a"), newest] if answered_ids(newest) else [HELLO, newest]
    assert not judged(log, log).newest_missing
    assert judged(log, log[:-1]).newest_missing


@pytest.mark.parametrize(
    ("row", "is_there"),
    [
        (says("assistant", "the report of last week " + "goes on " * 30), True),
        (says("assistant", "the report of […390 tokens left out…] goes on"), True),
        (says("user", "the report of […390 tokens left out…] goes on"), False),
        (says("assistant", "the report of this week […90 tokens left out…] goes on"), False),
        (says("assistant", "the report of this week " + "goes on " * 30), False),
    ],
)
def test_a_shrunk_newest_message_is_there_and_one_that_begins_like_it_is_not(row: Message, is_there: bool):
    log = [HELLO, says("assistant", "the report of last week " + "goes on " * 400)]
    assert judged(log, [HELLO, row]).newest_missing is not is_there


def test_a_stand_in_does_not_show_a_late_result_and_its_note_does():
    log = [HELLO, call("a"), BYE, result("a", "finished at last")]
    view = [HELLO, call("a"), result("a", "[no result of this call was recorded]"), BYE]
    assert judged(log, view).newest_missing
    note = says("user", '<late_result call="a">\nfinished at last\n</late_result>')
    assert not judged(log, [*view, note]).newest_missing


def test_an_older_equal_message_is_not_the_newest():
    judge = judged([HELLO, BYE], [HELLO, BYE])
    judge.add(HELLO)
    keys = [canonical(HELLO), canonical(BYE)]
    judge.look([HELLO, BYE], keys)
    assert judge.newest_missing
    judge.look([HELLO, BYE, HELLO], [*keys, canonical(HELLO)])
    assert not judge.newest_missing
