"""Aligned blocks of four, and rolling a header up."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.tree import FAN_OUT, Node, roll_up


def leaves(count: int) -> list[Node]:
    return [Node(0, n) for n in range(count)]


def covered(nodes: list[Node]) -> list[int]:
    return [leaf for node in nodes for leaf in node.leaves]


def test_a_node_stands_for_its_aligned_block():
    assert Node(2, 1).leaves == range(16, 32)
    assert Node(0, 5).leaves == range(5, 6)


@given(st.integers(0, 4), st.integers(0, 500))
def test_children_and_parent_agree(rank, number):
    node = Node(rank + 1, number)
    assert [child.parent for child in node.children] == [node] * FAN_OUT
    assert covered(list(node.children)) == list(node.leaves)
    assert Node(0, number).children == ()


def test_under_the_target_nothing_is_rolled_up():
    assert roll_up(leaves(7), lambda node: 10, 70) == leaves(7)


def test_the_oldest_block_goes_first_and_no_more_than_needed():
    assert roll_up(leaves(9), lambda node: 10, 80) == [Node(1, 0), *leaves(9)[4:]]


def test_rolled_up_blocks_roll_up_again():
    assert roll_up(leaves(16), lambda node: 10, 1) == [Node(2, 0)]


def test_an_incomplete_block_stays():
    assert roll_up(leaves(3), lambda node: 10, 1) == leaves(3)
    assert roll_up(leaves(9)[1:], lambda node: 10, 1) == [*leaves(9)[1:4], Node(1, 1), Node(0, 8)]


@given(st.integers(0, 300), st.integers(0, 3_000), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_rolling_up_keeps_the_coverage_and_bounds_the_header(count, target, size):
    shown = roll_up(leaves(count), lambda node: size, target)
    assert covered(shown) == list(range(count))
    again = roll_up(shown, lambda node: size, target)
    total = size * len(shown)
    if total > target:  # fully rolled up: at most three of a rank
        assert max((sum(node.rank == rank for node in shown) for rank in range(6)), default=0) < FAN_OUT
    assert covered(again) == list(range(count))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(10, 400))
@settings(max_examples=100, deadline=None)
def test_a_header_that_grows_step_by_step_stays_contiguous(steps, target):
    shown: list[Node] = []
    count = 0
    for step in steps:
        shown = roll_up([*shown, *(Node(0, n) for n in range(count, count + step))], lambda node: 10, target)
        count += step
        assert covered(shown) == list(range(count))
        ranks = [node.rank for node in shown]
        assert ranks == sorted(ranks, reverse=True)
