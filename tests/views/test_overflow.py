"""The ladder by which a view that does not fit its budget is brought into it."""

from __future__ import annotations

from summarizing_context.views.budget import BARE, MAX_SQUEEZE
from summarizing_context.views.folds import Calls
from summarizing_context.views.overflow import Newest, fit
from tests.views.test_cuts import ROOM, at, builder


def newest(answered: int, made: int, stop: int = 2) -> Newest:
    """A group behind a cut with so many calls, the first of which are answered."""
    return Newest(at(stop)[0], Calls(tuple((n,) for n in range(answered)), made), is_open=made > answered)


def test_an_overflowing_view_is_squeezed_as_little_as_will_do():
    build, _ = builder({1: 1_400, 2: 1_600, 3: 1_600})
    assert fit(ROOM, at(1), at(2, 3), newest(0, 0), build).room.squeeze == 1


def test_without_a_good_proposal_the_smallest_that_fits_is_taken():
    build, _ = builder({1: 15_900, 2: 16_000, 3: 0})
    found = fit(ROOM, at(1), at(2, 3), newest(0, 0), build)
    assert (found.cut.stop, found.room.squeeze) == (1, MAX_SQUEEZE)


def test_the_newest_message_alone_is_the_last_resort():
    build, asked = builder({1: 10**6, 2: 2 * 10**5, 3: 900})
    found = fit(ROOM, at(1), at(2, 3), newest(0, 0), build)
    assert (found.cut.stop, found.room.squeeze) == (2, BARE)
    assert (3, 0) not in asked
    build, _ = builder({1: 10**9, 2: 10**9, 3: 0})
    assert fit(ROOM, at(1), at(2, 3), newest(0, 0), build) is None


def test_a_group_that_is_covered_already_is_shown_again_where_nothing_else_fits():
    build, _ = builder({1: 10**6, 2: 2 * 10**5, 3: 10**6})
    found = fit(ROOM, at(3), [], newest(0, 0)._replace(is_covered=True), build)
    assert (found.cut.stop, found.room.is_bare) == (2, True)


def test_as_few_calls_are_folded_as_bring_the_view_well_into_its_room():
    build, _ = builder({2: 16_800, 3: 900})
    found = fit(ROOM, [], at(2, 3), newest(30, 30), build)
    assert (found.cut.stop, found.room.squeeze, found.tail.folded) == (2, MAX_SQUEEZE, tuple(range(16)))


def test_calls_are_folded_only_where_squeezing_leaves_no_room_for_more():
    build, _ = builder({2: 14_000, 3: 0})
    assert fit(ROOM, [], at(2, 3), newest(30, 30), build).tail.folded == ()
    build, _ = builder({2: 14_100, 3: 0})
    assert fit(ROOM, [], at(2, 3), newest(30, 30), build).tail.folded != ()


def test_calls_in_flight_are_folded_before_the_newest_result_is_but_after_all_others():
    build, _ = builder({1: 10**6, 2: 17_200})
    assert fit(ROOM, [], at(1, 2), newest(5, 40), build).tail.folded == tuple(range(4))
    build, _ = builder({1: 10**6, 2: 17_800})
    assert fit(ROOM, [], at(1, 2), newest(5, 40), build).tail.folded == (*range(4), *range(5, 40))
    build, _ = builder({1: 10**6, 2: 10**6})
    assert fit(ROOM, [], at(1, 2), newest(5, 40), build) is None


def test_an_open_group_alone_is_squeezed_before_its_calls_are_folded():
    build, _ = builder({1: 10**6, 2: 1_400})
    found = fit(ROOM, [], at(1, 2), newest(5, 9), build)
    assert (found.cut.stop, found.room.squeeze, found.tail.folded) == (2, 1, ())
