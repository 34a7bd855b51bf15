"""The pace of a decision: what is done is kept, and no slice goes on for long."""

from __future__ import annotations

import pytest

from summarizing_context.concurrency import MOST_APART, SLICE, Pace, Pause


def decided(pace: Pace, made: list[int], steps: int) -> int:
    """Decide in as many steps; how many slices it took."""
    slices = 0
    with pace.decision():
        while True:
            slices += 1
            try:
                with pace.slice():
                    for step in range(steps):
                        pace.once(step, lambda step=step: made.append(step), 1)
                return slices
            except Pause:
                continue


def test_each_slice_gets_further_and_nothing_is_worked_out_twice():
    pace, made = Pace(), list[int]()
    assert decided(pace, made, 4 * SLICE) == 4
    assert made == list(range(4 * SLICE))
    decided(pace, made, 1)
    assert made[-1] == 0, "another decision keeps nothing of the last"


def test_who_may_not_wait_is_never_paused():
    pace, made = Pace(), list[int]()
    with pace.decision():
        pace.spend(10 * SLICE)
        for _ in range(2):
            assert pace.once_apart("long", lambda: made.append(1)) is None
    assert made == [1]
    assert pace.once("outside", lambda: 1) == 1


def test_long_work_is_handed_out_and_its_result_taken():
    pace = Pace()
    with pace.decision():
        with pytest.raises(Pause) as pausing, pace.slice():
            pace.once_apart("long", lambda: "made")
        assert pausing.value.work is not None
        pausing.value.work()
        with pace.slice():
            assert pace.once_apart("long", lambda: "again") == "made"


def test_a_decision_that_asks_for_threads_again_and_again_goes_on_without():
    pace, handed_out = Pace(), 0
    with pace.decision():
        while True:
            try:
                with pace.slice():
                    pace.apart(lambda: None)
                break
            except Pause:
                handed_out += 1
    assert handed_out == MOST_APART
