"""The state of a view, its bytes, and joining user rows."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.tree import Cut
from summarizing_context.messages.reading import read_message
from summarizing_context.views.activation import ActivationPlan
from summarizing_context.views.header import HeaderPlan, Style
from summarizing_context.views.pins import Pins, Staying, choose_pins
from summarizing_context.views.tail_items import TailItem
from summarizing_context.views.view import (
    ActivationState,
    RepairCounts,
    activated,
    common_prefix,
    decode_state,
    encode_state,
    merged,
)
from tests.making import PRICE, Library, answer, assistant, compose_header, one_call, room, tail_of, timeline, user


def state() -> ActivationState:
    """A state with a header, pins and a lone surrogate."""
    log = timeline([user("task \ud800"), assistant("ok"), user("more"), assistant("ok")])
    size = room(5_000)
    header = compose_header(HeaderPlan((), 5, 3, 3, 0), Library(), size, Style(PRICE.count, "user", 100))
    pinned = choose_pins(log.candidates(3), Staying(), log, size, PRICE)
    pins = Pins(pinned.before, pinned.after, sum(pin.tokens for pin in (*pinned.before, *pinned.after)))
    proposal = ActivationPlan(Cut(5, 3, 3), size, header, pins, tail_of(log, size, start=3))
    return activated(ActivationState(serial=6), proposal, "high_water", "estimate")


def test_a_state_comes_back_from_its_bytes():
    assert decode_state(encode_state(state())) == state()


def test_a_state_counts_on_and_knows_its_cut_tree_and_head():
    made = state()
    assert (made.serial, made.cut) == (7, Cut(5, 3, 3))
    assert made.head == [*made.before, made.header, *made.after]
    assert sum(map(PRICE.message, made.head)) <= made.head_tokens
    assert [node for node, _ in made.tree_nodes][-1].stop == 5


@pytest.mark.parametrize("data", [b"", b"junk", b"[]", b'{"serial": "x"}', b'{"blocks": [[1]]}', b"\xff"])
def test_bytes_that_are_no_state_are_refused(data):
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        decode_state(data)


def test_neighbouring_user_rows_become_one():
    (joined, reply) = merged([user("a"), user([{"type": "text", "text": "b"}]), assistant("c")], ())
    assert joined == user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert reply == assistant("c")


def test_a_row_that_ended_an_earlier_view_is_not_joined():
    assert merged([user("a"), user("b")], {1}) == [user("a"), user("b")]
    assert merged([user("a"), user("b"), user("c")], {1}) == [
        *(user("a"), user([{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]))
    ]


def test_results_and_odd_contents_are_not_joined():
    rows = [user("a"), user("") | {"content": {"x": 1}}, user("b"), answer("a"), user("c") | {"tool_call_id": "z"}]
    assert merged(rows, ()) == rows


ROWS = st.lists(
    st.one_of(
        st.text(max_size=5).map(user),
        st.lists(st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5)), max_size=2).map(user),
        st.just(assistant("a")),
        st.just(one_call("a")),
        st.just(answer("a")),
    ),
    max_size=12,
)


@given(ROWS, st.sets(st.integers(0, 12)))
@settings(max_examples=150, deadline=None)
def test_joining_loses_no_text_and_changes_no_order(rows, ends):
    def texts(messages: list[dict]) -> list[str]:
        return [text for message in messages for text in read_message(message).texts if text]

    before = deepcopy(rows)
    assert texts(merged(rows, ends)) == texts(rows)
    assert rows == before


def test_the_common_prefix_ends_at_the_first_difference():
    assert common_prefix([user("a"), user("b")], [user("a"), user("c"), user("b")]) == 1
    assert common_prefix([], [user("a")]) == 0
    assert common_prefix([user("a")], [user("a"), user("b")]) == 1


def test_repairs_are_counted_by_kind():
    counts = RepairCounts()
    counts.note([TailItem(0, {}, 1, 5, ("shrunk",)), TailItem(1, {}, 1, 0, ("stand_in_result", "stand_in_result"))])
    assert (dict(counts.kinds), counts.left_out) == ({"shrunk": 1, "stand_in_result": 2}, 5)
