"""Calls that are left out of a view together with their results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.log.entries import PlacedMessage
from summarizing_context.log.repairs import show_group
from summarizing_context.messages.reading import read_message
from summarizing_context.views.folds import Calls, calls_of, fold_note, pair, without_calls
from tests.laws.builders import DIALECTS, results
from tests.laws.checkers import tool_safe_problems
from tests.making import LOGS, Message, answer, one_call, reads, timeline, user


def rest(log: list[Message], *folded: int) -> list[Message]:
    return [read.message for read in without_calls(pair(reads(*log)), folded)]


def calls_of_group(group: list[PlacedMessage]) -> Calls:
    return calls_of(pair(group))


def test_calls_are_told_in_the_order_of_their_results():
    log = [one_call("a", "b", "c"), answer("c"), answer("a")]
    calls = calls_of_group(reads(*log))
    assert (calls.answered, calls.made) == (((2,), (0,)), 3)
    assert (calls.oldest(1), calls.oldest(2), calls.all) == ((2,), (0, 2), (0, 1, 2))


def test_equal_ids_of_one_message_are_folded_together():
    calls = calls_of_group(reads(one_call("a", "a", "b"), answer("a"), answer("b")))
    assert calls.answered == ((0, 1), (2,))


def test_calls_behind_one_that_waits_are_not_folded_for_they_are_not_shown():
    log = [one_call("a", "b"), one_call("c", "d"), answer("b")]
    assert calls_of_group(reads(*log)).answered == ((1,),)
    assert calls_of_group(reads(*log, answer("a"), answer("c"))).answered == ((1,), (0,), (2,))
    assert calls_of_group(reads(*log, answer("c"))).answered == ((1,), (2,))  # a is given up, and shown


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_folded_call_goes_with_its_result_and_the_words_stay(dialect: str):
    log = [one_call("a", "b", text="both", dialect=dialect), answer("b", dialect=dialect), answer("a", dialect=dialect)]
    assert rest(log, 1) == [one_call("a", text="both", dialect=dialect), answer("a", dialect=dialect)]
    assert rest(log, 0, 1) == []
    assert rest(log) == log


def test_one_row_with_several_results_loses_only_those_of_folded_calls():
    log = [one_call("a", "b", dialect="anthropic"), results(("a", "one"), ("b", "two"))]
    assert rest(log, 0) == [one_call("b", dialect="anthropic"), results(("b", "two"))]


def test_words_beside_folded_results_stay():
    said = {"type": "text", "text": "and now this"}
    log = [one_call("a", dialect="anthropic"), user([*results(("a", "one"))["content"], said])]
    assert rest(log, 0) == [user([said])]


def test_a_result_that_comes_later_for_a_folded_call_is_folded_too():
    log = [one_call("a", "b"), answer("a")]
    assert rest(log, 0, 1) == rest([*log, answer("b")], 0, 1) == []


def test_the_note_counts_the_folded_calls():
    assert fold_note(3, 1).message == user("[1 tool call and its result left out]")
    note = fold_note(3, 12)
    assert (note.seq, note.message) == (3, user("[12 tool calls and their results left out]"))
    assert note.repairs == ("calls_folded",) * 12


@given(LOGS, st.data())
def test_what_is_left_of_a_message_is_read_as_if_it_stood_there(log: list[Message], data: st.DataObject):
    known = timeline(log)
    group = [known.read(index)[0] for index in range(*known.newest_group)]
    calls = calls_of_group(group)
    folded = data.draw(st.sampled_from([*map(calls.oldest, range(len(calls.answered) + 1)), calls.but_newest]))
    for read in without_calls(pair(group), folded):
        assert read.reading == read_message(read.message)


@pytest.mark.parametrize(
    "beside", [{}, {"odd": "a field"}, {"reasoning_content": "thought"}, {"parts": [{"text": "x"}]}]
)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_stands_beside_folded_calls_is_read_with_what_is_left(dialect: str, beside: Message):
    made = {**one_call("a", "b", "c", text="all", dialect=dialect), **beside}
    for folded in ([0], [1], [0, 2], [0, 1, 2]):
        for read in without_calls(pair(reads(made, answer("a", dialect=dialect))), folded):
            assert read.reading == read_message(read.message)


@given(LOGS, st.data())
def test_a_group_with_folded_calls_is_tool_safe(log: list[Message], data: st.DataObject):
    known = timeline(log)
    start, stop = known.newest_group
    group = [known.read(index)[0] for index in range(start, stop)]
    calls = calls_of_group(group)
    folded = calls.oldest(data.draw(st.integers(0, len(calls.answered))))
    pieces = show_group(without_calls(pair(group), folded), closed=known.closed_groups_stop == stop)
    assert tool_safe_problems([piece.message for piece in pieces]) == []
    assert len(folded) + sum(calls_of_group([read]).made for read in without_calls(pair(group), folded)) == calls.made
