"""What may not be parted."""

from __future__ import annotations

from hypothesis import given, settings

from summarizing_context.log.segments import MAX_HELD, GroupCutter, OpenCalls
from summarizing_context.messages.reading import read_message
from tests.making import LOGS, answer, assistant, one_call, user


def cut(*messages: dict) -> tuple[list[tuple[int, int]], GroupCutter]:
    """Closed groups, and the cutter after them."""
    cutter = GroupCutter()
    closed: list[tuple[int, int]] = []
    for message in messages:
        reading = read_message(message)
        closed += cutter.add(reading.calls, reading.answers, turn=reading.turn).closed
    return closed, cutter


def spans(*messages: dict) -> list[tuple[int, int]]:
    return cut(*messages)[0]


def test_a_call_stays_with_all_its_results():
    log = [user("hi"), one_call("a", "b"), answer("b"), answer("a"), assistant("done")]
    assert spans(*log) == [(0, 1), (1, 4), (4, 5)]


def test_an_unanswered_call_keeps_its_group_open():
    closed, cutter = cut(user("hi"), one_call("a", "b"), answer("a"))
    assert (closed, cutter.is_open, cutter.start) == ([(0, 1)], True, 1)


def test_any_other_message_abandons_the_open_calls():
    assert spans(one_call("a"), user("stop"), answer("a")) == [(0, 1), (1, 2), (2, 3)]


def test_split_parallel_calls_stay_together():
    assert spans(one_call("a"), one_call("b"), answer("a"), answer("b")) == [(0, 4)]


def test_a_result_without_a_call_is_a_group_of_its_own():
    assert spans(answer("a"), user("x")) == [(0, 1), (1, 2)]


def test_reused_ids_belong_to_the_nearest_call():
    assert spans(one_call("a"), answer("a"), one_call("a"), answer("a")) == [(0, 2), (2, 4)]


def test_a_result_answers_the_latest_message_first_and_in_it_the_first_call():
    book = OpenCalls()
    book.make(["a", "b", "a"])
    book.make(["a", "a"])
    found = [book.answer("a") for _ in range(5)]
    assert found == [(1, 3), (1, 4), (0, 0), (0, 2), None]
    assert (book.unanswered(), book.complete(1), book.complete(0), book.settled) == ({1}, True, False, False)


def test_ordinals_tie_results_to_calls():
    cutter = GroupCutter()
    assert cutter.add(["a", "b"], []).first_call == 0
    assert cutter.add([], ["b"]).answered == (1,)
    assert cutter.add([], ["x", "a"]).answered == (-1, 0)
    cutter.add(["a"], [])
    assert cutter.add(["b", "c"], []).first_call == 1


def test_a_further_call_gives_up_on_too_many_held_back():
    lines = [one_call(f"b{n}") for n in range(MAX_HELD)]
    assert spans(one_call("a"), *lines) == []
    assert spans(one_call("a"), *lines, one_call("c")) == [(0, 1 + MAX_HELD)]


def test_a_call_after_any_result_gives_up_the_calls_still_open():
    assert spans(one_call("a", "b"), answer("a"), one_call("c"), answer("c")) == [(0, 2), (2, 4)]
    assert spans(one_call("a"), one_call("b"), answer("a"), one_call("c")) == [(0, 3)]


def test_a_result_gives_up_the_lines_before_its_call():
    assert spans(one_call("a"), one_call("b"), answer("b"), answer("a")) == [(0, 3), (3, 4)]
    assert spans(one_call("a"), one_call("b"), one_call("c"), answer("b"), answer("c")) == [(0, 5)]


def test_a_result_that_nobody_waits_for_gives_up_the_open_calls():
    assert spans(one_call("a", "b"), answer("a"), answer("a"), answer("b")) == [(0, 2), (2, 3), (3, 4)]


def test_words_of_a_human_beside_a_result_give_up_the_open_calls_and_a_reminder_does_not():
    def told(text: str) -> dict:
        return user([*answer("a", dialect="anthropic")["content"], {"type": "text", "text": text}])

    assert spans(one_call("a", "b"), told("stop"), answer("b")) == [(0, 2), (2, 3)]
    assert spans(one_call("a", "b"), told("<system-reminder>x</system-reminder>"), answer("b")) == [(0, 3)]


def test_a_message_that_answers_and_calls_gives_up_what_else_is_open():
    mixed = assistant([*answer("a", dialect="anthropic")["content"], *one_call("c", dialect="anthropic")["content"]])
    assert spans(one_call("a", "b"), mixed, answer("b"), answer("c")) == [(0, 2), (2, 3), (3, 4)]
    assert spans(one_call("a", "b"), mixed, answer("c")) == [(0, 3)]


def test_positions_count_from_where_the_cutter_starts():
    cutter = GroupCutter(10)
    assert cutter.add([], []).closed == ((10, 11),)


@given(LOGS)
@settings(max_examples=200, deadline=None)
def test_closed_groups_join_without_gap_and_those_of_a_prefix_are_a_prefix(log):
    closed, cutter = cut(*log)
    starts = [start for start, _ in closed]
    stops = [stop for _, stop in closed]
    assert [0, *stops] == [*starts, cutter.start if cutter.is_open else len(log)]
    for length in range(len(log)):
        before, _ = cut(*log[:length])
        assert closed[: len(before)] == before
