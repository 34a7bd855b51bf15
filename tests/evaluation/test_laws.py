"""The checks of views, on views that break a law and on views that do not."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.evaluation.laws import (
    LogIndex,
    ViewChecker,
    answered_ids,
    called_ids,
    canonical,
    common_messages,
)

Message = dict[str, Any]


def says(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def openai_call(*ids: str, role: str = "assistant") -> Message:
    calls = [{"id": id, "type": "function", "function": {"name": "run", "arguments": "{}"}} for id in ids]
    return {"role": role, "content": "", "tool_calls": calls}


def openai_result(id: str, text: str = "ok") -> Message:
    return {"role": "tool", "tool_call_id": id, "content": text}


def anthropic_call(*ids: str) -> Message:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in ids]}


def anthropic_result(*ids: str) -> Message:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in ids]}


def amplifier_call(*ids: str) -> Message:
    blocks = [{"type": "tool_call", "id": id, "name": "run", "input": {}} for id in ids]
    return {
        "role": "assistant",
        "content": blocks,
        "tool_calls": [{"id": id, "tool": "run", "arguments": {}} for id in ids],
    }


def checker_of(*log: Message) -> ViewChecker:
    index = LogIndex()
    for message in log:
        index.add(message)
    return ViewChecker(index)


def look(checker: ViewChecker, *view: Message, common: int = 0) -> ViewChecker:
    checker.look(view, [canonical(message) for message in view], common=common)
    return checker


def judged(log: list[Message], view: list[Message]) -> tuple[bool, bool]:
    checker = look(checker_of(*log), *view)
    return checker.tool_unsafe(), checker.out_of_order()


HELLO, BYE = says("user", "hello"), says("user", "bye")


@pytest.mark.parametrize(
    ("message", "calls", "answers"),
    [
        (openai_call("a", "b"), ["a", "b"], []),
        (openai_call("a", role="user"), ["a"], []),
        (openai_result("a"), [], ["a"]),
        (anthropic_call("a", "b"), ["a", "b"], []),
        (anthropic_result("a", "b"), [], ["a", "b"]),
        (amplifier_call("a", "b"), ["a", "b"], []),
        (says("user", "<late_result>text</late_result>"), [], []),
        ({"role": "user", "content": None}, [], []),
        ({"role": "assistant", "content": ["text", 1], "tool_calls": "none"}, [], []),
    ],
)
def test_calls_and_results_are_found_in_every_shape(message, calls, answers):
    assert (called_ids(message), answered_ids(message)) == (calls, answers)


@pytest.mark.parametrize(
    ("call", "results"),
    [
        (openai_call("a", "b"), [openai_result("b"), openai_result("a")]),
        (anthropic_call("a", "b"), [anthropic_result("a", "b")]),
        (amplifier_call("a"), [openai_result("a")]),
    ],
)
def test_a_call_with_all_its_results_is_safe(call, results):
    log = [HELLO, call, *results, BYE]
    assert judged(log, log) == (False, False)


@pytest.mark.parametrize(
    "view",
    [
        [HELLO, openai_call("a"), BYE],
        [HELLO, openai_call("a", "b"), openai_result("a"), BYE],
        [HELLO, openai_result("a")],
        [HELLO, openai_call("a"), openai_result("b")],
        [HELLO, openai_call("a"), openai_result("a"), openai_result("a")],
        [HELLO, openai_call("a"), openai_call("b"), openai_result("a"), openai_result("b")],
    ],
)
def test_a_call_parted_from_its_results_is_unsafe(view):
    assert judged(view, view)[0]


def test_calls_in_flight_at_the_end_are_safe():
    log = [HELLO, openai_call("a", "b"), openai_result("b")]
    assert judged(log, log) == (False, False)


def test_a_result_that_the_log_has_and_the_view_leaves_out_is_unsafe():
    log = [HELLO, openai_call("a"), openai_result("a")]
    assert judged(log, log[:2])[0]


def test_a_reused_id_in_flight_is_told_apart_from_its_earlier_use():
    log = [HELLO, openai_call("a"), openai_result("a"), BYE, {**openai_call("a"), "content": "again"}]
    assert judged(log, log) == (False, False)


def test_results_may_overtake_but_other_messages_may_not():
    first, second = openai_call("a"), openai_call("b")
    log = [HELLO, first, second, openai_result("a"), openai_result("b"), BYE]
    assert judged(log, [HELLO, first, openai_result("a"), second, openai_result("b"), BYE]) == (False, False)
    assert judged(log, [BYE, HELLO]) == (False, True)


def test_a_result_before_its_call_in_the_log_is_out_of_order():
    log = [openai_result("a"), HELLO, openai_call("a")]
    assert judged(log, [HELLO, openai_call("a"), openai_result("a")])[1]


def test_repeated_messages_and_rows_that_are_no_log_entries_do_not_disturb_the_order():
    log = [HELLO, BYE, HELLO, BYE]
    assert judged(log, [HELLO, says("user", "<history>"), HELLO, BYE]) == (False, False)
    assert judged(log, [BYE, BYE, HELLO]) == (False, True)


def test_a_missing_content_reads_like_an_empty_one():
    assert canonical({"role": "user"}) == canonical({"content": None, "role": "user"}) == canonical(says("user", ""))


def test_lone_surrogates_have_a_spelling():
    assert canonical(says("user", "\ud800")) == b'{"content":"\\ud800","role":"user"}'


def test_a_view_that_only_grew_is_read_from_where_it_grew():
    checker = checker_of(HELLO, openai_call("a"), openai_result("a"), BYE)
    look(checker, HELLO, openai_call("a"))
    look(checker, HELLO, openai_call("a"), openai_result("a"), BYE, common=2)
    assert (checker.tool_unsafe(), checker.out_of_order()) == (False, False)
    assert look(checker, BYE, HELLO).out_of_order()
    assert not look(checker, HELLO, BYE).out_of_order()


def test_views_have_in_common_what_they_begin_with():
    assert common_messages([b"a", b"b"], [b"a", b"b", b"c"]) == 2
    assert common_messages([b"a", b"b"], [b"a", b"c"]) == 1
    assert common_messages([b"a", b"b"], [b"a"]) == 1
    assert common_messages([], [b"a"]) == 0


def test_a_group_with_folded_calls_is_lawful_and_one_with_a_result_too_many_is_not():
    log = [HELLO, openai_call("a", "b", "c"), openai_result("a"), openai_result("b"), openai_result("c"), BYE]
    note = says("user", "[2 tool calls and their results left out]")
    assert judged(log, [HELLO, note, openai_call("c"), openai_result("c"), BYE]) == (False, False)
    assert judged(log, [HELLO, note, openai_call("c"), openai_result("b"), openai_result("c"), BYE])[0]


def hides(log: list[Message], view: list[Message]) -> bool:
    return look(checker_of(*log), *view).newest_missing()


@pytest.mark.parametrize(
    "newest", [BYE, openai_call("b"), anthropic_call("b"), openai_result("a"), anthropic_result("a")]
)
def test_a_view_without_the_newest_message_hides_it(newest: Message) -> None:
    log = [HELLO, openai_call("a"), newest] if answered_ids(newest) else [HELLO, newest]
    assert not hides(log, log)
    assert hides(log, log[:-1])


def test_a_stand_in_does_not_show_a_late_result_and_its_note_does():
    log = [HELLO, openai_call("a"), BYE, openai_result("a", "finished at last")]
    view = [HELLO, openai_call("a"), openai_result("a", "[no result of this call was recorded]"), BYE]
    assert hides(log, view)
    assert not hides(log, [*view, says("user", '<late_result call="a">\nfinished at last\n</late_result>')])


def test_a_shrunk_newest_message_is_there():
    log = [HELLO, says("assistant", "the report " + "goes on " * 400)]
    assert not hides(log, [HELLO, says("assistant", "the report goes […390 tokens left out…] goes on")])
    assert hides(log, [HELLO, says("user", "the report goes […390 tokens left out…] goes on")])


@pytest.mark.parametrize(
    ("older", "is_there"),
    [
        ("the report of this week " + "goes on " * 30, False),
        ("the report of this week […90 tokens left out…] goes on", False),
        ("the report of […390 tokens left out…] goes on", True),
        ("the report of last week " + "goes on " * 30, True),
    ],
)
def test_a_row_that_begins_with_the_same_words_does_not_show_the_newest_message(older: str, is_there: bool):
    log = [HELLO, says("assistant", "the report of last week " + "goes on " * 400)]
    assert hides(log, [HELLO, says("assistant", older)]) is not is_there


def test_no_line_of_split_calls_waits_behind_one_in_flight():
    first, second = openai_call("a"), openai_call("b")
    assert hides([HELLO, first, second], [HELLO, first])
    assert not hides([HELLO, first, second], [HELLO, first, openai_result("a"), second])
    assert hides([HELLO, first, second, openai_result("b")], [HELLO, first])
    assert hides(
        [HELLO, openai_call("a", "c"), openai_result("a"), second], [HELLO, openai_call("a", "c"), openai_result("a")]
    )


def test_an_older_equal_message_is_not_the_newest():
    checker = checker_of(HELLO, BYE)
    assert not look(checker, HELLO, BYE).newest_missing()
    checker._log.add(HELLO)
    assert look(checker, HELLO, BYE, common=2).newest_missing()
    assert not look(checker, HELLO, BYE, HELLO, common=2).newest_missing()
