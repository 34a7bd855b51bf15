"""The breaker: when it opens, who may probe, and what late outcomes mean."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.summarizers.resilience.limits import Breaker, Ticket


def breaker(failures: int = 3, cooldown: float = 10.0) -> Breaker:
    return Breaker(failures=failures, cooldown=cooldown)


def begun(breaker: Breaker, now: float = 0.0) -> Ticket:
    ticket = breaker.begin(now)
    assert ticket is not None
    return ticket


def tripped(now: float = 0.0) -> Breaker:
    """A breaker of one failure, just opened."""
    one = breaker(failures=1)
    one.failed(begun(one, now), now)
    return one


def test_failures_in_a_row_open_it():
    b = breaker(failures=3)
    for _ in range(2):
        b.failed(begun(b), 0.0)
        assert b.state(0.0) == "closed"
    b.failed(begun(b), 0.0)
    assert (b.state(0.0), b.ready_in(0.0), b.begin(0.0)) == ("open", 10.0, None)


def test_a_success_in_between_starts_the_count_anew():
    b = breaker(failures=2)
    for _ in range(5):
        b.failed(begun(b), 0.0)
        b.succeeded(begun(b))
    assert b.state(0.0) == "closed"


def test_after_the_cooldown_one_probe_at_a_time_is_let_through():
    b = tripped()
    assert (b.state(10.0), b.ready_in(10.0)) == ("half_open", 0.0)
    begun(b, 10.0)
    assert b.begin(10.0) is None
    assert b.ready_in(10.0) > 0


def test_a_good_probe_closes_it():
    b = tripped()
    b.succeeded(begun(b, 10.0))
    assert (b.state(10.0), b.ready_in(10.0)) == ("closed", 0.0)


def test_a_failed_probe_opens_it_for_another_cooldown():
    b = tripped()
    b.failed(begun(b, 12.0), 13.0)
    assert (b.state(13.0), b.ready_in(13.0)) == ("open", 10.0)


def test_a_cancelled_probe_makes_room_for_the_next():
    b = tripped()
    b.abandoned(begun(b, 10.0))
    assert (b.state(10.0), b.ready_in(10.0)) == ("half_open", 0.0)


def test_a_late_success_does_not_close_it():
    b = breaker(failures=1)
    late = begun(b)
    b.failed(begun(b), 0.0)
    b.succeeded(late)
    assert b.state(0.0) == "open"


def test_a_late_failure_neither_prolongs_the_cooldown_nor_spoils_the_probe():
    b = breaker(failures=1)
    late, later = begun(b), begun(b)
    b.failed(begun(b), 0.0)
    b.failed(late, 9.0)
    assert b.ready_in(9.0) == 1.0
    probe = begun(b, 10.0)
    b.failed(later, 11.0)
    b.succeeded(probe)
    assert b.state(11.0) == "closed"


def test_a_provider_that_asks_for_a_longer_pause_gets_it():
    b = breaker(failures=1)
    b.failed(begun(b), 0.0, retry_after=100.0)
    assert b.ready_in(0.0) == 100.0


def test_one_asked_for_pause_holds_new_jobs_back_without_a_probe_after_it():
    b = breaker(failures=3)
    b.failed(begun(b), 0.0, retry_after=5.0)
    assert (b.state(0.0), b.ready_in(0.0), b.tripped) == ("open", 5.0, False)
    assert b.begin(1.0) is not None  # a job that is under way has waited for its own pause
    assert (b.state(5.0), b.ready_in(5.0)) == ("closed", 0.0)


@dataclass
class Model:
    """The breaker told in the plainest way, for calls that end before the next begins."""

    failures_allowed: int
    cooldown: float
    in_a_row: int = 0
    open_until: float | None = None
    quiet_until: float = 0.0

    def may_call(self, now: float) -> bool:
        return now >= max(self.quiet_until, self.open_until or 0.0)

    def end(self, good: bool, now: float, retry_after: float) -> None:
        if good:
            self.in_a_row, self.open_until = 0, None
            return
        self.in_a_row += 1
        self.quiet_until = max(self.quiet_until, now + retry_after)
        if self.open_until is not None or self.in_a_row >= self.failures_allowed:
            self.open_until = now + self.cooldown


steps = st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.sampled_from([0, 0, 0, 5, 50])), max_size=40)


@settings(max_examples=150, deadline=None)
@given(steps, st.integers(1, 4), st.integers(1, 20))
def test_calls_one_by_one_go_as_in_the_plain_model(steps, failures, cooldown):
    b, model, now = breaker(failures, cooldown), Model(failures, cooldown), 0.0
    for wait, good, retry_after in steps:
        now += wait
        assert (b.ready_in(now) == 0.0) == model.may_call(now)
        if not model.may_call(now):
            continue
        ticket = begun(b, now)
        if good:
            b.succeeded(ticket)
        else:
            b.failed(ticket, now, retry_after)
        model.end(good, now, retry_after)
        assert (b.state(now) == "closed") == (model.open_until is None and model.may_call(now))


def end(b: Breaker, ticket: Ticket, how: str, now: float) -> None:
    if how == "bad":
        b.failed(ticket, now)
    else:
        {"good": b.succeeded, "gone": b.abandoned}[how](ticket)


moves = st.lists(st.tuples(st.sampled_from(["begin", "good", "bad", "gone", "wait"]), st.integers(0, 20)), max_size=80)


@settings(max_examples=200, deadline=None)
@given(moves, st.integers(1, 3))
def test_whatever_happens_at_once_a_tripped_breaker_has_one_call_under_way_and_always_recovers(moves, failures):
    b, now, under_way, probes = breaker(failures), 0.0, [], []
    for move, number in moves:
        if move == "wait":
            now += number
        elif move == "begin":
            was_tripped, ticket = b.tripped, b.begin(now)
            if ticket is not None:
                under_way.append(ticket)
                probes += [ticket] if was_tripped else []
        elif under_way:
            ticket = under_way.pop(number % len(under_way))
            end(b, ticket, move, now)
        assert not b.tripped or sum(probe in under_way for probe in probes) <= 1
    for ticket in under_way:
        b.abandoned(ticket)
    now += b.ready_in(now)
    b.succeeded(begun(b, now))
    assert (b.state(now), b.ready_in(now)) == ("closed", 0.0)
