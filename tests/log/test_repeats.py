"""A message that stands several times in a row, shown once with how often it was sent."""

from __future__ import annotations

import pytest

from summarizing_context.concurrency import Pace
from summarizing_context.log.repairs import count_note, is_repeat, may_repeat, with_count
from summarizing_context.views.budget import BARE, Room, Shares
from summarizing_context.views.tail import MessageReader, Tail, extend_tail
from tests.making import PRICE, answer, one_call, timeline, user

NOTE = "[this message was sent 3 times in a row]"


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (user("Go on"), f"Go on\n{NOTE}"),
        (user(""), NOTE),
        ({"role": "user", "content": None}, NOTE),
        (
            user([{"type": "text", "text": "Go on"}]),
            [{"type": "text", "text": "Go on"}, {"type": "text", "text": NOTE}],
        ),
    ],
)
def test_the_note_is_a_line_of_text_or_a_block(message, content):
    assert with_count(message, 3) == {**message, "content": content}


def test_the_note_is_a_part_among_parts():
    assert with_count({"role": "user", "parts": [{"text": "Go on"}]}, 3)["parts"] == [{"text": "Go on"}, {"text": NOTE}]


def test_what_is_never_sent_makes_no_difference_and_all_else_does():
    row = user("Go on")
    assert is_repeat({**row, "metadata": {"timestamp": "1"}, "_seq": 4}, {**row, "metadata": {"timestamp": "2"}})
    for other in (user("Go on "), {**row, "role": "assistant"}, {**row, "name": "ann"}, user(["Go on"])):
        assert not is_repeat(row, other)
    assert not is_repeat(user([{"text": 1}]), user([{"text": True}]))


@pytest.mark.parametrize(
    "message",
    [
        *(one_call("a"), answer("a")),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"role": "assistant", "content": "yes", "reasoning_content": "hm"},
        {"role": "assistant", "content": "yes", "metadata": {"openai:response_id": "r"}},
        {"role": "assistant", "content": "yes", "metadata": {"openai:tool_search_items": ["x"]}},
        {"role": "user", "content": {"odd": 1}},
    ],
)
def test_what_is_bound_to_its_place_is_no_repeat(message):
    assert not may_repeat(message)


def test_a_log_knows_its_runs():
    log = timeline(
        [*[user("a")] * 3, user("b"), user("a"), *[user("c")] * 2, one_call("x"), one_call("x"), answer("x")]
    )
    assert [tuple(run) for run in log.runs(0, 20)] == [(0, 3), (5, 7)]
    assert [tuple(run) for run in log.runs(1, 6)] == [(1, 3)]
    assert tuple(log.repeats(0, 2)) == (0, 2)
    assert tuple(log.repeats(3, 20)) == (3, 4)


def test_an_ephemeral_message_between_them_parts_a_run():
    log = timeline([user("a"), user("a"), {**user("note"), "ephemeral": True}, user("a"), user("a")])
    assert [tuple(run) for run in log.runs(0, 20)] == [(0, 2), (2, 4)]


def test_a_replaced_log_forgets_the_runs_of_the_old_one():
    log = timeline([*[user("a")] * 3])
    log.replace(timeline([user("a"), user("b"), user("b")]).entries)
    assert [tuple(run) for run in log.runs(0, 20)] == [(1, 3)]


def fed(log, room, *, repeats_stop, start=0):
    tail = Tail(start, room, PRICE, repeats_stop=repeats_stop)
    extend_tail(MessageReader(log, Pace()), tail)
    return tail


def test_what_comes_later_is_shown_as_it_comes():
    log = timeline([*[user("a")] * 5])
    contents = [item.message["content"] for item in fed(log, Room(1_000, Shares()), repeats_stop=3).items]
    assert contents == [f"a\n{NOTE}", "a", "a"]


def test_a_tail_that_is_cut_within_a_run_is_made_anew():
    log = timeline([*[user("a")] * 4, user("b")])
    tail = fed(log, Room(1_000, Shares()), repeats_stop=5)
    assert tail.joins(0, log.runs(0, 5))
    assert tail.joins(4, log.runs(4, 5))
    assert not tail.joins(1, log.runs(1, 5))
    assert [item.message["content"] for item in tail.cut_at(4).items] == ["b"]
    assert fed(log, Room(1_000, Shares()), repeats_stop=5, start=1).items[0].message["content"] == f"a\n{NOTE}"


def test_a_tail_costs_what_it_shows():
    log = timeline([*[user("word " * 50)] * 4, user("b")])
    tail = fed(log, Room(1_000, Shares()), repeats_stop=5)
    assert tail.tokens == sum(PRICE.message(item.message) for item in tail.items)
    assert len(tail.items) == 2
    assert [mark.items for mark in tail.marks] == [0, 1, 1, 1, 1, 2]


def test_a_long_message_is_shrunk_and_its_number_stays():
    log = timeline([*[user("word " * 5_000)] * 4])
    (item,) = fed(log, Room(1_000, Shares()), repeats_stop=4).items
    assert item.repairs == ("repeats_joined", "shrunk")
    assert item.tokens == PRICE.message(item.message) <= Room(1_000, Shares()).message_cap(0)
    assert item.left_out > 4_000
    assert item.message["content"].endswith(f"\n{count_note(4)}")


def test_where_a_number_has_no_room_each_is_shown_by_itself():
    log = timeline([*[user("a")] * 4])
    tail = fed(log, Room(40, Shares(), squeeze=BARE), repeats_stop=4)
    assert (len(tail.items), tail.repeats_stop) == (4, 0)
    assert tail.joins(0, log.runs(0, 4))
