"""Which summaries are still to be made."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.planning import Planner, Want
from summarizing_context.log.tree import Node


class Shelf:
    """Ready nodes; a rollup has a hash once its children are ready. Counts what it is asked."""

    def __init__(self, *ready: Node, hashes: dict[Node, str] | None = None) -> None:
        self.ready = set(ready)
        self.hashes = hashes or {}
        self.asked = 0

    def is_ready(self, node: Node) -> bool:
        self.asked += 1
        return node in self.ready

    def hash_of(self, node: Node) -> str | None:
        if all(child in self.ready for child in node.children):
            return self.hashes.get(node, f"{node.rank}-{node.number}")
        return None


def nodes(wants: list[Want]) -> list[Node]:
    return [want.node for want in wants]


def leaves(count: int) -> list[Node]:
    return [Node(0, n) for n in range(count)]


def test_the_oldest_missing_segments_come_first_up_to_the_limit():
    assert nodes(Planner(Shelf(Node(0, 0), Node(0, 2))).plan(6, (), 2)) == [Node(0, 1), Node(0, 3)]


def test_a_rollup_is_wanted_when_its_children_are_ready():
    assert nodes(Planner(Shelf(*leaves(4))).plan(5, (), 9)) == [Node(0, 4), Node(1, 0)]
    assert nodes(Planner(Shelf(*leaves(3))).plan(4, (), 9)) == [Node(0, 3)]


def test_without_rollups_only_segments_are_wanted():
    assert nodes(Planner(Shelf(*leaves(4)), rollups=False).plan(5, (), 9)) == [Node(0, 4)]


def test_what_is_busy_is_not_planned_again():
    assert nodes(Planner(Shelf()).plan(3, {"0-0", "0-2"}, 9)) == [Node(0, 1)]


def test_equal_contents_are_wanted_once():
    shelf = Shelf(hashes={Node(0, 0): "same", Node(0, 1): "same"})
    assert nodes(Planner(shelf).plan(3, (), 9)) == [Node(0, 0), Node(0, 2)]


def test_planning_asks_nothing_of_what_it_knows_to_be_ready():
    shelf = Shelf(*leaves(1_000))
    planner = Planner(shelf, rollups=False)
    planner.plan(1_000, (), 8)
    shelf.asked = 0
    assert nodes(planner.plan(1_001, (), 8)) == [Node(0, 1_000)]
    assert shelf.asked <= 2


def test_what_can_never_be_made_does_not_make_planning_dear():
    shelf = Shelf(*(set(leaves(1_000)) - {Node(0, 3), Node(0, 500)}))
    planner = Planner(shelf)
    planner.plan(1_000, (), 8)
    shelf.ready |= {Node(1, n) for n in range(250)} - {Node(1, 0), Node(1, 125)}
    planner.plan(1_000, (), 8)
    shelf.asked = 0
    assert nodes(planner.plan(1_001, {"0-3", "0-500"}, 8))[:1] == [Node(0, 1_000)]
    assert shelf.asked < 100


def test_after_a_reset_everything_is_looked_at_again():
    shelf = Shelf(*leaves(3))
    planner = Planner(shelf)
    assert planner.plan(3, (), 9) == []
    shelf.ready.clear()
    assert planner.plan(3, (), 9) == []
    planner.reset()
    assert nodes(planner.plan(3, (), 9)) == leaves(3)


def test_pending_counts_what_could_be_made_now():
    assert Planner(Shelf(*leaves(4))).pending(6) == 3


@given(st.integers(0, 90), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_making_what_is_planned_makes_everything_once(count, random):
    shelf, made = Shelf(), []
    planner = Planner(shelf)
    while wants := planner.plan(count, (), random.randint(1, 5)):
        for want in random.sample(wants, len(wants)):
            made.append(want.node)
            shelf.ready.add(want.node)
    complete = [Node(rank, n) for rank in range(5) for n in range(count // 4**rank)]
    assert sorted(made) == complete
