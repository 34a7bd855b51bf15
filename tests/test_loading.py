"""Bringing back what a session was shown."""

from __future__ import annotations

import pytest

from summarizing_context.sessions.activations import usable_state
from summarizing_context.views.view import ActivationState, encode_state
from tests.making import answer, one_call, timeline, user

LOG = [user("go"), one_call("a", "b"), answer("a"), answer("b"), user("more"), one_call("c"), answer("x")]


def restored(log: list[dict], stop: int) -> ActivationState | None:
    return usable_state(timeline(log), encode_state(ActivationState(serial=1, stop=stop)))


@pytest.mark.parametrize("stop", [0, 1, 4, 5, 6, 7])
def test_a_state_that_ends_between_groups_is_taken_up(stop: int):
    assert restored(LOG, stop) == ActivationState(serial=1, stop=stop)


@pytest.mark.parametrize("stop", [2, 3, 8])
def test_a_state_of_a_log_that_was_cut_into_other_groups_is_made_anew(stop: int):
    assert restored(LOG, stop) is None


def test_a_state_may_end_before_an_open_group_and_not_in_it():
    log = [user("go"), one_call("a", "b"), answer("a")]
    assert restored(log, 1) is not None
    assert restored(log, 2) is None
