"""Where a log is cut into segments."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.segments import Group, Limits, Segment, SegmentCutter
from tests.making import SMALL

NEVER = b"\x01" * 32  # a digest that asks for no cut before the target's rule, nor after it


def cut(groups: list[Group], limits: Limits = SMALL) -> list[Segment]:
    cutter = SegmentCutter(limits)
    return [segment for group in groups for segment in cutter.add(group)]


def groups(*sizes: int, digest: bytes = NEVER, turns: bool = False) -> list[Group]:
    return [Group(n, n + 1, size, digest, turns) for n, size in enumerate(sizes)]


def stops(segments: list[Segment]) -> list[int]:
    return [segment.stop for segment in segments]


def test_no_cut_stands_below_the_minimum():
    assert cut(groups(*[33] * 3, digest=b"\x00" * 32, turns=True)) == []


def test_above_the_minimum_a_group_that_asks_for_it_ends_a_segment():
    assert stops(cut(groups(60, 60, digest=b"\x20" * 32))) == [2]
    assert stops(cut(groups(60, 60, digest=b"\x08" * 32))) == []


def test_a_turn_that_asks_for_it_begins_a_segment():
    assert stops(cut(groups(60, 60, 60, digest=b"\x08" * 32, turns=True))) == [2]


def test_above_the_target_any_turn_begins_a_segment():
    assert stops(cut(groups(99, 99, 99, 99, turns=True))) == [3]


def test_above_the_target_a_quarter_of_the_groups_end_one():
    assert stops(cut(groups(99, 99, 99, digest=b"\x04" * 32))) == [3]


def test_the_maximum_forces_a_cut_before_the_group_that_would_pass_it():
    assert cut(groups(150, 150, 150)) == [Segment(0, 2, 300)]


def test_a_group_larger_than_the_maximum_becomes_leaves_of_its_own():
    found = cut(groups(50, 1_000, 50))
    assert found[0] == Segment(0, 1, 50)
    assert [(s.start, s.stop, s.part, s.parts, s.last_part) for s in found[1:]] == [
        (1, 2, part, 4, part == 3) for part in range(4)
    ]
    assert SMALL.maximum >= 1_000 / 4


GROUPS = st.lists(st.tuples(st.integers(4, 600), st.integers(0, 255), st.booleans()), max_size=60).map(
    lambda rows: [Group(n, n + 1, size, bytes([byte]), turn) for n, (size, byte, turn) in enumerate(rows)]
)


@given(GROUPS)
@settings(max_examples=150, deadline=None)
def test_segments_join_without_gap_hold_every_group_and_stay_within_the_limits(made):
    found = cut(made)
    at = 0
    for segment in found:
        if segment.part == 0:
            assert segment.start == at
        at = segment.stop
        inside = made[segment.start : segment.stop]
        assert segment.size == sum(group.size for group in inside)
        assert segment.size <= SMALL.maximum or (len(inside) == 1 and segment.size / segment.parts <= SMALL.maximum)


@given(GROUPS, st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_the_segments_of_a_prefix_are_a_prefix(made, length):
    part = cut(made[:length])
    assert cut(made)[: len(part)] == part


def test_cuts_fall_back_into_step_after_an_inserted_group():
    def hashed(n: int) -> Group:
        digest = hashlib.sha256(str(n).encode()).digest()
        return Group(n, n + 1, 10 + digest[0] % 60, digest, digest[1] % 5 == 0)

    log = [hashed(n) for n in range(3_000)]
    shifted = [hashed(9_999), *log]
    at = {group.digest: n for n, group in enumerate(log)}
    plain = {log[stop - 1].digest for stop in stops(cut(log, Limits()._replace(minimum=200, target=400, maximum=800)))}
    renumbered = [group._replace(start=n, stop=n + 1) for n, group in enumerate(shifted)]
    moved = cut(renumbered, Limits(200, 400, 800))
    other = {shifted[stop - 1].digest for stop in stops(moved)}
    assert len(plain) > 150
    assert len(plain - other) <= 10
    assert max((at[digest] for digest in plain - other), default=0) < 300
