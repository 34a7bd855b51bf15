"""Leaves, blocks of sixteen, wide merges, and when the oldest part of a header is merged."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.tree import HeaderNode, MergeRule, Node, merge_oldest


def leaves(start: int, stop: int) -> list[Node]:
    return [Node.leaf(n) for n in range(start, stop)]


def merged(
    shown: list[Node],
    target: float,
    *,
    most: float = 0.0,
    step: int = 4,
    missing: Collection[Node] = (),
) -> list[Node]:
    """With leaves of 10 tokens, and merges of 20."""
    rule = MergeRule(target, max(most, target), step)
    return merge_oldest(shown, lambda node: 10 if node.width == 1 else 20, lambda node: node not in missing, rule)


def test_a_leaf_has_no_children_and_a_block_sixteen():
    assert (Node.leaf(5), Node.leaf(5).rank, Node.leaf(5).children) == (Node(5, 6), 0, ())
    assert (Node(16, 32).rank, list(Node(16, 32).children)) == (1, leaves(16, 32))
    assert Node(0, 256).children == tuple(Node(n, n + 16) for n in range(0, 256, 16))
    assert Node(0, 256).rank == 2


def test_a_wide_merge_is_made_of_the_largest_blocks_oldest_first():
    assert Node(0, 40).children == (Node(0, 16), Node(16, 32), *leaves(32, 40))
    assert Node(0, 300).children == (Node(0, 256), Node(256, 272), Node(272, 288), *leaves(288, 300))
    assert [Node(0, n).rank for n in (4, 15, 16, 17, 31, 255, 256, 257)] == [1, 1, 1, 2, 2, 2, 2, 3]


@given(st.integers(0, 5_000), st.integers(1, 5_000))
@settings(max_examples=60, deadline=None)
def test_children_cover_a_node_in_order_and_are_fewer_than_sixteen_of_a_rank(start, width):
    for node in (Node(0, width), Node(start, start + width)):
        if node.width > 1:
            children = node.children
            assert [child.start for child in children] == [node.start, *(child.stop for child in children[:-1])]
            assert children[-1].stop == node.stop
            assert max(child.rank for child in children) == node.rank - 1
    assert 16 ** (Node(0, width).rank - 1) <= width


def test_a_node_of_the_first_release_is_known_by_its_number():
    old = HeaderNode(1, 3, 50, 90, "full", "model", 2, "text")
    assert old.node == Node(12, 16)
    assert old._replace(rank=0).node == Node.leaf(3)
    assert old._replace(rank=-1).node is None
    assert old._replace(number=0, segments=20).node == Node(0, 20)


def test_under_the_target_nothing_is_merged():
    assert merged(leaves(0, 9), 90) == leaves(0, 9)


def test_above_the_target_as_many_leaves_stay_as_fill_about_two_fifths_of_it():
    assert merged(leaves(0, 13), 120) == [Node(0, 8), *leaves(8, 13)]
    assert merged([Node(0, 8), *leaves(8, 19)], 120) == [Node(0, 16), *leaves(16, 19)]


def test_a_missing_merge_is_waited_for_while_the_header_has_room():
    shown = leaves(0, 13)
    every = [Node(0, 4), Node(0, 8), Node(0, 12)]
    assert merged(shown, 120, most=130, missing=every) == shown
    assert merged(shown, 120, most=125, missing=every) == [Node(0, 8), *leaves(8, 13)]
    assert merged(shown, 120, most=125, missing=every[1:2]) == [Node(0, 12), *leaves(12, 13)]


def test_a_room_too_small_for_the_step_merges_at_the_least_one():
    assert merged(leaves(0, 13), 60, step=16) == [Node(0, 12), *leaves(12, 13)]


def test_too_few_leaves_to_merge_stay():
    assert merged(leaves(0, 3), 1) == leaves(0, 3)


@pytest.mark.parametrize("step", [4, 16])
@given(
    steps=st.lists(st.integers(1, 12), min_size=1, max_size=30),
    target=st.integers(10, 400),
    missing=st.sets(st.integers(1, 90).map(lambda n: Node(0, 4 * n))),
)
@settings(max_examples=100, deadline=None)
def test_a_header_only_grows_at_its_end_until_its_merge_moves_on(step, steps, target, missing):
    shown: list[Node] = []
    count = 0
    for more in steps:
        before, shown = (
            shown,
            merged([*shown, *leaves(count, count + more)], target, most=1.4 * target, step=step, missing=missing),
        )
        count += more
        assert [node.start for node in shown] == [0, *(node.stop for node in shown[:-1])]
        assert shown[-1].stop == count
        assert all(node.width == 1 for node in shown[1:])
        assert shown[: len(before)] == before or shown[0].width > (before[0].width if before else 0)
        total = sum(10 if node.width == 1 else 20 for node in shown)
        assert total <= max(1.4 * target, 20 + 3 * 10 + 10 * (count < 4))
