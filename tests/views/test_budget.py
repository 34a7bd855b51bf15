"""How many tokens a view may use, and how they are shared out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.errors import SettingsError
from summarizing_context.views.budget import BARE, LEAST_CAP, TIGHT, choose_budget
from tests.making import room


def budget(token_budget: object = None, window: int | None = None, output: int | None = None, **more: object) -> int:
    given = {"max_tokens": 100_000, "cap": False, "margin": 1_000, **more}
    return choose_budget(token_budget, window, output, **given)  # type: ignore[arg-type]


def test_a_given_budget_is_taken_exactly():
    assert budget(123, 200_000, 8_000, cap=True, max_tokens=50) == 123


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "100", [], float("nan"), 10**400])
def test_a_budget_that_is_no_positive_int_is_refused(wrong):
    with pytest.raises(SettingsError, match="token_budget"):
        budget(wrong)


def test_a_window_gives_its_size_less_output_and_margin():
    assert budget(None, 200_000, 8_000) == 191_000
    assert budget(None, 200_000, 0) == 199_000


def test_an_answer_of_untold_size_is_given_4096_tokens():
    assert budget(None, 100_000, None) == 100_000 - 4_096 - 1_000


def test_max_tokens_caps_the_window_only_where_somebody_set_it():
    assert budget(None, 200_000, 8_000, cap=True) == 100_000
    assert budget(None, 50_000, 8_000, cap=True) == 41_000


def test_without_a_window_max_tokens_is_the_budget():
    assert budget() == budget(None, 0) == 100_000


def test_a_tiny_window_keeps_half_for_the_view():
    assert budget(None, 1_000, 4_000) == 250


@given(st.integers(4, 10**6), st.none() | st.integers(0, 10**6))
def test_any_window_gives_a_positive_budget_below_it(window, output):
    assert 0 < budget(None, window, output) <= window


def test_shares_are_of_the_room():
    assert (room(1_000).high, room(1_000).low, room(1_000).min_free) == (850, 160, 120)


def test_shares_are_of_what_messages_that_must_stay_leave_but_an_activation_frees_as_much_as_ever():
    found = room(1_000).setting_aside(600)
    assert (found.shared, found.high, found.low, found.min_free) == (400, 600 + 340, 64, 120)
    assert found.header_share == room(400).header_share
    assert found.message_cap(0) == room(400).message_cap(0)


@given(st.integers(40, 10**6), st.floats(0.01, 0.4), st.integers(0, 10**7))
def test_messages_that_must_stay_leave_the_floor_in_any_room(tokens, min_free, wanted):
    found = room(tokens, min_free=min_free).setting_aside(wanted)
    assert found.shared >= min(tokens, max(128, tokens / 3, 2 * found.min_free))
    assert found.staying == min(wanted, found.staying_cap)


def test_each_squeeze_halves_what_may_be_taken_but_not_the_waters():
    plain, squeezed = room(8_000), room(8_000, squeeze=2)
    assert squeezed.header_share == plain.header_share / 4
    assert squeezed.header_target == plain.header_target / 4
    assert squeezed.pin_cap == plain.pin_cap // 4
    assert squeezed.message_cap(0) == plain.message_cap(0) // 4
    assert (squeezed.high, squeezed.low, squeezed.min_free) == (plain.high, plain.low, plain.min_free)


def test_a_squeezed_header_takes_what_is_spare_but_no_more_than_without_a_squeeze():
    plain, squeezed = room(8_000), room(8_000, squeeze=2)
    assert squeezed._replace(spare=2_500).header_share == 2_500
    assert squeezed._replace(spare=1_500).header_target == 1_500
    assert squeezed._replace(spare=9_000).header_share == plain.header_share
    assert squeezed._replace(spare=-5).header_share == squeezed.header_share
    assert squeezed._replace(spare=9_000).message_cap(0) == squeezed.message_cap(0)


def test_the_first_message_of_a_group_is_held_by_both_shares():
    assert room(10_000).message_cap(0) == 2_000
    assert room(10_000, group_share=0.9).message_cap(0) == 2_500


def test_a_long_group_leaves_less_for_each_further_message_but_never_nothing():
    caps = [room(10_000).message_cap(shown) for shown in (0, 1_000, 3_000, 4_000, 9_000)]
    assert caps == [2_000, 1_500, 500, LEAST_CAP, LEAST_CAP]
    assert room(10_000, squeeze=4).message_cap(9_000) == LEAST_CAP >> 4


def test_where_halves_do_not_fit_short_messages_stay_whole_and_long_ones_are_cut_alike():
    tight = room(8_000, squeeze=TIGHT).holding([100, *[9_000] * 8, 200])
    assert tight.cap == (4_000 - 300) // 9
    assert tight.message_cap(0) == tight.message_cap(99_999) == tight.cap
    assert tight.pin_cap < room(8_000, squeeze=TIGHT).pin_cap
    assert room(100, squeeze=TIGHT).holding([500] * 500).cap == 4


def test_the_newest_message_alone_takes_half_of_the_room():
    assert room(8_000, squeeze=BARE).message_cap(0) == 4_000
