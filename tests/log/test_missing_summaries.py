"""Which summaries are still to be made."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.missing_summaries import Planner, Want
from summarizing_context.log.tree import Node
from summarizing_context.worker.covered_ranges import merges_below


class Known:
    """Ready nodes, and merges that views need; one has a hash once its children are ready. Counts what it is asked."""

    def __init__(self, *ready: Node, hashes: dict[Node, str] | None = None, needed: Iterable[Node] = ()) -> None:
        self.ready = set(ready)
        self.needed = list(needed)
        self.hashes = hashes or {}
        self.asked = 0

    def is_ready(self, node: Node) -> bool:
        self.asked += 1
        return node in self.ready

    def hash_of(self, node: Node) -> str | None:
        if all(child in self.ready for child in node.children):
            return self.hashes.get(node, f"{node.start}-{node.stop}")
        return None

    def needed_merges(self) -> list[Node]:
        return self.needed


def nodes(wants: list[Want]) -> list[Node]:
    return [want.node for want in wants]


def leaves(count: int) -> list[Node]:
    return [Node.leaf(n) for n in range(count)]


def test_the_oldest_missing_segments_come_first_up_to_the_limit():
    assert nodes(Planner(Known(Node.leaf(0), Node.leaf(2))).plan(6, (), 2)) == [Node.leaf(1), Node.leaf(3)]


def test_a_merge_is_wanted_when_a_view_needs_it_and_its_children_are_ready():
    assert nodes(Planner(Known(*leaves(4), needed=[Node(0, 4)])).plan(5, (), 9)) == [Node.leaf(4), Node(0, 4)]
    assert nodes(Planner(Known(*leaves(4))).plan(4, (), 9)) == []
    assert nodes(Planner(Known(*leaves(3), needed=[Node(0, 4)])).plan(4, (), 9)) == [Node.leaf(3)]


def test_what_a_needed_merge_lacks_is_made_first():
    known = Known(*leaves(36), needed=[Node(0, 36)])
    planner = Planner(known)
    assert nodes(planner.plan(36, (), 9)) == [Node(0, 16), Node(16, 32)]
    known.ready |= {Node(0, 16), Node(16, 32)}
    assert nodes(planner.plan(36, (), 9)) == [Node(0, 36)]


def test_blocks_are_made_ahead_where_merges_cost_nothing_and_each_is_looked_at_until_it_is_ready():
    known = Known(*leaves(256))
    planner = Planner(known, blocks=True)
    small = [Node(start, start + 16) for start in range(0, 256, 16)]
    assert nodes(planner.plan(256, (), 99)) == small
    known.ready |= set(small[:15])
    assert nodes(planner.plan(256, (), 99)) == small[15:]
    known.ready |= set(small)
    assert nodes(planner.plan(256, (), 99)) == [Node(0, 256)]
    known.ready.add(Node(0, 256))
    assert planner.plan(256, (), 99) == []
    known.asked = 0
    assert planner.plan(256, (), 99) == []
    assert known.asked == 0
    assert planner.merges(256 + 17) == [*small, Node(0, 256), Node(256, 272)]


def test_without_rollups_only_segments_are_wanted():
    assert nodes(Planner(Known(*leaves(4), needed=[Node(0, 4)]), rollups=False).plan(5, (), 9)) == [Node.leaf(4)]
    assert nodes(Planner(Known(*leaves(17)), rollups=False, blocks=True).plan(17, (), 9)) == []


def test_what_is_busy_is_not_planned_again():
    assert nodes(Planner(Known()).plan(3, {"0-1", "2-3"}, 9)) == [Node.leaf(1)]


def test_equal_contents_are_wanted_once():
    known = Known(hashes={Node.leaf(0): "same", Node.leaf(1): "same"})
    assert nodes(Planner(known).plan(3, (), 9)) == [Node.leaf(0), Node.leaf(2)]


def test_planning_asks_nothing_of_what_it_knows_to_be_ready():
    known = Known(*leaves(1_000))
    planner = Planner(known, rollups=False)
    planner.plan(1_000, (), 8)
    known.asked = 0
    assert nodes(planner.plan(1_001, (), 8)) == [Node.leaf(1_000)]
    assert known.asked <= 2


def test_what_can_never_be_made_does_not_make_planning_dear():
    known = Known(*(set(leaves(1_000)) - {Node.leaf(3), Node.leaf(500)}))
    known.needed = [Node(0, 1_000)]
    planner = Planner(known)
    planner.plan(1_000, (), 8)
    blocks = {Node(n, n + 16) for n in range(0, 992, 16)} | {Node(n, n + 256) for n in range(0, 768, 256)}
    known.ready |= {block for block in blocks if not {3, 500} & {*range(*block)}}
    planner.plan(1_000, (), 8)
    known.asked = 0
    assert nodes(planner.plan(1_001, {"3-4", "500-501"}, 8))[:1] == [Node.leaf(1_000)]
    assert known.asked < 100


def test_after_a_reset_everything_is_looked_at_again():
    known = Known(*leaves(3))
    planner = Planner(known)
    assert planner.plan(3, (), 9) == []
    known.ready.clear()
    assert planner.plan(3, (), 9) == []
    planner.reset()
    assert nodes(planner.plan(3, (), 9)) == leaves(3)


def test_pending_counts_what_could_be_made_now():
    assert Planner(Known(*leaves(4), needed=[Node(0, 4)])).pending(6) == 3


@given(st.integers(0, 600), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_making_what_is_planned_makes_every_segment_and_all_of_the_merge_once(count, random):
    known, made = Known(needed=[Node(0, count)] if count > 1 else []), []
    planner = Planner(known)
    while wants := planner.plan(count, (), random.randint(1, 50)):
        for want in random.sample(wants, len(wants)):
            made.append(want.node)
            known.ready.add(want.node)
    below = [node for rank in merges_below(known.needed) for node in rank]
    assert sorted(made) == sorted([*leaves(count), *below])
