"""The caps: hard, over a sliding hour and over the session."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.summarizers.resilience.limits import HOUR, Caps, Limits


def caps(**limits: Any) -> Caps:
    return Caps(Limits(**limits))


def test_without_caps_there_is_always_room():
    free = caps()
    assert all(free.admit(0.0, 10_000) for _ in range(100))
    assert (free.ready_in(0.0), free.calls, free.tokens) == (0.0, 100, 1_000_000)


def test_an_hourly_cap_on_calls_has_room_again_when_the_oldest_call_is_an_hour_old():
    hourly = caps(max_calls_per_hour=2)
    assert hourly.admit(0.0, 1)
    assert hourly.admit(60.0, 1)
    assert hourly.admit(100.0, 1) is None
    assert hourly.ready_in(100.0) == HOUR - 100.0
    assert hourly.admit(HOUR, 1)
    assert hourly.ready_in(HOUR) == 60.0


def test_an_hourly_cap_on_tokens_waits_for_as_many_old_calls_as_the_size_needs():
    hourly = caps(max_input_tokens_per_hour=100)
    for at in (0.0, 10.0, 20.0):
        assert hourly.admit(at, 30)
    assert hourly.room_in(30.0, 10) == 0.0
    assert hourly.room_in(30.0, 40) == HOUR - 30.0
    assert hourly.room_in(30.0, 70) == HOUR - 20.0


def test_a_call_held_back_for_its_size_keeps_its_place():
    hourly = caps(max_input_tokens_per_hour=100)
    assert hourly.admit(0.0, 90)
    assert hourly.ready_in(0.0) == 0.0
    assert hourly.admit(0.0, 50) is None
    assert hourly.ready_in(0.0) == HOUR
    assert hourly.admit(HOUR, 50)
    assert hourly.ready_in(HOUR) == 0.0


@pytest.mark.parametrize("limits", [{"max_calls_per_session": 1}, {"max_input_tokens_per_session": 10}])
def test_a_session_cap_leaves_no_room_ever(limits: dict[str, int]):
    session = caps(**limits)
    assert session.admit(0.0, 10)
    assert session.admit(1e9, 10) is None
    assert session.ready_in(1e9) is None


@pytest.mark.parametrize(
    "name", ["max_calls_per_hour", "max_input_tokens_per_hour", "max_calls_per_session", "max_input_tokens_per_session"]
)
def test_a_cap_of_zero_means_no_call_at_all(name: str):
    assert caps(**{name: 0}).ready_in(0.0) is None


def test_a_call_larger_than_the_hourly_cap_can_never_be_sent():
    assert caps(max_input_tokens_per_hour=10).room_in(0.0, 11) is None


def test_reported_tokens_replace_the_estimate():
    both = caps(max_input_tokens_per_hour=100, max_input_tokens_per_session=1000)
    spent = both.admit(0.0, 90)
    assert spent is not None
    both.correct(spent, 20)
    assert (both.tokens, both.room_in(0.0, 80)) == (20, 0.0)


def test_reported_tokens_that_come_after_an_hour_count_for_the_session_only():
    hourly = caps(max_input_tokens_per_hour=100)
    spent = hourly.admit(0.0, 10)
    assert spent is not None
    assert hourly.room_in(HOUR, 100) == 0.0
    hourly.correct(spent, 50)
    assert (hourly.tokens, hourly.room_in(HOUR, 100)) == (50, 0.0)


def test_each_cap_is_warned_of_once_at_four_fifths():
    warned = caps(max_calls_per_session=10, max_input_tokens_per_hour=100)
    told = []
    for at in range(9):
        assert warned.admit(float(at), 10)
        told.append([(warning.name, warning.used, warning.cap) for warning in warned.new_warnings(float(at))])
    assert told[:7] == [[]] * 7
    assert told[7] == [("max_input_tokens_per_hour", 80, 100), ("max_calls_per_session", 8, 10)]
    assert told[8] == []


cap = st.none() | st.integers(1, 6)
token_cap = st.none() | st.integers(1, 60)
calls = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 25), st.none() | st.integers(0, 25)), max_size=40)


@settings(max_examples=200, deadline=None)
@given(calls, cap, token_cap, cap, token_cap)
def test_room_is_what_a_plain_count_says(calls, hour_calls, hour_tokens, session_calls, session_tokens):
    limits = (hour_calls, hour_tokens, session_calls, session_tokens)
    names = (
        "max_calls_per_hour",
        "max_input_tokens_per_hour",
        "max_calls_per_session",
        "max_input_tokens_per_session",
    )
    counted, sent, now = caps(**dict(zip(names, limits, strict=True))), [], 0.0
    for wait, tokens, reported in calls:
        now += wait
        fits = fits_plainly(sent, now, tokens, limits)
        spent = counted.admit(now, tokens)
        assert (spent is not None) == fits
        if spent is None:
            later = counted.ready_in(now)
            if later is not None:
                assert fits_plainly(sent, now + later, tokens, limits)
                assert not fits_plainly(sent, now + later - 1, tokens, limits)
            continue
        if reported is not None:
            counted.correct(spent, reported)
        sent.append((now, tokens if reported is None else reported))
        assert (counted.calls, counted.tokens) == (len(sent), sum(size for _, size in sent))


def fits_plainly(sent: list[tuple[float, int]], now: float, tokens: int, limits: tuple[int | None, ...]) -> bool:
    recent = [size for at, size in sent if now - at < HOUR]
    used = (len(recent) + 1, sum(recent) + tokens, len(sent) + 1, sum(size for _, size in sent) + tokens)
    return all(cap is None or amount <= cap for amount, cap in zip(used, limits, strict=True))
