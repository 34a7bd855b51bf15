"""The raw tail, kept up as the log grows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.concurrency import Pace
from summarizing_context.log.message_log import MessageLog
from summarizing_context.views.tail import MessageReader, Tail, extend_tail
from tests.making import (
    LOGS,
    PRICE,
    SMALL,
    answer,
    assistant,
    entry,
    one_call,
    room,
    shown,
    tail_of,
    timeline,
    user,
)

LONG = "word " * 2_000


def test_a_tail_shows_the_log_and_costs_what_its_messages_cost():
    log = [user("a"), one_call("x"), answer("x"), assistant("b")]
    tail = tail_of(timeline(log), room(10_000))
    assert shown(tail.items) == log
    assert tail.tokens == sum(map(PRICE.message, log))
    assert [mark.stop for mark in tail.marks] == [0, 1, 3, 4]


def test_a_long_message_is_shrunk_to_its_cap_and_counted():
    tail = tail_of(timeline([user(LONG)]), room(2_000))
    (item,) = tail.items
    assert item.tokens <= room(2_000).message_cap(0)
    assert item.repairs == ("shrunk",)
    assert item.left_out == PRICE.message(user(LONG)) - item.tokens


def test_later_messages_of_a_group_get_less_and_a_new_group_starts_afresh():
    log = [one_call("a", "b"), answer("a", LONG), answer("b", LONG), user(LONG)]
    costs = [item.tokens for item in tail_of(timeline(log), room(4_000)).items]
    assert costs[1] > costs[2]
    assert costs[3] > costs[2]


def test_a_cut_tail_is_what_a_tail_from_there_would_be():
    log = timeline([user("a"), one_call("x"), answer("x", LONG), user("b"), one_call("y")])
    cut = tail_of(log, room(2_000)).cut_at(3)
    fresh = tail_of(log, room(2_000), start=3)
    assert (cut.items, cut.tokens, cut.start, cut.next) == (fresh.items, fresh.tokens, 3, fresh.next)


def test_cutting_leaves_the_tail_itself_alone():
    tail = tail_of(timeline([user("a"), user("b")]), room(2_000))
    tail.cut_at(1)
    assert shown(tail.items) == [user("a"), user("b")]


def test_a_tail_cannot_be_cut_inside_a_group():
    tail = tail_of(timeline([one_call("x"), answer("x"), user("b")]), room(2_000))
    with pytest.raises(AssertionError):
        tail.cut_at(1)


def test_an_ephemeral_message_is_shown_once_at_its_place():
    log = timeline([user("a"), user("now") | {"ephemeral": True}, user("b")])
    tail = tail_of(log, room(2_000))
    extend_tail(MessageReader(log, Pace()), tail)
    assert [message["content"] for message in shown(tail.items)] == ["a", "now", "b"]
    assert [message["content"] for message in shown(tail.cut_at(1).items)] == ["b"]


def test_a_null_content_is_shown_as_empty_text_at_its_price():
    tail = tail_of(timeline([one_call("x") | {"content": None}, answer("x")]), room(2_000))
    assert tail.items[0].repairs == ("content_none",)
    assert tail.tokens == sum(map(PRICE.message, shown(tail.items)))


@given(LOGS, st.integers(300, 3_000))
@settings(max_examples=100, deadline=None)
def test_a_tail_fed_step_by_step_only_grows_and_ends_as_one_fed_at_once(log, tokens):
    grown = MessageLog(SMALL, PRICE.image_tokens)
    tail = Tail(0, room(tokens), PRICE)
    before: list[dict] = []
    for message in log:
        grown.extend(entry(message))
        extend_tail(MessageReader(grown, Pace()), tail)
        assert shown(tail.items)[: len(before)] == before
        before = shown(tail.items)
    start = grown.leading_count
    assert before == shown(tail_of(grown, room(tokens), start=start).items)
    assert tail.tokens == sum(map(PRICE.message, before))


@given(LOGS, st.integers(300, 3_000), st.data())
@settings(max_examples=100, deadline=None)
def test_tokens_after_a_mark_are_those_of_the_cut_tail(log, tokens, data):
    tail = tail_of(timeline(log), room(tokens))
    mark = data.draw(st.sampled_from(tail.marks))
    rest = tail.cut_at(mark.stop)
    assert tail.after(mark.stop) == rest.tokens == sum(map(PRICE.message, shown(rest.items)))
    later = data.draw(st.sampled_from(rest.marks))
    assert rest.cut_at(later.stop).tokens == tail.after(later.stop)
